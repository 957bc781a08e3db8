"""compact: which files are rewritten, into how many, and in which order of rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from jobs.compact_tables import BY_CAT, SCHEMA, filled, some, sound, state
from kit.tables.tables import (
    data_files,
    head,
    lineage,
    make,
    make_open,
    rows,
    sealed_catalog,
)
from sealberg.errors import ConfigError
from sealberg.jobs.compact import plan
from sealberg.jobs.compaction.options import CompactOptions, Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as made:
        yield made


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
