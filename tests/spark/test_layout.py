"""How rows lie in files: distributed, sorted, cut at a size, with true bounds; and on which branch."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.programs.spark import KEYED
from kit.tables.tables import check_lineage
from sealberg.errors import AuthenticationError
from sealberg.files.file_io import KeyedLocation
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.reader import EncryptedParquetReader

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit
    from sealberg.files.parquet.modules import Module
    from sealberg.format.key_metadata import KeyMetadata


def keyed(**properties: str) -> str:
    told = "".join(f", '{name.replace('_', '.').replace('..', '-')}' = '{value}'" for name, value in properties.items())
    return f"TBLPROPERTIES ('encryption.key-id' = 'hr'{told})"


def files_of(kit: SparkKit, name: str) -> list[dict[str, Any]]:
    return list(kit.table(name).inspect.files().to_pylist())


def in_order(kit: SparkKit, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each file as they lie there."""
    rows = kit.spark.sql(f"SELECT _file, * FROM {name} ORDER BY _file, _pos").collect()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(tuple(row)[1:])
    return found


@pytest.mark.parametrize(("mode", "files"), [("none", 16), ("hash", 8), ("range", 8)])
def test_rows_are_distributed_as_the_table_says(kit: SparkKit, mode: str, files: int) -> None:
    name = kit.fresh()
    told = keyed(write_distribution__mode=mode)
    kit.sql(f"CREATE TABLE {name} (id bigint, p bigint) PARTITIONED BY (p) {told}")
    kit.spark.range(800, numPartitions=2).selectExpr("id", "id % 8 AS p").writeTo(name).append()
    found = in_order(kit, name)
    assert len(found) == files, "a file for each partition, or one of each task"
    assert all(len({row[1] for row in rows}) == 1 for rows in found.values())
    with pytest.raises(Exception, match="is none, hash or range, not random"):
        kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.distribution-mode' = 'random')")


@pytest.mark.parametrize("mode", [None, "none"])
def test_rows_are_written_in_the_sort_order_of_the_table(kit: SparkKit, mode: str | None) -> None:
    from pyiceberg.table.sorting import NullOrder
    from pyiceberg.transforms import BucketTransform, IdentityTransform

    name = kit.fresh()
    kit.sql(
        f"CREATE TABLE {name} (id bigint, name string) {keyed(**({'write_distribution__mode': mode} if mode else {}))}"
    )
    with kit.table(name).update_sort_order() as order:
        order.desc("name", IdentityTransform(), NullOrder.NULLS_LAST).asc(
            "id", BucketTransform(4), NullOrder.NULLS_FIRST
        )
    rows = "SELECT (id * 7919) % 1000 AS id, if(id % 50 = 0, null, concat('n', id % 30)) AS name"
    kit.sql(f"INSERT INTO {name} {rows} FROM range(1000)")
    found = in_order(kit, name)
    bucket: Any = BucketTransform(4).transform(kit.table(name).schema().find_type("id"))
    for lying in found.values():
        names = [row[1] for row in lying]
        assert names == sorted((one for one in names if one), reverse=True) + [None] * names.count(None)
        for before, after in itertools.pairwise(lying):
            assert before[1] != after[1] or bucket(before[0]) <= bucket(after[0])
    assert {one["sort_order_id"] for one in files_of(kit, name)} == {kit.table(name).sort_order().order_id}
    if mode is None and len(found) > 1:
        spans = sorted(
            (max(filter(None, names)), min(filter(None, names)))
            for names in ([r[1] for r in f] for f in found.values())
        )
        assert all(one[0] <= other[1] for one, other in itertools.pairwise(spans)), "a range for each file"
    kit.sql(f"UPDATE {name} SET name = 'n99' WHERE id = 500")
    lying = next(rows for rows in in_order(kit, name).values() if (500, "n99") in rows)
    names = [row[1] for row in lying]
    assert names == sorted((one for one in names if one), reverse=True) + [None] * names.count(None)


def test_files_are_cut_at_the_target_size_and_tell_of_their_rows(kit: SparkKit) -> None:
    name = kit.fresh()
    told = keyed(write_target__file__size__bytes="40000", write_parquet_row__group__size__bytes="20000")
    kit.sql(f"CREATE TABLE {name} (id bigint, name string, x double) {told}")
    kit.sql(
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, sha2(cast(id AS string), 256), if(id % 3 = 0, null, id / 2) "
        "FROM range(10000)"
    )
    files = files_of(kit, name)
    assert len(files) > 3, "one task, several files"
    sizes = [one["file_size_in_bytes"] for one in files]
    assert all(20_000 < size < 120_000 for size in sorted(sizes)[1:]), sizes
    assert sum(one["record_count"] for one in files) == 10_000
    lying = in_order(kit, name)
    for one in files:
        rows = lying[one["file_path"]]
        readable = one["readable_metrics"]
        assert one["record_count"] == len(rows)
        assert (readable["id"]["lower_bound"], readable["id"]["upper_bound"]) == (rows[0][0], rows[-1][0])
        assert readable["name"]["lower_bound"][:16] == min(row[1] for row in rows)[:16]
        assert readable["x"]["null_value_count"] == sum(row[2] is None for row in rows)
        assert one["split_offsets"][0] == 4
        assert one["split_offsets"] == sorted(one["split_offsets"])
        assert len(one["split_offsets"]) > 1


def test_many_partitions_do_not_mean_many_open_files(kit: SparkKit) -> None:
    """Sorted by partition, a task has one file open; it is the last word of the statement that tells."""
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p bigint) PARTITIONED BY (p) {keyed(write_distribution__mode='none')}")
    frame = kit.spark.range(3000, numPartitions=1).selectExpr("id", "(id * 7919) % 300 AS p")
    frame.writeTo(name).append()
    assert len(files_of(kit, name)) == 300, "each partition was open once"
    kit.sql(f"DELETE FROM {name} WHERE id % 10 = 0")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(2700,)]
    assert len(files_of(kit, name)) <= 300
    check_lineage(kit.table(name))


@pytest.mark.parametrize(("partitions", "files"), [(32, 32), (33, 99), (100, 300)])
def test_rows_that_come_in_no_order_have_at_most_32_open_files(kit: SparkKit, partitions: int, files: int) -> None:
    """A file of a former, unpartitioned layout loses a row; one task writes what is left as it comes, into partitions.

    The partitions take turns. As long as all their files can be open, each has one; with one partition more, the file
    that was used longest ago is always the one that is needed next, so that each of the three rounds begins anew.
    """
    from pyiceberg.transforms import IdentityTransform

    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p bigint) {keyed(write_distribution__mode='none')}")
    rows = f"SELECT /*+ COALESCE(1) */ id, id % {partitions} AS p FROM range(-1, {3 * partitions})"
    kit.sql(f"INSERT INTO {name} {rows}")
    assert len(files_of(kit, name)) == 1
    with kit.table(name).update_spec() as spec:
        spec.add_field("p", IdentityTransform(), "p")
    kit.sql(f"DELETE FROM {name} WHERE id = -1")
    found = files_of(kit, name)
    assert len(found) == files
    assert {one["spec_id"] for one in found} == {1}
    lying = in_order(kit, name)
    assert all(len({row[1] for row in rows}) == 1 for rows in lying.values())
    assert sorted(row for rows in lying.values() for row in rows) == [
        (n, n % partitions) for n in range(3 * partitions)
    ]
    assert len(kit.data_files(name)) == files + 1, "the files that took turns are all in the table, beside the old one"
    check_lineage(kit.table(name))


def test_branches_are_written_to_by_name(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    table = kit.table(name)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_branch(first, "test").create_tag(first, "done").commit()
    branch = f"{name}.branch_test"
    kit.sql(f"INSERT INTO {branch} VALUES (3, 'c')")
    kit.spark.createDataFrame([(4, "d")], "id bigint, p string").writeTo(branch).append()
    assert kit.sql(f"SELECT id FROM {branch}") == [(1,), (2,), (3,), (4,)]
    kit.sql(f"UPDATE {branch} SET id = 30 WHERE id = 3")
    kit.sql(f"DELETE FROM {branch} WHERE p = 'd'")
    kit.sql(f"INSERT OVERWRITE {branch} PARTITION (p = 'b') SELECT 20L")
    kit.spark.createDataFrame([(10, "a")], "id bigint, p string").writeTo(branch).overwritePartitions()
    kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')")
    kit.sql(
        f"MERGE INTO {branch} t USING (SELECT 30L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 31 "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 20 THEN DELETE"
    )
    assert kit.sql(f"SELECT id FROM {branch}") == [(10,), (31,)]
    assert kit.sql(f"SELECT id FROM {name} VERSION AS OF 'test'") == [(10,), (31,)]
    assert kit.sql(f"SELECT id FROM {name}") == [(1,), (2,)], "the main branch has seen none of it"
    assert kit.sql(f"SELECT id FROM {name}.tag_done") == [(1,), (2,)]
    for statement, text in {
        f"INSERT INTO {name}.tag_done VALUES (5, 'e')": "cannot be written to at a point in the past",
        f"INSERT INTO {name}.branch_other VALUES (5, 'e')": "has no branch other; table.manage_snapshots",
        f"SELECT * FROM {name}.branch_done": "has no branch done",
    }.items():
        with pytest.raises(Exception, match=text):
            kit.sql(statement)


def test_partitions_that_python_changed_are_written_by_spark(kit: SparkKit) -> None:
    from pyiceberg.transforms import BucketTransform

    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, p string) PARTITIONED BY (p) {KEYED}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    with kit.table(name).update_spec() as spec:
        spec.remove_field("p")
        spec.add_field("id", BucketTransform(2), "id_bucket")
    kit.sql(f"INSERT INTO {name} VALUES (4, 'a'), (5, 'c')")
    assert {one["spec_id"] for one in files_of(kit, name)} == {0, 1}
    kit.sql(f"DELETE FROM {name} WHERE id = 2")
    kit.sql(f"UPDATE {name} SET p = 'z' WHERE id IN (1, 5)")
    assert kit.sql(f"SELECT * FROM {name}") == [(1, "z"), (3, "b"), (4, "a"), (5, "z")]
    assert {one["spec_id"] for one in files_of(kit, name)} == {1}, "what is written anew is partitioned anew"
    check_lineage(kit.table(name))


def test_files_that_spark_writes_have_the_bloom_filters_of_the_table(kit: SparkKit) -> None:
    name = kit.fresh()
    asked = ", ".join(
        f"'write.parquet.bloom-filter-{name}' = '{value}'"
        for name, value in {"enabled.column.name": "true", "ndv.column.name": "100", "max-bytes": "4096"}.items()
    )
    kit.sql(f"CREATE TABLE {name} (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr', {asked})")
    # Enough values for parquet-java to give up the dictionary, which would be as good as a filter.
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, concat('n', id) FROM range(200000)")
    (task,) = kit.table(name).scan().plan_files()
    assert isinstance(task.file.file_path, KeyedLocation)
    (file,) = kit.data_files(name)
    with EncryptedParquetReader(file.read_bytes(), task.file.file_path.keys) as reader:
        columns = reader.metadata.row_group(0)
        assert [columns.column(at).bloom_filter_offset is None for at in range(2)] == [True, False]
    assert kit.sql(f"SELECT id FROM {name} WHERE name = 'n77'") == [(77,)]
    assert kit.table(name).scan("name = 'n77'").to_arrow()["id"].to_pylist() == [77]
    # Java's reader opens the filter of a file that Python wrote.
    kit.table(name).append(pa.table({"id": [-1], "name": ["p"]}))
    assert kit.sql(f"SELECT id FROM {name} WHERE name = 'p'") == [(-1,)]
    content, key = file.read_bytes(), task.file.file_path.keys
    filters = [module for module in walked(content, key) if "BLOOM" in module.place.kind.name]
    assert [module.place.kind.name for module in filters] == ["BLOOM_FILTER_HEADER", "BLOOM_FILTER_BITSET"]
    for module in filters:
        altered = bytearray(content)
        altered[module.offset + module.stored_length - 1] ^= 1
        with pytest.raises(AuthenticationError, match=f"the {module.place} failed"):
            walked(bytes(altered), key)


def walked(content: bytes, key: KeyMetadata) -> list[Module]:
    """Every module of a Parquet file; every byte belongs to one."""
    with ModuleWalk(content, key) as walk:
        found = [module for group, chunk in walk.footer.chunks() for module in walk.chunk(group, chunk)]
        assert list(walk.gaps()) == []
        return found
