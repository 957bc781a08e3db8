"""Which files a scan reads, and which deletes concern each; and that plans share manifests without sharing changes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable
from sealberg import pyiceberg_private as pyiceberg_0_12
from sealberg.errors import FormatError, UnsupportedError
from sealberg.metadata import decode_cache as cache
from sealberg.metadata import manifest_cache, manifest_column_reader
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_cache import ManifestCache, copy_of

if TYPE_CHECKING:
    from pathlib import Path

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType(), required=False)
SCHEMA = Schema(ID, NAME)
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=1)
NO_LONGER = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "name"), spec_id=2)


def rows(*ids: int, name: str | None = "a") -> list[dict[str, Any]]:
    return [{"id": number, "name": name} for number in ids]


def ids(small: SmallTable, **scan: Any) -> list[int]:
    found = small.table().scan(**scan)
    read: list[int] = found.to_arrow()["id"].to_pylist()
    assert found.count() == len(read), "counting is another way to the same"
    return sorted(read)


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path, SCHEMA)


@pytest.fixture
def parted(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path, SCHEMA, specs=[BY_NAME, NO_LONGER])


# -- deletion vectors -------------------------------------------------------------------------


def test_a_vector_deletes_positions_of_its_own_file_only(small: SmallTable) -> None:
    file, other = small.parquet(rows(1, 2, 3)), small.parquet(rows(4, 5, 6))
    small.snapshot(file, other)
    small.snapshot(small.vector({file: [0, 2]}))
    assert ids(small) == [2, 4, 5, 6]


def test_vectors_of_one_puffin_file_are_told_apart_by_offset(small: SmallTable) -> None:
    files = [small.parquet(rows(10 * i, 10 * i + 1)) for i in range(3)]
    small.snapshot(*files)
    small.snapshot(small.vector({files[0]: [0], files[1]: [1], files[2]: [0, 1]}))
    assert ids(small) == [1, 10]


def test_a_vector_of_the_same_commit_applies(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2))
    small.snapshot(file, small.vector({file: [0]}))
    assert ids(small) == [2]


def test_an_older_vector_is_refused_in_javas_words(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2))
    small.snapshot(small.parquet(rows(3)), small.vector({file: [0]}))
    small.snapshot(file)
    with pytest.raises(
        FormatError, match=r"DV data sequence number .1. must be greater than or equal to data file .*2"
    ):
        small.table().scan().plan_files()


def test_two_vectors_for_one_file_are_refused(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2))
    small.snapshot(file)
    small.snapshot(small.vector({file: [0]}), small.vector({file: [1]}))
    with pytest.raises(FormatError, match="Can't index multiple DVs"):
        small.table().scan().plan_files()


def test_a_vector_that_references_no_file_is_refused(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2))
    (vector,) = small.vector({file: [0]})
    vector._data[17] = None
    small.snapshot(file, vector)
    with pytest.raises(FormatError, match="has no referenced_data_file"):
        small.table().scan().plan_files()


def test_where_there_is_a_vector_position_delete_files_are_not_looked_at(small: SmallTable) -> None:
    file, other = small.parquet(rows(1, 2, 3)), small.parquet(rows(4, 5))
    small.snapshot(file, other)
    small.snapshot(small.position_deletes((file, 1), (other, 0)))
    small.snapshot(small.vector({file: [0]}))
    assert ids(small) == [2, 3, 5]


# -- position deletes -------------------------------------------------------------------------


@pytest.mark.parametrize("avro", [False, True])
def test_position_deletes_apply_to_files_of_their_commit_and_before(small: SmallTable, avro: bool) -> None:
    file, same, later = small.parquet(rows(1, 2)), small.parquet(rows(3, 4)), small.parquet(rows(5, 6))
    small.snapshot(file)
    small.snapshot(same, small.position_deletes((file, 0), (same, 0), (later, 0), avro=avro))
    small.snapshot(later)
    assert ids(small) == [2, 4, 5, 6]


def test_position_deletes_of_several_files_add_up(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2, 3, 4))
    small.snapshot(file)
    small.snapshot(small.position_deletes((file, 0)), small.position_deletes((file, 0), (file, 3)))
    assert ids(small) == [2, 3]


def test_position_deletes_stay_in_their_partition(parted: SmallTable) -> None:
    a = parted.parquet(rows(1, 2, name="a"), partition=("a",))
    b = parted.parquet(rows(3, 4, name="b"), partition=("b",))
    parted.snapshot(a, b)
    # It names rows of both files, but only those of its own partition are meant.
    parted.snapshot(parted.position_deletes((a, 0), (b, 0), partition=("b",)))
    assert ids(parted) == [1, 2, 4]


@pytest.mark.parametrize("about", ["reference", "bounds", "neither"])
def test_position_deletes_concern_only_the_files_that_they_can_name(small: SmallTable, about: str) -> None:
    file, other = small.parquet(rows(1, 2)), small.parquet(rows(3, 4))
    small.snapshot(file, other)
    more: dict[str, Any] = {"bounds": about == "bounds"}
    if about == "reference":
        more["referenced_data_file"] = str(file.file_path)
    small.snapshot(small.position_deletes((file, 1), **more))
    concerned = {str(task.file.file_path): len(task.delete_files) for task in small.table().scan().plan_files()}
    assert concerned == {str(file.file_path): 1, str(other.file_path): 1 if about == "neither" else 0}
    assert ids(small) == [1, 3, 4]


# -- equality deletes -------------------------------------------------------------------------


@pytest.mark.parametrize("avro", [False, True])
def test_equality_deletes_apply_to_strictly_older_files(small: SmallTable, avro: bool) -> None:
    small.snapshot(small.parquet(rows(1, 2)))
    small.snapshot(small.parquet(rows(1, 3)), small.equality_deletes([{"id": 1}], Schema(ID), 1, avro=avro))
    small.snapshot(small.parquet(rows(1, 4)))
    assert ids(small) == [1, 1, 2, 3, 4]


def test_equality_deletes_stay_in_their_partition(parted: SmallTable) -> None:
    parted.snapshot(
        parted.parquet(rows(1, 2, name="a"), partition=("a",)), parted.parquet(rows(1, 3, name="b"), partition=("b",))
    )
    parted.snapshot(parted.equality_deletes([{"id": 1}], Schema(ID), 1, partition=("b",)))
    assert ids(parted) == [1, 2, 3]


def test_equality_deletes_of_an_unpartitioned_spec_are_global(parted: SmallTable) -> None:
    parted.snapshot(
        parted.parquet(rows(1, 2, name="a"), partition=("a",)), parted.parquet(rows(1, 3, name="b"), partition=("b",))
    )
    parted.snapshot(parted.equality_deletes([{"id": 1}], Schema(ID), 1, partition=(None,), spec_id=2))
    assert ids(parted) == [2, 3]


def test_equality_deletes_without_ids_are_refused(small: SmallTable) -> None:
    small.snapshot(small.parquet(rows(1)))
    small.snapshot(small.equality_deletes([{"id": 1}], Schema(ID)))
    with pytest.raises(FormatError, match="has no equality_ids"):
        small.table().scan().to_arrow()


# -- pruning ----------------------------------------------------------------------------------


def planned(small: SmallTable, row_filter: str) -> list[str]:
    return [str(task.file.file_path) for task in small.table().scan(row_filter).plan_files()]


def test_files_are_pruned_by_statistics(small: SmallTable) -> None:
    low, high = small.parquet(rows(1, 2)), small.parquet(rows(8, 9))
    small.snapshot(low, high)
    assert planned(small, "id > 5") == [high.file_path]
    assert planned(small, "id >= 2") == [low.file_path, high.file_path]
    assert planned(small, "id = 5") == []


def test_a_manifest_of_other_partitions_is_not_even_opened(parted: SmallTable) -> None:
    parted.snapshot(parted.parquet(rows(1, name="a"), partition=("a",)))
    wanted = parted.parquet(rows(2, name="b"), partition=("b",))
    parted.snapshot(wanted)
    cache.clear()
    gone = str(parted.manifests[0].manifest_path).removeprefix("file://")
    parted.folder.joinpath(gone).unlink()
    assert planned(parted, "name = 'b'") == [wanted.file_path]
    with pytest.raises(FileNotFoundError):
        planned(parted, "name = 'a'")


def test_what_a_partition_settles_is_not_left_in_the_residual(parted: SmallTable) -> None:
    parted.snapshot(parted.parquet(rows(1, 5, name="a"), partition=("a",)))
    (task,) = parted.table().scan("name = 'a'").plan_files()
    assert isinstance(task.residual, AlwaysTrue)
    (task,) = parted.table().scan("name = 'a' and id > 3").plan_files()
    assert not isinstance(task.residual, AlwaysTrue)
    assert ids(parted, row_filter="name = 'a' and id > 3") == [5]


def test_deletes_are_not_pruned_by_statistics_of_columns_beside_the_point(small: SmallTable) -> None:
    small.snapshot(small.parquet([{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]))
    # The delete file has a name, too, and a wrong one; it deletes by id.
    small.snapshot(small.equality_deletes([{"id": 1, "name": "zzz"}], SCHEMA, 1))
    assert ids(small, row_filter="name < 'z'") == [2]


def test_a_manifest_of_an_unknown_spec_is_refused_by_name(small: SmallTable) -> None:
    small.snapshot(small.parquet(rows(1)))
    table = small.table()
    table.metadata = table.metadata.model_copy(update={"partition_specs": [BY_NAME]})
    with pytest.raises(FormatError, match="partition spec 0, which is not in the table metadata"):
        table.scan().plan_files()


# -- shared manifests -------------------------------------------------------------------------


def test_planning_again_does_not_read_manifests_again(small: SmallTable) -> None:
    small.snapshot(small.parquet(rows(1, 2)), small.parquet(rows(3)))
    table = small.table()
    first = table.scan().plan_files()
    for manifest in small.manifests:
        small.folder.joinpath(str(manifest.manifest_path).removeprefix("file://")).unlink()
    assert [task.file for task in table.scan().plan_files()] == [task.file for task in first]
    cache.clear()
    with pytest.raises(FileNotFoundError):
        table.scan().plan_files()


def test_what_a_caller_changes_stays_with_that_caller(small: SmallTable) -> None:
    small.snapshot(small.parquet(rows(1, 2)))
    table = small.table()
    (manifest,) = table.metadata.snapshots[-1].manifests(table.io)
    (task,), (entry,) = table.scan().plan_files(), manifest.fetch_manifest_entry(table.io)
    for file in (task.file, entry.data_file):
        file.lower_bounds.clear()
        file.spec_id = 77
        file.partition._data.append("more")
        assert isinstance(file, DataFileV3)
        file.first_row_id = 1_000_000
    entry.sequence_number = 1_000_000
    (again,), (entry,) = table.scan("id = 2").plan_files(), manifest.fetch_manifest_entry(table.io)
    for file in (again.file, entry.data_file):
        assert isinstance(file, DataFileV3)
        assert (file.lower_bounds[1][0], file.spec_id, len(file.partition), file.first_row_id) == (1, 0, 0, 0)
    assert (again.sequence_number, entry.sequence_number) == (1, 1)


def test_a_manifest_without_a_key_is_not_kept(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA, encrypted=False)
    small.snapshot(small.parquet(rows(1)))
    before = len(manifest_column_reader.KEPT)
    small.table().scan().plan_files()
    assert len(manifest_column_reader.KEPT) == before


def test_a_cache_keeps_the_last_used_within_its_bounds(small: SmallTable) -> None:
    small.snapshot(small.parquet(rows(1)))
    table = small.table()
    (manifest,) = table.metadata.snapshots[-1].manifests(table.io)
    entries = manifest.fetch_manifest_entry(table.io)
    weigher = ManifestCache()
    weigher.get((0,), lambda: list(entries))
    kept = ManifestCache(weigher.weight * 2)
    decoded: list[int] = []

    def get(number: int) -> None:
        kept.get((number,), lambda: decoded.append(number) or [copy_of(entry) for entry in entries])  # type: ignore[func-returns-value]

    for number in (1, 2, 1, 3, 1, 2):
        get(number)
    assert decoded == [1, 2, 3, 2], "1 was in use all the time, 2 made room for 3"
    assert (len(kept), kept.weight) == (2, weigher.weight * 2)
    ManifestCache(1).get((1,), lambda: list(entries))
    assert len(pickle.loads(pickle.dumps(kept))) == 0


def test_a_table_larger_than_the_cache_of_plans_still_finds_what_fits() -> None:
    now, decoded = [0.0], list[int]()
    kept = cache.Cache[int](3, lambda _: 1, rest=60, clock=lambda: now[0])

    def plan(*manifests: int) -> int:
        decoded.clear()
        for number in manifests:
            kept.get((number,), lambda number=number: decoded.append(number) or number)  # type: ignore[misc,func-returns-value]
        now[0] += 10
        return len(decoded)

    assert [plan(1, 2, 3, 4) for _ in range(3)] == [4, 1, 1]
    assert plan(5, 6, 7) == 3, "another table waits until the first has not been used for a while"
    now[0] += 60
    assert [plan(5, 6, 7) for _ in range(2)] == [3, 0]


def test_a_task_travels_to_another_process_with_its_keys(small: SmallTable) -> None:
    file = small.parquet(rows(1, 2))
    small.snapshot(file)
    small.snapshot(small.vector({file: [0]}))
    (task,) = small.table().scan().plan_files()
    there = pickle.loads(pickle.dumps(task))
    assert (there.file, there.delete_files, there.sequence_number) == (task.file, task.delete_files, 1)
    assert there.file.file_path.keys == task.file.file_path.keys  # type: ignore[attr-defined]
    assert task.file.key_metadata is not None
    assert repr(task.file.key_metadata)[4:20] not in repr(task)


def test_delete_manifests_older_than_all_data_are_not_read(small: SmallTable) -> None:
    file = small.parquet(rows(1))
    small.snapshot(small.position_deletes((file, 0)))
    small.snapshot(file)
    (deletes,) = (m for m in small.manifests if m.content == ManifestContent.DELETES)
    assert isinstance(deletes, ManifestFileV3)
    cache.clear()
    small.folder.joinpath(str(deletes.manifest_path).removeprefix("file://")).unlink()
    assert ids(small) == [1]


# -- the contract with PyIceberg --------------------------------------------------------------


def test_another_pyiceberg_is_refused_by_name_and_version() -> None:
    with pytest.raises(UnsupportedError, match=r"PyIceberg 0\.\d+\.\d+ .*there is no Thing"):
        pyiceberg_0_12.check_contract({"Thing": (pa, "_no_such_thing", None)})
    with pytest.raises(UnsupportedError, match=r"copy_of takes \['record'\], expected \['record', 'deep'\]"):
        pyiceberg_0_12.check_contract({"copy_of": (manifest_cache, "copy_of", ("record", "deep"))})
    pyiceberg_0_12.check_contract(pyiceberg_0_12.CONTRACT)
