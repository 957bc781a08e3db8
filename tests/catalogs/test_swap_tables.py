"""`swap_tables`: two tables exchange their names, in every kind of catalog, also after a process died in between."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from kit.servers.postgres import KEY_ID
from kit.tables import catalogs
from sealberg.catalogs.guard import guarded
from sealberg.catalogs.name_swap import between_name
from sealberg.errors import ConfigError, UnfinishedSwapError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

ENCRYPTED = {"encryption.key-id": KEY_ID}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
OTHERS = pa.table({"id": pa.array([7], pa.int64())})


def make(catalog: Any, name: str, rows: pa.Table, **properties: str) -> Any:
    table = catalog.create_table(name, rows.schema, properties=properties)
    table.append(rows)
    return table


def ids(catalog: Any, name: str) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


@pytest.mark.every_catalog
def test_two_tables_exchange_their_names_and_stay_writable(lake: Lake) -> None:
    catalog = lake.connect()
    stale = make(catalog, "db.t", ROWS, **ENCRYPTED)
    make(catalog, "db.u", OTHERS, **ENCRYPTED)
    catalog.swap_tables("db.t", "db.u")
    fresh = lake.connect()
    assert (ids(fresh, "db.t"), ids(fresh, "db.u")) == ([7], [1, 2, 3])
    fresh.load_table("db.t").append(OTHERS)
    with pytest.raises((CommitFailedException, ValueError)):
        stale.append(ROWS)  # loaded before, so its rows must not go into the other table
    assert (ids(fresh, "db.t"), ids(fresh, "db.u")) == ([7, 7], [1, 2, 3])
    assert sorted(fresh.list_tables("db")) == [("db", "t"), ("db", "u")]


def test_names_stay_if_a_table_has_changed_or_is_missing(lake: Lake) -> None:
    catalog = lake.connect()
    first, second = make(catalog, "db.t", ROWS), make(catalog, "db.u", OTHERS, **ENCRYPTED)
    for stale in (first, second):
        catalog.load_table(stale.name()).append(OTHERS)
        with pytest.raises(CommitFailedException, match=rf"updated by another process.*{stale.name()[-1]}"):
            catalog.swap_tables("db.t", "db.u", unchanged=(stale,))
    with pytest.raises(NoSuchTableError):
        catalog.swap_tables("db.t", "db.none")
    assert (ids(catalog, "db.t"), ids(catalog, "db.u")) == ([1, 2, 3, 7], [7, 7])
    catalog.swap_tables("db.t", "db.u", unchanged=(first.refresh(), second.refresh()))
    assert (ids(catalog, "db.t"), ids(catalog, "db.u")) == ([7, 7], [1, 2, 3, 7])  # plaintext and encrypted


class KilledError(BaseException):
    """Instead of a process that dies."""


@contextmanager
def dying(catalog: Any, method: str, at: int, error: BaseException) -> Iterator[None]:
    """A catalog whose `method` fails when it is called the n-th time, and ever after."""
    original, calls = getattr(catalog, method), 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= at:
            raise error
        return original(*args, **kwargs)

    setattr(catalog, method, counted)
    yield
    delattr(catalog, method)


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.slow) for kind in ("hive", "glue", "rest")])
def renaming(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """A lake whose catalog has no transactions over two tables."""
    with catalogs._lake(request.param, tmp_path) as found:
        yield found


def test_an_exchange_that_was_killed_after_any_rename_goes_on(renaming: Lake) -> None:
    catalog = renaming.connect()
    make(catalog, "db.t", ROWS, **ENCRYPTED)
    make(catalog, "db.u", OTHERS, **ENCRYPTED)
    now = {"db.t": [1, 2, 3], "db.u": [7]}
    for at in (2, 3):
        with dying(catalog, "rename_table", at, KilledError()), pytest.raises(KilledError):
            catalog.swap_tables("db.t", "db.u")
        fresh = renaming.connect()
        assert fresh.finish_swap("db.u", "db.t")
        assert not fresh.finish_swap("db.t", "db.u")
        now = {"db.t": now["db.u"], "db.u": now["db.t"]}
        assert {name: ids(fresh, name) for name in now} == now
    with (
        dying(catalog, "rename_table", 3, OSError("the server is away")),
        pytest.raises(UnfinishedSwapError, match=r"no table has the name db.u.*the server is away.*again"),
    ):
        catalog.swap_tables("db.t", "db.u")
    catalog.swap_tables("db.t", "db.u")
    assert {name: ids(catalog, name) for name in now} == {"db.t": now["db.u"], "db.u": now["db.t"]}


@pytest.mark.slow
def test_a_rename_of_glue_that_was_killed_between_create_and_drop_is_made_up_for(tmp_path: Path) -> None:
    with catalogs._lake("glue", tmp_path) as lake:
        catalog = lake.connect()
        make(catalog, "db.t", ROWS, **ENCRYPTED)
        make(catalog, "db.u", OTHERS, **ENCRYPTED)
        for at in (1, 2):
            with dying(catalog, "drop_table", at, KilledError()), pytest.raises(KilledError):
                catalog.swap_tables("db.t", "db.u")
            catalog.swap_tables("db.t", "db.u")
            assert len(catalog.list_tables("db")) == 2
        with dying(catalog, "drop_table", 3, KilledError()), pytest.raises(KilledError):
            catalog.swap_tables("db.t", "db.u")
        assert catalog.load_table(between_name(("db", "t"), ("db", "u"))).metadata_location
        assert not catalog.finish_swap("db.t", "db.u")  # all three names were given; one was left to drop
        assert sorted(catalog.list_tables("db")) == [("db", "t"), ("db", "u")]


def test_names_that_the_policy_refuses_are_refused_before_anything_is_renamed(tmp_path: Path) -> None:
    with catalogs._lake("sqlite", tmp_path) as lake:
        make(lake.connect(), "db.t", ROWS, **ENCRYPTED)
        make(lake.connect(), "db.u", OTHERS)
        strict = lake.connect(**{"encryption.expected-key-id.db.t": KEY_ID})
        with pytest.raises(ConfigError, match=r"encryption.expected-key-id.db.t"):
            strict.swap_tables("db.t", "db.u")
        with pytest.raises(ConfigError, match="with itself"):
            strict.swap_tables("db.t", "db.t")
        assert ids(strict, "db.t") == [1, 2, 3]


def test_a_catalog_without_encrypted_tables_refuses_the_exchange() -> None:
    with pytest.raises(UnsupportedError, match="in dynamodb catalogs"):
        guarded(InMemoryCatalog("x"), "dynamodb", {}).swap_tables("db.a", "db.b")  # type: ignore[attr-defined]
