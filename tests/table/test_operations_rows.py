"""Rows that come, go and change: append, overwrite, upsert, add_files, and the ways to read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampNanoType

from kit.tables import tables
from sealberg.errors import PlaintextFileError, UnsupportedError
from sealberg.format.key_metadata import KeyMetadata
from sealberg.write import data_writer
from sealberg.write.stream_writer import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "pay", DoubleType(), required=False),
)
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def people(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    columns: dict[str, list[Any]] = {"id": [], "name": [], "pay": []}
    for row in rows:
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("pay", pa.float64())]))


STAFF = people((1, "ann", 10.0), (2, "bob", 20.0), (3, "cid", None))


# -- append -----------------------------------------------------------------------------------


def test_a_stream_is_appended_in_files_of_the_target_size(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.target-file-size-bytes": "2000"})
    batches = [people(*((i * 100 + j, f"n{j}", float(j)) for j in range(100))).to_batches()[0] for i in range(6)]
    table.append(pa.RecordBatchReader.from_batches(STAFF.schema, iter(batches)))
    assert sorted(row["id"] for row in tables.rows(table)) == list(range(600))
    assert len(tables.data_files(table)) > 3
    tables.check_lineage(table)


def test_a_stream_goes_into_a_partitioned_table(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA, BY_NAME)
    batches = [batch for _ in range(3) for batch in STAFF.to_batches()]
    table.append(pa.RecordBatchReader.from_batches(STAFF.schema, iter(batches)))
    assert tables.rows(table) == tables.in_order(STAFF.to_pylist() * 3)
    assert {tuple(file.partition[i] for i in range(1)) for file in tables.data_files(table)} == {
        ("ann",),
        ("bob",),
        ("cid",),
    }


@pytest.mark.parametrize("spec", [None, BY_NAME], ids=["unpartitioned", "partitioned"])
def test_a_stream_that_fails_leaves_no_file_behind(
    catalog: EncryptedSqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: PartitionSpec | None
) -> None:
    monkeypatch.setattr(data_writer, "SLAB_BYTES", 60)  # split by threads while the source fails
    monkeypatch.setattr(data_writer, "StreamWriter", partial(StreamWriter, budget=100))
    table = tables.make(catalog, SCHEMA, *([] if spec is None else [spec]), **{"write.target-file-size-bytes": "60"})
    before = tables.stored(tmp_path)

    def broken() -> Iterator[pa.RecordBatch]:
        for _ in range(5):
            yield from STAFF.to_batches()
        raise RuntimeError("the source is gone")

    with pytest.raises(Exception, match="the source is gone"):
        table.append(pa.RecordBatchReader.from_batches(STAFF.schema, broken()))
    assert tables.stored(tmp_path) == before
    assert table.current_snapshot() is None


def test_appending_nothing_makes_an_empty_snapshot_as_in_pyiceberg(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(STAFF.slice(0, 0))
    assert table.scan().to_arrow().num_rows == 0
    table.append(STAFF)
    assert tables.rows(table) == tables.in_order(STAFF.to_pylist())
    tables.check_lineage(table)


def test_rows_that_do_not_fit_are_refused_before_a_byte_is_written(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    table = tables.make(catalog, SCHEMA)
    before = tables.stored(tmp_path)
    for wrong in (pa.table({"id": ["text"]}), pa.table({"stranger": [1]})):
        with pytest.raises(ValueError, match=r"(?i)mismatch|more columns"):
            table.append(wrong)
    with pytest.raises(ValueError, match=r"Expected pa\.Table"):
        table.append([{"id": 1}])
    assert tables.stored(tmp_path) == before


def test_columns_in_another_order_missing_or_of_narrower_types_are_taken(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(pa.table({"pay": pa.array([1.5], pa.float32()), "id": pa.array([7], pa.int32())}))
    table.append(pa.table({"name": pa.array(["x", "y"]).dictionary_encode()}))
    assert tables.rows(table) == tables.in_order(
        [
            {"id": 7, "name": None, "pay": 1.5},
            {"id": None, "name": "x", "pay": None},
            {"id": None, "name": "y", "pay": None},
        ]
    )


def test_snapshot_properties_reach_the_summary(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(STAFF, snapshot_properties={"by": "the night job"})
    summary = tables.head(table).summary
    assert summary is not None
    assert summary["by"] == "the night job"
    assert summary["added-records"] == summary["total-records"] == "3"
    assert summary["total-data-files"] == "1"


# -- overwrite --------------------------------------------------------------------------------


def test_overwrite_replaces_everything_in_one_snapshot(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(STAFF)
    table.overwrite(people((9, "zoe", 1.0)))
    assert [row["id"] for row in tables.rows(table)] == [9]
    assert [snapshot.summary.operation.value for snapshot in table.metadata.snapshots if snapshot.summary] == [
        "append",
        "overwrite",
    ]
    assert len(tables.data_files(table)) == 1


def test_overwrite_with_a_filter_moves_the_other_rows_with_their_ids(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(STAFF)
    before = tables.lineage(table)
    table.overwrite(people((9, "zoe", 1.0)), "id = 2")
    after = tables.lineage(table)
    assert {1, 3, 9} == set(after)
    assert {key: after[key] for key in (1, 3)} == {key: before[key] for key in (1, 3)}
    assert after[9][1] == 2
    tables.check_lineage(table)


def test_overwrite_with_a_filter_that_is_never_true_only_appends(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(STAFF)
    table.overwrite(people((9, "zoe", 1.0)), AlwaysFalse())
    assert len(tables.rows(table)) == 4


# -- upsert -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("update", "insert", "expected"),
    [
        (True, True, [(1, 10.0), (2, 99.0), (3, None), (4, 40.0)]),
        (True, False, [(1, 10.0), (2, 99.0), (3, None)]),
        (False, True, [(1, 10.0), (2, 20.0), (3, None), (4, 40.0)]),
    ],
)
def test_upsert_changes_what_differs_and_brings_what_is_new(
    catalog: EncryptedSqlCatalog, mode: str, update: bool, insert: bool, expected: list[tuple[int, float | None]]
) -> None:
    table = tables.make(catalog, SCHEMA, **{"write.update.mode": mode})
    table.append(STAFF)
    before = tables.lineage(table)
    result = table.upsert(
        people((4, "dee", 40.0), (2, "bob", 99.0), (1, "ann", 10.0)),
        ["id"],
        when_matched_update_all=update,
        when_not_matched_insert_all=insert,
    )
    assert (result.rows_updated, result.rows_inserted) == (int(update), int(insert))
    assert [(row["id"], row["pay"]) for row in tables.rows(table, "id", "pay")] == expected
    after = tables.lineage(table)
    assert {key: after[key] for key in (1, 3)} == {key: before[key] for key in (1, 3)}
    assert after[2] == ((before[2][0], 2) if update else before[2])
    assert not tables.delete_files(table) or mode == "merge-on-read"
    tables.check_lineage(table)


def test_upsert_of_rows_that_are_there_already_makes_no_snapshot(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(people((1, "ann", float("nan")), (2, None, None)))
    head = tables.head(table).snapshot_id
    result = table.upsert(people((1, "ann", float("nan")), (2, None, None)), ["id"])
    assert (result.rows_updated, result.rows_inserted) == (0, 0)
    assert tables.head(table).snapshot_id == head


def test_upsert_into_an_empty_table_inserts(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    assert table.upsert(STAFF, ["id"]).rows_inserted == 3
    assert tables.rows(table) == tables.in_order(STAFF.to_pylist())


def test_upsert_by_two_columns_and_by_identifier_fields(catalog: EncryptedSqlCatalog) -> None:
    keyed = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=True),
        NestedField(3, "pay", DoubleType(), required=False),
        identifier_field_ids=[1, 2],
    )
    arrow = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string(), nullable=False),
            pa.field("pay", pa.float64()),
        ]
    )
    table = tables.make(catalog, keyed)
    table.append(people((1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0)).cast(arrow))
    result = table.upsert(people((1, "b", 20.0), (2, "b", 4.0), (2, "a", 3.0)).cast(arrow))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert tables.rows(table) == tables.in_order(
        people((1, "a", 1.0), (1, "b", 20.0), (2, "a", 3.0), (2, "b", 4.0)).to_pylist()
    )


def test_upsert_refuses_what_pyiceberg_refuses(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(people((1, "ann", 1.0), (1, "twin", 2.0)))
    before = tables.stored(tmp_path)
    with pytest.raises(ValueError, match="Duplicate rows found in source dataset"):
        table.upsert(people((5, "x", 1.0), (5, "y", 1.0)), ["id"])
    with pytest.raises(ValueError, match="Target table has duplicate rows"):
        table.upsert(people((1, "ann", 5.0)), ["id"])
    with pytest.raises(ValueError, match="Join columns could not be found"):
        table.upsert(STAFF)
    with pytest.raises(ValueError, match="no upsert options selected"):
        table.upsert(STAFF, ["id"], when_matched_update_all=False, when_not_matched_insert_all=False)
    assert tables.stored(tmp_path) == before


def test_upsert_compares_nanoseconds_to_the_last(catalog: EncryptedSqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "at", TimestampNanoType(), required=False)
    )
    table = tables.make(catalog, schema)

    def at(*values: int | None) -> pa.Table:
        return pa.table({"id": list(range(len(values))), "at": pa.array(values, pa.timestamp("ns"))})

    table.append(at(1_000_000_001, 1_000_000_002, None))
    result = table.upsert(at(1_000_000_001, 1_000_000_003, None), ["id"])
    assert result.rows_updated == 1
    found = table.scan().to_arrow().sort_by("id")["at"].cast(pa.int64()).to_pylist()
    assert found == [1_000_000_001, 1_000_000_003, None]


# -- add_files --------------------------------------------------------------------------------


def test_add_files_refuses_plaintext_files_on_an_encrypted_table(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = tables.make(catalog, SCHEMA)
    pq.write_table(STAFF, tmp_path / "theirs.parquet")
    with pytest.raises(PlaintextFileError, match=r"theirs\.parquet"):
        table.add_files([f"file://{tmp_path}/theirs.parquet"])
    assert table.current_snapshot() is None


def test_add_files_takes_files_into_a_table_that_is_not_encrypted(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = tables.make_open(catalog, SCHEMA)
    pq.write_table(STAFF, tmp_path / "theirs.parquet")
    place = f"file://{tmp_path}/theirs.parquet"
    table.add_files([place])
    table.append(people((9, "zoe", 1.0)))
    assert tables.rows(table) == tables.in_order([*STAFF.to_pylist(), *people((9, "zoe", 1.0)).to_pylist()])
    tables.check_lineage(table)
    with pytest.raises(ValueError, match="already referenced"):
        table.add_files([place])
    with pytest.raises(ValueError, match="unique"):
        table.add_files([place, place])


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported, falling back to copy-on-write")
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_version_3_table_that_is_not_encrypted_is_written_too(catalog: EncryptedSqlCatalog, mode: str) -> None:
    table = tables.make_open(catalog, SCHEMA, BY_NAME, **{"write.delete.mode": mode, "write.update.mode": mode})
    table.append(STAFF)
    table.append(people((4, "ann", 4.0), (5, "ann", 5.0)))
    table.delete("id = 4")
    table.upsert(people((5, "ann", 55.0), (6, "eve", 6.0)), ["id"])
    assert [(row["id"], row["pay"]) for row in tables.rows(table, "id", "pay")] == [
        (1, 10.0),
        (2, 20.0),
        (3, None),
        (5, 55.0),
        (6, 6.0),
    ]
    tables.check_lineage(table)
    assert all(file.key_metadata is None for file in tables.data_files(table))


# -- write properties -------------------------------------------------------------------------


def test_orc_is_refused_before_a_byte_is_written(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = tables.make(catalog, SCHEMA)
    before = tables.stored(tmp_path)
    with pytest.raises(UnsupportedError, match="ORC"), table.transaction() as change:
        change.set_properties({"write.format.default": "orc"})
    assert tables.stored(tmp_path) == before


def test_every_file_of_an_operation_has_the_bloom_filters(catalog: EncryptedSqlCatalog) -> None:
    from sealberg.files.parquet.reader import EncryptedParquetReader

    table = tables.make(
        catalog,
        SCHEMA,
        **{"write.parquet.bloom-filter-enabled.column.id": "true", "write.target-file-size-bytes": "60"},
    )
    table.append(pa.concat_tables([STAFF] * 20).combine_chunks())
    files = tables.data_files(table)
    assert len(files) > 1
    for file in files:
        path, key = str(file.file_path).removeprefix("file://"), KeyMetadata.decode(file.key_metadata or b"")
        with EncryptedParquetReader(path, key) as reader:
            columns = reader.metadata.row_group(0)
            assert [columns.column(at).bloom_filter_offset is None for at in range(3)] == [False, True, True]
            assert file.column_sizes == {at + 1: columns.column(at).total_compressed_size for at in range(3)}
            assert file.split_offsets == [
                columns.column(0).dictionary_page_offset or columns.column(0).data_page_offset
            ]
    assert table.scan().count() == 60


def test_parquet_properties_reach_the_files(catalog: EncryptedSqlCatalog) -> None:
    from sealberg.files.parquet.reader import EncryptedParquetReader

    table = tables.make(
        catalog,
        SCHEMA,
        **{
            "write.parquet.compression-codec": "gzip",
            "write.parquet.row-group-limit": "40",
            "write.metadata.metrics.default": "counts",
            "write.metadata.metrics.column.name": "truncate(2)",
        },
    )
    table.append(people(*((i, f"name{i}", 1.0) for i in range(100))))
    (file,) = tables.data_files(table)
    with EncryptedParquetReader(tables.local(file.file_path).open("rb"), file.file_path.keys) as reader:  # type: ignore[attr-defined]
        assert [reader.metadata.row_group(i).num_rows for i in range(reader.metadata.num_row_groups)] == [40, 40, 20]
        assert reader.metadata.row_group(0).column(0).compression == "GZIP"
    assert file.lower_bounds == {2: b"na"}
    assert file.upper_bounds == {2: b"nb"}
    assert file.value_counts == {1: 100, 2: 100, 3: 100}
    assert file.split_offsets is not None
    assert len(file.split_offsets) == 3
    assert file.file_size_in_bytes == tables.local(file.file_path).stat().st_size


# -- ways to read -----------------------------------------------------------------------------


def test_the_same_rows_come_as_arrow_batches_pandas_polars_and_duckdb(catalog: EncryptedSqlCatalog) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    table = tables.make(catalog, SCHEMA, **{"write.delete.mode": "merge-on-read"})
    table.append(STAFF)
    table.append(people((4, "dee", 4.0)))
    table.delete("id = 2")
    expected = [1, 3, 4]
    scan = table.scan()
    assert sorted(scan.to_arrow()["id"].to_pylist()) == expected
    assert sorted(scan.to_arrow_batch_reader().read_all()["id"].to_pylist()) == expected
    assert sorted(scan.to_pandas()["id"]) == expected
    assert sorted(scan.to_polars()["id"]) == expected
    assert sorted(table.to_polars().collect()["id"]) == expected
    connection = scan.to_duckdb("staff")
    try:
        assert connection.execute("select id from staff order by id").fetchall() == [(1,), (3,), (4,)]
    finally:
        connection.close()
    assert scan.count() == 3
    assert table.scan(limit=2).to_arrow().num_rows == 2
    assert table.scan(row_filter="pay > 3", limit=1, selected_fields=("name",)).to_arrow().column_names == ["name"]
