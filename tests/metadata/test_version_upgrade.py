"""The format version of a table that exists: `format-version` is obeyed or refused, whoever sets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.table.update import SetPropertiesUpdate, UpgradeFormatVersionUpdate

from kit.tables import catalogs
from sealberg.errors import ConfigError
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

ROWS: Final = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
V3 = {"format-version": "3"}


def _by_property(_: Any, table: Any) -> None:
    with table.transaction() as change:
        change.set_properties({**V3, "owner": "me"})


def _by_name(_: Any, table: Any) -> None:
    with table.transaction() as change:
        change.upgrade_table_version(3)
        change.set_properties(owner="me")


def _by_hand(catalog: Any, table: Any) -> None:
    updates = (UpgradeFormatVersionUpdate.model_validate({"format-version": 3}), SetPropertiesUpdate(updates=OWNER))
    catalog.commit_table(table, (), updates)
    table.refresh()


OWNER: Final = {"owner": "me"}


@pytest.mark.slow
@pytest.mark.parametrize(("way", "version"), [(_by_property, "2"), (_by_name, "1"), (_by_hand, "2")])
def test_a_plain_table_becomes_one_of_version_3_and_keeps_its_rows(
    lake: Lake, way: Callable[[Any, Any], None], version: str
) -> None:
    catalog = lake.connect()
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": version, "color": "red"})
    table.append(ROWS)
    stale = lake.connect().load_table("db.t")
    before, logged = table.metadata, len(table.metadata.metadata_log)
    way(catalog, table)
    assert isinstance(table, CatalogTable)
    for found in (table, lake.connect().load_table("db.t"), stale.refresh()):
        assert found.format_version == 3
        assert {"owner": "me", "color": "red"}.items() <= found.properties.items()
        assert "format-version" not in found.properties
        assert found.metadata.table_uuid == before.table_uuid
        assert found.metadata.last_updated_ms >= before.last_updated_ms
        assert found.scan().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    assert len(table.metadata.metadata_log) > logged
    assert stale.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist() == [None] * 3
    table.append(ROWS)
    stale.refresh().delete("id = 2")
    again = lake.connect().load_table("db.t")
    assert sorted(again.scan().to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]
    ids = again.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
    assert None not in ids
    assert len(set(ids)) == 4


def test_versions_that_cannot_be_are_refused_in_the_words_of_java(lake: Lake) -> None:
    catalog = lake.connect()
    tables = [
        catalog.create_table("db.two", ROWS.schema, properties={"format-version": "2"}),
        catalog.create_table("db.three", ROWS.schema, properties=V3),
        catalog.create_table("db.sealed", ROWS.schema, properties={"encryption.key-id": "hr"}),
    ]
    for table in tables:
        own = table.format_version
        wrong = [
            (own - 1, f"Cannot downgrade v{own} table to v{own - 1}"),
            (4, r"Cannot upgrade table to unsupported format version: v4 \(supported: v3\)|Unsupported"),
        ]
        for version, words in wrong:
            with pytest.raises(ValueError, match=words), table.transaction() as change:
                change.set_properties({"format-version": str(version)})
            with pytest.raises(ValueError, match=words):
                table.transaction().upgrade_table_version(version)
            with pytest.raises(ValueError, match=words):
                catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"format-version": str(version)}),))
        with pytest.raises(ConfigError, match="must be an integer"), table.transaction() as change:
            change.set_properties({"format-version": "new"})
        with table.transaction() as change:  # its own version is nothing to do
            change.set_properties({"format-version": str(own), "owner": "me"})
        found = catalog.load_table(table.name())
        assert (found.format_version, found.properties["owner"]) == (own, "me")
        assert "format-version" not in found.properties


def test_version_1_becomes_version_2_as_in_pyiceberg(lake: Lake) -> None:
    table = lake.connect().create_table("db.t", ROWS.schema, properties={"format-version": "1"})
    with table.transaction() as change:
        change.set_properties({"format-version": "2"})
    found = lake.connect().load_table("db.t")
    assert found.format_version == 2
    assert "format-version" not in found.properties
