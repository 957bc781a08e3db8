"""A pytest plugin that runs PyIceberg's own tests on sealberg's catalogs.

    SEALBERG_SUITE=pyiceberg    PyIceberg's own catalogs: what passes here is what the other two are measured by
    SEALBERG_SUITE=plain        sealberg's catalogs, tables without a key
    SEALBERG_SUITE=encrypted    sealberg's catalogs, every new table gets `encryption.key-id`
    SEALBERG_SUITE=differing    as plain, and only the tests that fail on encrypted tables

The names `load_catalog`, `SqlCatalog`, `InMemoryCatalog`, `RestCatalog`, `HiveCatalog` and `GlueCatalog` are replaced
in PyIceberg's modules before a test imports them. Tests for which PyIceberg starts a REST server in Docker get a SQL
catalog in a temporary folder; tests that need Docker's Spark or Hive are left out.

Tests that make no catalog never come to sealberg's code and are left out. Which others are left out, and which tests
are expected to fail, is in `expected.toml` (see `expected.py`).
"""

from __future__ import annotations

import os
import sys
import tempfile
import types
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from pyiceberg import catalog as catalogs
from pyiceberg.catalog import glue, hive, memory, rest, sql

from pyiceberg_suite.expected import LIST, read_expected

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog

SUITE: Final = os.environ["SEALBERG_SUITE"]
MODE: Final = "plain" if SUITE == "differing" else SUITE
KEY_ID: Final = "suite"
KMS: Final = {"encryption.kms-type": "memory", f"encryption.kms.memory.key.{KEY_ID}": "ab" * 16}
DOCKER: Final = "http://localhost:8181"
SERVERS: Final = ("session_catalog_hive", "rest_catalog", "hive_catalog", "rest_test_catalog", "hive_test_catalog")
VERSIONED: Final = "arrow_table_v"  # tables of each version, made in the set-up of tests that read them with Spark
WHOLE: Final = {  # files whose tests make catalogs themselves, or read manifests, which sealberg's decoder does
    "tests/catalog/test_glue.py",
    "tests/catalog/test_rest.py",
    "tests/catalog/test_sql.py",
    "tests/cli/test_console.py",
    "tests/utils/test_manifest.py",
}
FOLDER: Final = tempfile.TemporaryDirectory(prefix="sealberg-suite-", ignore_cleanup_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    expected = read_expected(MODE)
    if unknown := expected.unknown({item.nodeid for item in items}):
        raise pytest.UsageError(f"{LIST.name} names tests that are not there: {', '.join(sorted(unknown))}")
    kept = [item for item in items if _is_ours(item) and not _needs_docker(item) and not expected.left_out(item.nodeid)]
    if SUITE == "differing":
        encrypted = read_expected("encrypted")
        kept = [item for item in kept if encrypted.failure(item.nodeid)]
    for item in kept:
        reason = expected.failure(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if len(kept) < len(items):
        left = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = kept


def _is_ours(item: pytest.Item) -> bool:
    """Whether the test makes a catalog; all others never come to sealberg's code."""
    path = item.nodeid.partition("::")[0]
    return path in WHOLE or any("catalog" in name for name in getattr(item, "fixturenames", ()))


def _needs_docker(item: pytest.Item) -> bool:
    """Spark, or a server for which no SQL catalog can stand in; each such test has a twin on a SQL catalog."""
    cases = item.nodeid.partition("[")[2]
    return "spark" in getattr(item, "fixturenames", ()) or any(name in cases for name in SERVERS)


def _docker_catalog() -> Catalog:
    made: Catalog = sql.SqlCatalog("local", uri=f"sqlite:///{FOLDER.name}/c.db", warehouse=f"file://{FOLDER.name}/wh")
    made.create_namespace_if_not_exists("default")
    return made


def _replace_catalogs() -> None:
    import sealberg
    from sealberg.catalogs import load as ours

    made: dict[str, Any] = {}
    for kind, module in (("sql", sql), ("in-memory", memory), ("rest", rest), ("hive", hive), ("glue", glue)):
        name = {"sql": "SqlCatalog", "in-memory": "InMemoryCatalog"}.get(kind, f"{kind.title()}Catalog")
        made[kind] = _encrypting(ours._sealed(kind)) if MODE == "encrypted" else ours._sealed(kind)
        setattr(module, name, made[kind])
    setattr(ours, "_sealed", made.__getitem__)  # noqa: B010 (load_catalog must make the same classes)
    setattr(catalogs, "load_catalog", sealberg.load_catalog)  # noqa: B010


def _encrypting(sealed: Any) -> Any:
    """The catalog, with a KMS and a key for every new table that has none."""

    class Encrypting(sealed):  # type: ignore[misc]
        @property
        def _own_properties(self) -> dict[str, str]:
            return {**super()._own_properties, **KMS}

    def creating(method: str) -> Any:
        def create(self: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > 5:
                args, kwargs["properties"] = args[:5], args[5]
            given = dict(kwargs.get("properties") or {})
            if VERSIONED not in str(args[:1] or kwargs.get("identifier")):
                given.pop("format-version", None)
                kwargs["properties"] = {"encryption.key-id": KEY_ID, **given}
            return getattr(super(Encrypting, self), method)(*args, **kwargs)

        return create

    for method in ("create_table", "create_table_transaction", "create_table_if_not_exists"):
        setattr(Encrypting, method, creating(method))
    Encrypting.__name__ = Encrypting.__qualname__ = sealed.__name__
    return Encrypting


def _datafusion() -> types.ModuleType:
    """What tests of upserts use of DataFusion, a package of 100 MB: rows from a SELECT."""

    class Rows:
        def __init__(self, query: str) -> None:
            self._query = query

        def to_arrow_table(self) -> pa.Table:
            return duckdb.connect().sql(self._query).to_arrow_table()

    class SessionContext:
        def sql(self, query: str) -> Rows:
            return Rows(query)

    module = types.ModuleType("datafusion")
    module.SessionContext = SessionContext  # type: ignore[attr-defined]
    return module


def _replace() -> None:
    """As soon as the plugin is imported: PyIceberg's conftest imports the names before any hook is called."""
    sys.modules["datafusion"] = _datafusion()
    if MODE != "pyiceberg":
        _replace_catalogs()
    load = catalogs.load_catalog

    def load_catalog(name: str | None = None, **properties: str) -> Catalog:
        return _docker_catalog() if properties.get("uri") == DOCKER else load(name, **properties)

    setattr(catalogs, "load_catalog", load_catalog)  # noqa: B010


_replace()
