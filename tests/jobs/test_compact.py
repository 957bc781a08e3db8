"""compact: which files are rewritten, what becomes of their rows, ids, deletes, partitions and order."""

from __future__ import annotations

import json
import math
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables.small_tables import KMS, SmallTable
from kit.tables.tables import (
    MASTER_KEY,
    check_lineage,
    data_files,
    delete_files,
    entries,
    head,
    lineage,
    local,
    make,
    make_open,
    manifests,
    rows,
    sealed_catalog,
)
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.cli.main import main
from sealberg.errors import ConfigError, IntegrityError
from sealberg.jobs import rewrite_manifests, rewrite_position_delete_files
from sealberg.jobs.compact import CompactPlan, plan
from sealberg.jobs.compaction.options import CompactOptions, Sizes
from sealberg.jobs.compaction.rewrite import rewrite
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.table.catalog_table import CatalogTable

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", DoubleType()),
    NestedField(4, "cat", StringType()),
)
BY_CAT = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "cat"))
VECTORS: dict[str, Any] = {"write.delete.mode": "merge-on-read"}


def some(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"canary-{i}" for i in ids],
            "score": [None if i % 7 == 0 else float("nan") if i % 5 == 0 else i / 2 for i in ids],
            "cat": ["x" if i % 2 else "y" for i in ids],
        }
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as made:
        yield made


def filled(catalog: EncryptedSqlCatalog, *spec: PartitionSpec, files: int = 6, **properties: Any) -> CatalogTable:
    table = make(catalog, SCHEMA, *spec, **properties)
    for i in range(files):
        table.append(some(i * 10, i * 10 + 10))
    return table


def state(table: CatalogTable) -> tuple[Any, Any]:
    table.refresh()
    return rows(table), lineage(table)


def sound(table: CatalogTable) -> None:
    check_lineage(table)
    result = verify(table, level="deep", orphan_age=timedelta(0)).execute()
    assert result.findings == ()
    assert result.not_checked == ()


# -- rows and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [(), (BY_CAT,)], ids=["unpartitioned", "partitioned"])
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_small_files_become_one_per_partition_and_rows_keep_their_ids(
    catalog: EncryptedSqlCatalog, spec: tuple[PartitionSpec, ...], form: str
) -> None:
    table = filled(catalog, *spec, **dict[str, Any]({"write.format.default": form}))
    before, old = state(table), {file.file_path: file.key_metadata for file in data_files(table)}
    result = plan(table).execute()
    assert state(table) == before
    made = data_files(table)
    assert len(made) == (2 if spec else 1)
    assert (result.rewritten_data_files_count, result.added_data_files_count) == (len(old), len(made))
    assert not {file.key_metadata for file in made} & set(old.values()), "every new file has a new key"
    assert head(table).summary.operation.value == "replace"  # type: ignore[union-attr]
    sound(table)


def test_rows_of_new_files_keep_the_sequence_number_of_the_snapshot_that_was_read(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    start = head(table).sequence_number or 0
    plan(table).execute()
    table.refresh()
    (entry,) = entries(table)
    assert entry.sequence_number == start
    assert head(table).sequence_number == start + 1


def test_deletion_vectors_are_folded_in_and_removed(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, **VECTORS)
    table.delete("id >= 7 and id < 33")
    assert delete_files(table)
    before = state(table)
    result = plan(table).execute()
    assert state(table) == before
    assert delete_files(table) == []
    assert result.removed_delete_files_count == 2, "two files lost some rows; others lost all"
    sound(table)


def test_a_file_with_many_deleted_rows_is_rewritten_alone(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=2, **VECTORS)
    table.delete("id < 4")
    before = state(table)
    sizes = {"target-file-size-bytes": "2000", "min-file-size-bytes": "1"}
    assert plan(table, options={**sizes, "delete-ratio-threshold": "0.5"}).groups == ()
    (group,) = plan(table, options={**sizes, "delete-ratio-threshold": "0.4"}).groups
    assert len(group.files) == 1
    plan(table, options={**sizes, "delete-ratio-threshold": "0.4"}).execute()
    assert state(table) == before
    sound(table)


def test_a_file_without_live_rows_is_removed(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "small", SCHEMA)
    (tmp_path / "small").mkdir()
    one = small.parquet(some(0, 3))
    small.snapshot(one)
    small.snapshot(small.vector({one: [0, 1, 2]}))
    table = registered(tmp_path, small)
    plan(table).execute()
    assert state(table) == ([], {})
    assert data_files(table) == []
    assert delete_files(table) == []


def registered(folder: Path, small: SmallTable) -> CatalogTable:
    catalog = EncryptedSqlCatalog("small", uri=f"sqlite:///{folder}/s.db", warehouse=f"file://{folder}", **KMS)
    catalog.create_namespace_if_not_exists("hr")
    table: Any = catalog.register_table("hr.small", small.write_metadata())
    return table  # type: ignore[no-any-return]


def test_position_and_equality_deletes_are_folded_in_and_dangling_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    small = SmallTable(tmp_path / "small", SCHEMA)
    files = [small.parquet(some(i * 5, i * 5 + 5)) for i in range(5)]
    small.snapshot(*files)
    small.snapshot(small.position_deletes((files[0], 0), (files[0], 1), (files[1], 2)))
    small.snapshot(small.equality_deletes([{"id": 11}, {"id": 12}], Schema(SCHEMA.fields[0]), 1))
    table = registered(tmp_path, small)
    before = state(table)
    assert len(before[0]) == 20
    result = plan(table).execute()
    assert state(table) == before
    assert (len(data_files(table)), len(delete_files(table)), result.removed_delete_files_count) == (1, 2, 0)
    made = plan(table, options={"remove-dangling-deletes": "true"})
    assert (made.groups, made.changes, made.steps[0].removes.files) == ((), True, 2)
    result = made.execute()
    assert state(table) == before
    assert (delete_files(table), result.removed_delete_files_count) == ([], 2)
    assert not plan(table, options={"remove-dangling-deletes": "true"}).changes
    check_lineage(table)


def test_files_of_an_older_spec_get_the_current_spec(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    with table.update_spec() as change:
        change.add_field("id", BucketTransform(3), "bucket")
    table.append(some(60, 70))
    before = state(table)
    plan(table).execute()
    assert state(table) == before
    assert {file.spec_id for file in data_files(table)} == {table.metadata.default_spec_id}
    assert rows(table, "id", row_filter="id == 8") == [{"id": 8}]
    sound(table)


def test_columns_that_were_added_renamed_and_dropped_are_as_before(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=3)
    with table.update_schema() as change:
        change.add_column("more", LongType())
        change.rename_column("name", "title")
        change.delete_column("score")
    extra = some(30, 40).drop_columns(["score"]).rename_columns(["id", "title", "cat"])
    for _ in range(2):
        table.append(extra.append_column("more", pa.array(range(10), pa.int64())))
    before = rows(table)
    plan(table).execute()
    assert rows(table) == before
    sound(table)


def test_large_files_are_split(catalog: EncryptedSqlCatalog) -> None:
    table = make(catalog, SCHEMA)
    table.append(some(0, 20_000))
    size = data_files(table)[0].file_size_in_bytes
    before = state(table)
    plan(table, options={"target-file-size-bytes": str(size // 4)}).execute()
    assert state(table) == before
    counts = [file.record_count for file in data_files(table)]
    assert 4 <= len(counts) <= 5
    assert max(counts) - min(counts) <= 1
    sound(table)


def test_types_of_arrow_stay_as_they_were(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    before = table.scan().to_arrow().schema
    plan(table).execute()
    assert table.refresh().scan().to_arrow().schema == before


# -- the choice of files ------------------------------------------------------------------------


def test_only_files_that_may_match_are_rewritten(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    made = plan(table, where="cat == 'x'")
    assert {file.file.partition[0] for group in made.groups for file in group.files} == {"x"}
    before = state(table)
    made.execute()
    assert state(table) == before
    assert sorted(file.partition[0] for file in data_files(table)) == ["x"] + ["y"] * 6


def test_few_files_are_left_alone_unless_asked(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=4)
    assert plan(table).groups == ()
    assert len(plan(table, options={"min-input-files": "4"}).groups) == 1
    assert len(plan(table, options={"rewrite-all": "true"}).groups[0].files) == 4
    assert len(plan(table, options={"rewrite-all": "true", "max-files-to-rewrite": "3"}).groups[0].files) == 3
    result = plan(table, manifests=False).execute()
    assert (result.exit_code, str(result)) == (0, f"{'.'.join(table.name())}: nothing to compact")


def test_groups_are_bounded_and_ordered(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    size = data_files(table)[0].file_size_in_bytes
    options = {"max-file-group-size-bytes": str(2 * size + 50), "min-input-files": "2"}
    assert [len(group.files) for group in plan(table, options=options).groups] == [2, 2, 2]
    options = {"max-file-group-input-files": "4", "min-input-files": "2", "rewrite-job-order": "files-asc"}
    assert [len(group.files) for group in plan(table, options=options).groups] == [2, 4]


def test_each_batch_of_groups_is_one_commit(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    before = state(table)
    options = {
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "2",
        "max-concurrent-file-group-rewrites": "1",
        "max-file-group-input-files": "2",
        "min-input-files": "2",
    }
    result = plan(table, options=options, manifests=False).execute()
    assert (result.rewritten_data_files_count, result.added_data_files_count, len(result.snapshots)) == (12, 6, 2)
    assert state(table) == before
    sound(table)


def test_a_branch_is_compacted_and_main_stays(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=3)
    table.manage_snapshots().create_branch(head(table).snapshot_id, "side").commit()
    for i in range(3, 6):
        table.append(some(i * 10, i * 10 + 10), branch="side")
    start = head(table).snapshot_id
    at: dict[str, Any] = {"snapshot_id": table.metadata.refs["side"].snapshot_id}
    before = rows(table, **at), lineage(table, **at)
    plan(table, branch="side").execute()
    table.refresh()
    assert head(table).snapshot_id == start
    at = {"snapshot_id": table.metadata.refs["side"].snapshot_id}
    assert (rows(table, **at), lineage(table, **at)) == before
    assert len(data_files(table, table.metadata.snapshot_by_name("side"))) == 1
    sound(table)


# Java's own numbers: SizeBasedFileRewritePlanner of Iceberg with the same sizes.
@pytest.mark.parametrize(
    ("size", "files"), [(0, 1), (511, 1), (512, 1), (561, 1), (600, 2), (897, 2), (1024, 2), (1100, 2), (1500, 3)]
)
def test_the_number_of_output_files_is_that_of_java(size: int, files: int) -> None:
    assert Sizes(512, 384, 921).output_files(size) == files


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min-input-files": "many"}, "min-input-files is 'many', expected an integer"),
        ({"min-input-files": "0"}, "min-input-files is 0, expected 1 or more"),
        ({"rewrite-all": "yes"}, "rewrite-all is 'yes', expected true or false"),
        ({"nonsense": "1"}, "unknown options of rewrite_data_files: nonsense"),
        ({"delete-ratio-threshold": "2"}, "delete-ratio-threshold is 2.0, expected more than 0 and at most 1"),
        ({"rewrite-job-order": "random"}, "rewrite-job-order is 'random', expected one of none, bytes-asc"),
        ({"target-file-size-bytes": "10", "min-file-size-bytes": "10"}, "each must be less than the next"),
        ({"output-spec-id": "7"}, "output-spec-id is 7: new files have the table's current partition spec"),
        ({"partial-progress.max-failed-commits": "1"}, "expected partial-progress.enabled as well"),
    ],
)
def test_wrong_options_are_named_when_the_plan_is_made(
    catalog: EncryptedSqlCatalog, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(make(catalog, SCHEMA), options=options)


def test_wrong_arguments_are_named_when_the_plan_is_made(catalog: EncryptedSqlCatalog) -> None:
    table = make(catalog, SCHEMA)
    arguments: dict[str, Any]
    for arguments, message in (
        ({"where": "nonsense =="}, "cannot parse the filter"),
        ({"where": "other == 1"}, "cannot parse the filter"),
        ({"sort": True}, "the table has no sort order"),
        ({"sort": "other"}, "the sort order names the column 'other', which the table does not have"),
        ({"sort": "id upwards"}, r"which the table does not have|cannot parse the sort order"),
        ({"zorder": ["id"], "sort": True}, "sort and zorder exclude each other"),
        ({"zorder": ["id", "id"]}, "zorder has a column twice"),
        ({"branch": "other"}, "there is no branch other"),
        ({"retries": -1}, "retries is -1"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan(table, **arguments)
    with pytest.raises(ConfigError, match="is not an encrypted table of a catalog"):
        plan(make_open(catalog, SCHEMA))
    with pytest.raises(ConfigError, match=r"no table hr\.nothing in the catalog sealed"):
        plan("hr.nothing", catalog=catalog)


def test_defaults_are_those_of_java() -> None:
    options = CompactOptions.from_properties({})
    assert options == CompactOptions()
    sizes = options.sizes({})
    assert (sizes.target, sizes.least, sizes.most) == (512 << 20, 384 << 20, int(512 * 1.8 * (1 << 20)))
    assert (options.min_input_files, options.delete_ratio_threshold) == (5, 0.3)
    assert (options.max_file_group_size_bytes, options.delete_file_threshold) == (100 << 30, 2**31 - 1)
    assert not options.partial_progress_enabled
    assert options.partial_progress_max_commits == 10
    assert options.use_starting_sequence_number
    assert CompactOptions().sizes({"write.target-file-size-bytes": "1000"}).target == 1000


# -- order --------------------------------------------------------------------------------------


def test_rows_are_sorted_by_the_order_of_the_table(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    with table.update_sort_order() as change:
        change.desc("score", IdentityTransform())
    before = state(table)
    plan(table, sort=True).execute()
    assert state(table) == before
    (file,) = data_files(table)
    assert file.sort_order_id == table.metadata.default_sort_order_id
    scores = table.scan().to_arrow()["score"].to_pylist()
    numbers = [score for score in scores if score is not None and not math.isnan(score)]
    nans, nulls = sum(score is not None and math.isnan(score) for score in scores), scores.count(None)
    assert numbers == sorted(numbers, reverse=True)
    assert all(map(math.isnan, scores[:nans])), "NaN is greater than every number"
    assert scores[len(scores) - nulls :] == [None] * nulls
    sound(table)


def test_rows_are_sorted_by_a_given_order(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    plan(table, sort="cat DESC, score ASC NULLS FIRST, bucket(4, id)").execute()
    found = table.refresh().scan().to_arrow().to_pylist()
    keys = [
        (-ord(row["cat"]), row["score"] is not None, row["score"] != row["score"], row["score"] or 0) for row in found
    ]
    plain = [key for key in keys if key[3] == key[3]]
    assert plain == sorted(plain)
    assert [key[:3] for key in keys] == sorted(key[:3] for key in keys)
    (file,) = data_files(table)
    assert file.sort_order_id == 0, "the order is none of the table's"


def test_a_sort_that_does_not_fit_into_memory_is_done_in_runs(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    before = state(table)
    plan(table, sort="id desc", sort_bytes=2500).execute()
    assert state(table) == before
    files = data_files(table)
    assert 2 <= len(files) <= 4
    for task in table.scan().plan_files():
        path = str(task.file.file_path)
        found = [row["id"] for row in rows_of(table, path)]
        assert found == sorted(found, reverse=True)
    sound(table)


def rows_of(table: CatalogTable, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(selected_fields=("id", "_file")).to_arrow().to_pylist()
    return [row for row in found if row["_file"] == path]


def test_z_order_keeps_close_rows_together(catalog: EncryptedSqlCatalog) -> None:
    grid = pa.table({"a": [i % 16 for i in range(256)], "b": [i // 16 for i in range(256)]})
    table = make(catalog, grid.schema)
    for start in range(0, 256, 32):
        table.append(grid.slice(start, 32))
    plan(table, zorder=["a", "b"]).execute()
    found = table.refresh().scan().to_arrow().to_pylist()
    quarters = [{(row["a"] // 8, row["b"] // 8) for row in found[at : at + 64]} for at in range(0, 256, 64)]
    assert all(len(quarter) == 1 for quarter in quarters)
    assert len(set.union(*quarters)) == 4


# -- manifests ----------------------------------------------------------------------------------


def test_manifests_are_merged_and_clustered_by_partition(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT, **VECTORS)
    table.delete("id == 3")
    table.delete("id == 15")
    before, files = state(table), {str(file.file_path): file.first_row_id for file in data_files(table)}
    ages = {str(entry.data_file.file_path): entry.sequence_number for entry in entries(table)}
    result = rewrite_manifests.plan(table).execute()
    assert state(table) == before
    assert {str(file.file_path): file.first_row_id for file in data_files(table)} == files
    assert {str(entry.data_file.file_path): entry.sequence_number for entry in entries(table)} == ages
    assert len(manifests(table)) == 2, "one of data, one of deletes"
    assert (result.rewritten_manifests_count, result.added_manifests_count) == (8, 2)
    found = head(table).summary.additional_properties  # type: ignore[union-attr]
    assert (found["manifests-replaced"], found["entries-processed"]) == ("8", "14")
    sound(table)


def test_manifests_of_the_target_size_have_few_partitions_each(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    whole = sum(manifest.manifest_length for manifest in manifests(table))
    rewrite_manifests.plan(table, target_size=whole // 2 + 1).execute()
    table.refresh()
    found = [
        {entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(table.io)}
        for manifest in manifests(table)
    ]
    assert found == [{"x"}, {"y"}]
    sound(table)


def test_a_single_manifest_is_left_alone(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=1)
    result = rewrite_manifests.plan(table).execute()
    assert result.snapshot_id is None
    assert not rewrite_manifests.plan(table).changes
    with pytest.raises(ConfigError, match="has no partition spec 9"):
        rewrite_manifests.plan(table, spec_id=9)


def test_compact_merges_manifests_of_files_that_stay(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=4)
    before = state(table)
    result = plan(table).execute()
    assert state(table) == before
    assert (result.merged_manifests_count, result.added_manifests_count) == (4, 1)
    assert len(data_files(table)) == 4
    assert len(manifests(table)) == 1
    sound(table)


# -- deletes ------------------------------------------------------------------------------------


def test_vectors_of_many_files_go_into_one_puffin_file(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT, **VECTORS)
    for i in (3, 15, 27, 38, 41, 42):
        table.delete(f"id == {i}")
    before, vectors = state(table), {file.referenced_data_file: file.record_count for file in delete_files(table)}
    made = rewrite_position_delete_files.plan(table)
    assert made.steps[0].reads.files == 6
    result = made.execute()
    assert (result.rewritten_delete_files_count, result.added_delete_files_count) == (6, 1)
    assert state(table) == before
    assert {file.referenced_data_file: file.record_count for file in delete_files(table)} == vectors
    assert len({str(file.file_path) for file in delete_files(table)}) == 1
    sound(table)
    assert rewrite_position_delete_files.plan(table).execute().snapshot_id is None


def test_position_deletes_become_vectors(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    small = SmallTable(tmp_path / "small", SCHEMA)
    files = [small.parquet(some(i * 5, i * 5 + 5)) for i in range(3)]
    small.snapshot(*files)
    small.snapshot(small.position_deletes((files[0], 0), (files[0], 1), (files[1], 2)))
    small.snapshot(small.position_deletes((files[0], 3)))
    table = registered(tmp_path, small)
    before = state(table)
    assert rewrite_position_delete_files.plan(table).execute().snapshot_id is None, "two files are few"
    rewrite_position_delete_files.plan(table, options={"min-input-files": "2"}).execute()
    assert state(table) == before
    assert {file.record_count for file in delete_files(table)} == {3, 1}
    assert all(file.is_deletion_vector for file in delete_files(table))
    ages = {entry.data_file.record_count: entry.sequence_number for entry in entries(table) if entry.data_file.content}
    assert ages == {3: 3, 1: 2}, "the largest sequence number of what they replace"
    check_lineage(table)
    for options, message in (
        ({"min-input-files": "x"}, "min-input-files is 'x', expected an integer"),
        ({"nonsense": "1"}, "unknown options of rewrite_position_delete_files: nonsense"),
        ({"min-input-files": "0"}, "min-input-files is 0, expected 1 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            rewrite_position_delete_files.plan(table, options=options)


# -- keys, the plan and the command -------------------------------------------------------------


def test_a_task_carries_the_keys_of_its_files_and_no_other_secret(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    made = plan(table)
    first, second = (next(made.tasks(group)) for group in made.groups)
    own = {bytes(file.file.key_metadata or b"") for file in first.files}
    others = {bytes(file.file.key_metadata or b"") for file in second.files}
    text = pickle.dumps(first)
    assert all(key in text for key in own)
    assert not any(key in text for key in others)
    assert MASTER_KEY.encode() not in text
    assert bytes.fromhex(MASTER_KEY) not in text
    assert b"sqlite" not in text
    ring = table.metadata.encryption_keys
    assert not any(entry.encrypted_key_metadata in text for entry in ring)
    done = rewrite(pickle.loads(text))
    assert done.error is None
    assert done.rows == 30
    shown = repr(made) + str(made) + json.dumps(made.to_json()) + repr(first) + repr(done)
    assert not any(repr(key)[2:-1] in shown or key.hex() in shown for key in own)


def test_the_command_compacts_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = filled(catalog, **VECTORS)
        table.delete("id == 3")
        before, name = state(table), ".".join(table.name())
    with command(tmp_path) as run:
        assert run("compact", name, "--dry-run") == 0
        assert "compact (1 group)" in capsys.readouterr().out
        assert run("compact", name) == 2, "there is no terminal to ask"
        assert "use --yes" in capsys.readouterr().err
        assert run("compact", name, "--yes", "--json", "--sort-by", "id desc", "--target-size", "1M") == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["rewritten_data_files_count"], said["added_data_files_count"]) == (6, 1)
        assert run("compact", name, "--yes") == 0
        assert "nothing to compact" in capsys.readouterr().out
        assert run("compact", name, "--yes", "--target-size", "big") == 2
        assert run("compact", name, "--option", "min-input-files=3", "--min-input-files", "4") == 2
    with sealed_catalog(tmp_path) as catalog:
        table = catalog.load_table(name)  # type: ignore[assignment]
        assert state(table) == before
        assert table.scan().to_arrow()["id"].to_pylist() == [i for i in reversed(range(60)) if i != 3]


def command(folder: Path) -> Any:
    """Runs the command with the catalog of a folder."""
    from contextlib import contextmanager

    @contextmanager
    def made() -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYICEBERG_HOME", str(folder))
            (folder / ".pyiceberg.yaml").write_text(
                "catalog:\n  sealed:\n    type: sql\n"
                f"    uri: sqlite:///{folder}/sealed/catalog.db\n    warehouse: file://{folder}/sealed/wh\n"
                "    encryption.kms-type: memory\n"
                f"    encryption.kms.memory.key.hr: {MASTER_KEY}\n"
            )

            def run(*arguments: str) -> int:
                with pytest.raises(SystemExit) as ended:
                    main([*arguments, "--catalog", "sealed"])
                return int(ended.value.code or 0)

            yield run

    return made()


def test_a_damaged_file_stops_the_job_and_leaves_nothing_behind(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = filled(catalog, BY_CAT)
    path = local(str(data_files(table)[0].file_path))
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    files = set(tmp_path.rglob("*.*"))
    with pytest.raises(IntegrityError, match=r"altered|authentic"):
        plan(table).execute()
    assert set(tmp_path.rglob("*.*")) == files


def test_with_partial_progress_a_damaged_file_costs_its_group_only(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    damaged = data_files(table)[0]
    path = local(str(damaged.file_path))
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    made: CompactPlan = plan(table, options={"partial-progress.enabled": "true"})
    result = made.execute()
    assert result.exit_code == 2
    assert [group.files for group in result.failed] == [6]
    assert "not compacted: group" in str(result)
    table.refresh()
    kept = [file for file in data_files(table) if file.partition[0] == damaged.partition[0]]
    assert (len(kept), len(data_files(table))) == (6, 7)
