"""A name with dots is one table from the statement to the catalog: hr.`a.b` is never hr.a.b."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.programs.spark import properties_of
from sealberg.errors import ConfigError, SealbergError
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import dotted, selected_tables, shown
from sealberg.spark.driver.procedures.registry import BY_NAME
from sealberg.spark.driver.procedures.signature import CallContext, parse_identifier

if TYPE_CHECKING:
    from pathlib import Path

WITH_DOT, BELOW = ("hr", "a.b"), ("hr", "a", "b")
NAME = "hr.`a.b`"
ROWS = {WITH_DOT: 3, BELOW: 5}


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    opened: Any = sealberg.load_catalog("prod", **properties_of(tmp_path))
    for namespace in ("hr", ("hr", "a")):
        opened.create_namespace(namespace)
    for identifier, count in ROWS.items():
        rows = pa.table({"id": pa.array(range(count), pa.int64())})
        opened.create_table(identifier, rows.schema, properties={"encryption.key-id": "hr"}).append(rows)
    return opened


def call(catalog: Any, procedure: str, /, **arguments: Any) -> list[Any]:
    def unresolved(*_: Any) -> Any:
        raise AssertionError("no filter here")

    context = CallContext(catalog, (), arguments, Threads(), procedure, unresolved)
    return list(BY_NAME[procedure].call(context))


def state(catalog: Any, identifier: tuple[str, ...]) -> Any:
    metadata = catalog.load_table(identifier).metadata
    return metadata.last_updated_ms, metadata.current_snapshot_id, len(metadata.encryption_keys)


def test_shred_reaches_the_table_that_was_named(catalog: Any) -> None:
    for confirm in (None, "", "hr.a.b", "hr.a.`b`", "`hr.a.b`", "`hr.a`.b"):
        with pytest.raises(ConfigError, match=r"confirm"):
            call(catalog, "shred", table=NAME, confirm=confirm)
    uuid = str(catalog.load_table(WITH_DOT).metadata.table_uuid)
    other = str(catalog.load_table(BELOW).metadata.table_uuid)
    with pytest.raises(ConfigError, match=f"{NAME} has the UUID {uuid}, not {other}: nothing was done"):
        call(catalog, "shred", table=NAME, confirm=NAME, table_uuid=other)
    for identifier, count in ROWS.items():
        assert catalog.load_table(identifier).scan().to_arrow().num_rows == count
    call(catalog, "shred", table=NAME, confirm=NAME, table_uuid=uuid)
    assert len(catalog.load_table(WITH_DOT).metadata.encryption_keys) == 0
    assert catalog.load_table(BELOW).scan().to_arrow().num_rows == 5


@pytest.mark.parametrize(
    ("procedure", "arguments"),
    [
        ("rotate", {}),
        ("prune_keys", {}),
        ("keys", {}),
        ("rekey", {}),
        ("verify", {}),
        ("inspect", {}),
        ("expire_snapshots", {}),
        ("remove_orphan_files", {}),
        ("rewrite_data_files", {"options": {"rewrite-all": "true"}}),
        ("rewrite_manifests", {}),
        ("rewrite_position_delete_files", {}),
        ("compute_table_stats", {}),
    ],
)
def test_every_procedure_works_on_the_table_that_was_named(
    catalog: Any, procedure: str, arguments: dict[str, Any]
) -> None:
    before = state(catalog, BELOW)
    call(catalog, procedure, table=NAME, **arguments)
    assert state(catalog, BELOW) == before
    catalog.drop_table(WITH_DOT)
    with pytest.raises(Exception, match=r"a\.b"):
        call(catalog, procedure, table=NAME, **arguments)
    assert state(catalog, BELOW) == before


@pytest.mark.parametrize(
    ("procedure", "arguments"),
    [
        ("change_master", {"table": NAME, "new_key_id": "keyA"}),
        ("encrypt", {"source_table": NAME, "table": "hr.new", "key_id": "hr"}),
        ("encrypt", {"source_table": "hr.x", "table": NAME, "key_id": "hr"}),
        ("migrate", {"table": NAME, "properties": {"encryption.key-id": "hr"}}),
    ],
)
def test_what_cannot_name_it_refuses(catalog: Any, procedure: str, arguments: dict[str, Any]) -> None:
    before = {identifier: state(catalog, identifier) for identifier in ROWS}
    with pytest.raises(SealbergError, match=r"hr\.`a\.b` has a part with a dot"):
        call(catalog, procedure, **arguments)
    assert {identifier: state(catalog, identifier) for identifier in ROWS} == before


def test_identifiers_are_shown_apart(catalog: Any) -> None:
    assert [shown(WITH_DOT), shown(BELOW), shown(("h`r", "x"))] == ["hr.`a.b`", "hr.a.b", "`h``r`.x"]
    assert dotted(BELOW) == "hr.a.b"
    with selected_tables(catalog, ["hr"], every=False) as (_, found):
        assert set(found) == set(ROWS)
    with selected_tables(catalog, [WITH_DOT], every=False) as (_, found):
        assert found == [WITH_DOT]
    gone = selected_tables(catalog, [("hr", "a.c")], every=False)
    with pytest.raises(SealbergError, match=r"no table hr\.`a\.c`"), gone:
        pass


@pytest.mark.parametrize("name", ["t", "5", "`hr.a`"])
def test_a_table_without_a_namespace_is_refused(catalog: Any, name: str) -> None:
    with pytest.raises(ConfigError, match=f"rotate: argument table is '{name}', expected a namespace"):
        call(catalog, "rotate", table=name)


def test_what_needs_quotes_is_refused_without_them(catalog: Any) -> None:
    assert parse_identifier("hr.`x y`.`a-b`", "it") == ("hr", "x y", "a-b")
    for name in ("hr.x y", "hr.a-b", "hr.t;", " hr.t", "hr.t DROP"):
        with pytest.raises(ConfigError, match="expire_snapshots: argument table is "):
            call(catalog, "expire_snapshots", table=name)
