"""Every property that opens storage or names code, in the metadata of every kind of table: none of them is obeyed.

The list of names is taken from PyIceberg itself, so that a property of its next release is judged here, or fails.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyiceberg
import pytest
from pyiceberg import io as pyiceberg_io
from pyiceberg.table import TableProperties

import sealberg
from sealberg.errors import ConfigError, FormatError, TrustError
from sealberg.metadata import storage_properties as rules

if TYPE_CHECKING:
    from collections.abc import Iterator

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS: Final = pa.table({"name": ["Ada", "Bob"], "salary": [12, 13]})
SCHEMA: Final = ROWS.schema
PROVIDER: Final = "write.py-location-provider.impl"
called: list[Any] = []


def canary(*args: Any, **_: Any) -> Any:
    """What the metadata name as code; it must never be called."""
    called.append(args)
    raise AssertionError("code that the metadata name was run")


NAME: Final = f"{__name__}.canary"


@pytest.fixture(autouse=True)
def nothing_is_called() -> Iterator[None]:
    called.clear()
    rules._warned.clear()
    yield
    assert called == []


def storage_names() -> set[str]:
    """Every property of storage that PyIceberg has a constant for, and those that stand in its code as text."""
    named = {value for name, value in vars(pyiceberg_io).items() if name.isupper() and isinstance(value, str)}
    return {name for name in named if re.fullmatch(r"[a-z0-9]+\.[a-z0-9._-]+|py-[a-z-]+", name)}


# -- the classification --------------------------------------------------------------------------


def test_every_storage_property_of_pyiceberg_is_about_storage() -> None:
    assert len(storage_names()) > 50
    assert {name for name in storage_names() if not rules.about_storage(name)} == set()


def test_every_table_property_of_pyiceberg_that_names_code_is_known() -> None:
    texts = {value for value in vars(TableProperties).values() if isinstance(value, str)}
    assert {name for name in texts if rules.names_code(name)} == {PROVIDER}


def test_pyiceberg_imports_by_name_in_no_place_that_is_not_known() -> None:
    """Where PyIceberg imports what a property names; another place must be looked at before it is listed here."""
    root = Path(inspect.getfile(pyiceberg)).parent
    places = {
        str(path.relative_to(root)): len(re.findall(r"import_module\(", path.read_text()))
        for path in root.rglob("*.py")
        if "import_module(" in path.read_text()
    }
    assert places == {
        "catalog/__init__.py": 1,  # py-catalog-impl: of the configuration
        "catalog/rest/auth.py": 1,  # auth.impl: of the configuration, and dropped where a server sends it
        "io/__init__.py": 1,  # py-io-impl
        "io/pyarrow.py": 1,  # s3.retry-strategy-impl
        "table/locations.py": 1,  # write.py-location-provider.impl
        "transforms.py": 1,  # a constant
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("py-io-impl", True),
        ("PY-IO-IMPL", True),
        ("py-catalog-impl", True),
        (PROVIDER, True),
        ("write.location-provider.impl", True),
        ("s3.retry-strategy-impl", True),
        ("write.format.default", False),
        ("implement", False),
    ],
)
def test_names_of_code(name: str, expected: bool) -> None:
    assert rules.names_code(name) is expected


def test_a_file_io_gets_nothing_from_metadata_but_three_harmless_names() -> None:
    told = dict.fromkeys({*storage_names(), "pyarrow.use-large-types-on-read", "owner", "encryption.key-id"}, "x")
    assert rules.for_file_io({}, told).keys() == rules.FROM_METADATA
    assert rules.for_file_io(dict.fromkeys(rules.FROM_METADATA, "mine"), told) == {}


# -- tables --------------------------------------------------------------------------------------


def lake(folder: Path, **more: str) -> Any:
    uri, place = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    return sealberg.load_catalog("test", type="sql", uri=uri, warehouse=place, **KMS, **more)


def made(catalog: Any, kind: str) -> Any:
    catalog.create_namespace_if_not_exists("db")
    properties = {"encryption.key-id": "hr"} if kind == "encrypted" else {"format-version": kind[1:]}
    table = catalog.create_table(f"db.{kind}", SCHEMA, properties=properties)
    table.append(ROWS)
    return table


def edit(table: Any, **properties: str) -> dict[str, Any]:
    place = Path(table.metadata_location.removeprefix("file://"))
    raw: dict[str, Any] = json.loads(place.read_text())
    raw["properties"].update(properties)
    place.write_text(json.dumps(raw, separators=(",", ":")))
    return raw


EVIL: Final = {
    **dict.fromkeys(("py-io-impl", PROVIDER, "s3.retry-strategy-impl", "py-file-io", "x.impl"), NAME),
    "s3.endpoint": "http://127.0.0.1:9",
    "s3.proxy-uri": "http://127.0.0.1:9",
    "s3.signer.uri": "http://127.0.0.1:9",
    "s3.signer": "S3V4RestSigner",
    "adls.connection-string": "x",
    "hdfs.host": "127.0.0.1",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v1", "v2", "v3"])
def test_a_plain_table_runs_no_code_that_its_metadata_name(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = lake(tmp_path)
    edit(made(catalog, kind), **EVIL)
    with caplog.at_level(logging.WARNING):
        table = lake(tmp_path).load_table(f"db.{kind}")
        table.append(ROWS)
        table.append(ROWS)  # on the table that the commit gave back
        table.delete("name = 'Ada'")
        table.refresh()
    assert table.scan().to_arrow().column("name").to_pylist() == ["Bob"] * 3
    assert not [name for name in table.io.properties if name in EVIL]
    told = [record.getMessage() for record in caplog.records if record.name == rules.__name__]
    assert len(told) == 1
    assert all(name in told[0] for name in EVIL)
    assert NAME not in told[0]
    # What other tools want there stays in the file.
    raw = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    assert raw["properties"].items() >= EVIL.items()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v1", "v2", "v3", "encrypted"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_open_table_runs_no_code_that_its_metadata_name(kind: str, version: int, tmp_path: Path) -> None:
    table = made(lake(tmp_path), kind)
    place = Path(table.metadata_location.removeprefix("file://"))
    raw = edit(table, **EVIL)
    if version < 3:
        raw.pop("encryption-keys", None)
        raw["properties"].pop("encryption.key-id", None)
    place.write_text(json.dumps({**raw, "format-version": version}))
    mine = {"s3.session-token": "TOKEN", **KMS}
    if version == 1 and kind != "v1":
        with pytest.raises(FormatError, match="do not parse: schema"):
            sealberg.open_table(f"file://{place}", mine)
        return
    opened = sealberg.open_table(f"file://{place}", mine)
    assert dict(opened.io.properties) == mine
    opened.location_provider()


@pytest.mark.parametrize("kind", ["v2", "v3"])
def test_the_operator_may_name_a_location_provider(kind: str, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    edit(made(catalog, kind), **EVIL)
    table = lake(tmp_path, **{PROVIDER: f"{__name__}.Elsewhere"}).load_table(f"db.{kind}")
    table.append(ROWS)
    assert len([task for task in table.scan().plan_files() if "/elsewhere/" in task.file.file_path]) == 1
    raw = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    assert raw["properties"][PROVIDER] == NAME


def Elsewhere(location: str, _: Any) -> Any:
    from pyiceberg.table.locations import SimpleLocationProvider

    return SimpleLocationProvider(location, {"write.data.path": f"{location}/elsewhere"})


@pytest.mark.parametrize("name", [PROVIDER, "py-io-impl", "s3.endpoint", "adls.account-key"])
def test_a_table_cannot_be_given_what_would_be_dropped(name: str, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    for kind in ("v2", "v3"):
        table = made(catalog, kind)
        with (
            pytest.raises(ConfigError, match=rf"{name} (cannot be a property of a table|is not supported)"),
            table.transaction() as change,
        ):
            change.set_properties({name: NAME})
        with pytest.raises(ConfigError, match=rf"{name} (cannot be a property of a table|is not supported)"):
            catalog.create_table("db.new", SCHEMA, properties={"format-version": kind[1:], name: NAME})
        with pytest.raises(ConfigError, match=rf"{name} (cannot be a property of a table|is not supported)"):
            catalog.create_table_transaction("db.new", SCHEMA, properties={"format-version": kind[1:], name: NAME})


# -- a REST server -------------------------------------------------------------------------------


def test_what_a_server_may_say_of_storage() -> None:
    told = dict.fromkeys(storage_names(), "x")
    told |= {"s3.region": "eu-central-1", "s3.signer.uri": "http://elsewhere", "adls.sas-token.account": "x"}
    del told["s3.endpoint"], told["gcs.service.host"]
    kept = rules.from_server("t", {}, told, "http://here")
    assert kept.keys() == {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.force-virtual-addressing",
        "s3.region",
        "client.region",
        "gcs.oauth2.token",
        "gcs.oauth2.token-expires-at",
        "gcs.project-id",
        "adls.token",
        "adls.sas-token",
        "adls.sas-token.account",
    }


def test_a_region_that_is_a_host_is_dropped() -> None:
    for region in ("evil.example.com/", "x@evil", "..", "a.b", "", "x" * 60):
        assert rules.from_server("t", {}, {"s3.region": region}, "http://here") == {}


def test_an_endpoint_of_the_server_is_refused_unless_the_operator_lists_it() -> None:
    told = {"s3.endpoint": "https://minio:9000/path"}
    with pytest.raises(TrustError, match=r"https://minio:9000 \(s3.endpoint\)"):
        rules.from_server("t", {}, told, "http://here")
    with pytest.raises(TrustError):
        rules.from_server("t", {rules.ALLOWED_ENDPOINTS: "http://minio:9000, https://minio"}, told, "http://here")
    allowed = {rules.ALLOWED_ENDPOINTS: "http://other, https://MINIO:9000"}
    assert rules.from_server("t", allowed, told, "http://here") == told
    assert rules.from_server("t", {"s3.endpoint": "https://mine"}, told, "http://here") == {}


def test_a_signer_is_taken_only_from_where_the_catalog_is() -> None:
    signer = {"s3.signer": "S3V4RestSigner", "s3.signer.uri": "http://here:80/sign"}
    assert rules.from_server("t", {}, signer, "http://here/catalog") == signer
    assert rules.from_server("t", {}, {**signer, "s3.signer.uri": "https://here/sign"}, "http://here/catalog") == {}
