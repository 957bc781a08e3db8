"""What a user of PyIceberg expects, on encrypted tables and on plain tables of version 3: the same answers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.types import StringType

from kit.tables import tables
from sealberg.errors import SealbergError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

NUMBERS = pa.schema([("x", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def test_the_table_that_wrote_is_equal_to_the_table_that_is_loaded(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, NUMBERS)
    assert table == catalog.load_table(table.name())
    before = catalog.load_table(table.name())
    table.append(pa.table({"x": [1]}))
    table.manage_snapshots().create_tag(tables.head(table).snapshot_id, "first").commit()
    with table.update_schema() as change:
        change.rename_column("x", "y")
    assert table == catalog.load_table(table.name())
    assert table != before
    assert table.metadata != before.metadata


@pytest.mark.parametrize(
    ("act", "warns"),
    [("delete between", False), ("delete outside", True), ("overwrite between", False), ("overwrite outside", True)],
)
def test_a_delete_that_no_file_can_match_warns_as_in_pyiceberg(
    tmp_path: Path, catalog: EncryptedSqlCatalog, act: str, warns: bool
) -> None:
    verb, where = act.split()
    number = 2 if where == "between" else 9
    with tables.plain_catalog(tmp_path) as plain:
        for table in (tables.make(catalog, NUMBERS), plain.create_table("hr.t", NUMBERS)):
            table.append(pa.table({"x": [1, 3]}))
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                if verb == "delete":
                    table.delete(f"x == {number}")
                else:
                    table.overwrite(pa.table({"x": [number]}), f"x == {number}")
            told = [str(one.message) for one in found if one.category is UserWarning]
            assert told == ["Delete operation did not match any records"] * warns


def test_an_overwrite_of_an_empty_table_warns_of_nothing(catalog: EncryptedSqlCatalog) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tables.make(catalog, NUMBERS).overwrite(pa.table({"x": [1]}))


def test_readers_without_keys_say_what_to_use_instead(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table = tables.make(catalog, NUMBERS)
    table.append(pa.table({"x": [1]}))
    with pytest.raises(SealbergError, match=r"pl.scan_iceberg\(table\).* cannot read.*use table.to_polars\(\)"):
        pl.scan_iceberg(table).collect()
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    with pytest.raises(UnsupportedError, match=r"\.parquet is an encrypted Parquet file.*use table.scan\(\).to_arrow"):
        scan.to_table(table.scan().plan_files())
    assert table.to_polars().collect()["x"].to_list() == [1]


def texts(text: pa.DataType, items: list[str]) -> pa.Table:
    return pa.table(
        {
            "s": pa.array(items, text),
            "b": pa.array([one.encode() for one in items], pa.binary()),
            "l": pa.array([[one] for one in items], pa.list_(text)),
            "n": pa.array([{"q": one, "z": [one]} for one in items], pa.struct({"q": text, "z": pa.list_(text)})),
            "m": pa.array([{one: [one]} for one in items], pa.map_(text, pa.large_list(text))),
        }
    )


@pytest.mark.parametrize(
    "written",
    [
        [pa.string()],
        [pa.large_string()],
        [pa.string(), pa.large_string()],
        [pa.large_string(), pa.string(), pa.string()],
    ],
    ids=lambda types: "-".join(map(str, types)),
)
def test_arrow_types_are_those_of_pyiceberg(
    tmp_path: Path, catalog: EncryptedSqlCatalog, written: list[pa.DataType]
) -> None:
    with tables.plain_catalog(tmp_path) as plain:
        schema = texts(pa.string(), []).schema
        ours, theirs = tables.make(catalog, schema), plain.create_table("hr.t", schema)
        assert ours.scan().to_arrow().schema == theirs.scan().to_arrow().schema
        for table in (ours, theirs):
            for number, kind in enumerate(written):
                table.append(texts(kind, [f"a{number}", f"b{number}"]))
        for act in (lambda _: None, lambda table: table.delete("s = 'a0'")):
            act(ours)
            act(theirs)
            assert ours.scan().to_arrow().schema.types == theirs.scan().to_arrow().schema.types
            assert ours.scan().to_arrow_batch_reader().schema == theirs.scan().to_arrow_batch_reader().schema
            key = [("s", "ascending")]
            assert ours.scan().to_arrow().sort_by(key).to_pylist() == theirs.scan().to_arrow().sort_by(key).to_pylist()
        with ours.update_schema() as change:
            change.rename_column("s", "t").delete_column("b").add_column("new", StringType())
        found = ours.scan("t > 'a0'", selected_fields=("new", "t", "n.q")).to_arrow()
        assert found.schema.field("new").type == pa.large_string()
        assert len(found) == 2 * len(written) - 1


@pytest.mark.parametrize("key", [{"encryption.key-id": "hr"}, {"format-version": "3"}], ids=["encrypted", "plain"])
def test_row_groups_are_cut_as_the_table_says_and_a_batch_ends_with_its_row_group(
    catalog: EncryptedSqlCatalog, key: dict[str, str]
) -> None:
    for name, value in (("limit", "3"), ("size-bytes", "24")):
        properties = {**key, f"write.parquet.row-group-{name}": value}
        table = catalog.create_table(f"hr.{name.replace('-', '_')}", NUMBERS, properties=properties)
        table.append(pa.table({"x": range(10)}))
        batches = list(table.scan(selected_fields=("x", "_pos")).to_arrow_batch_reader())
        assert [batch["x"].to_pylist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
        assert [batch["_pos"].to_pylist() for batch in batches] == [batch["x"].to_pylist() for batch in batches]
        assert len(tables.data_files(table)[0].split_offsets or ()) == 4


def test_an_upsert_names_the_key_column_that_the_rows_lack(catalog: EncryptedSqlCatalog) -> None:
    with pytest.raises(KeyError, match='Field "x" does not exist in schema'):
        tables.make(catalog, NUMBERS).upsert(pa.table({"y": [1]}), ["x"])
