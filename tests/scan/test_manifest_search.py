"""Plans of many manifests: the columns of the filter first, the whole manifest where a file is left, the same files."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.manifest_column_reader import KEPT
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.searched_columns import SearchedColumns
from sealberg.scan import manifest_reading, manifest_search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "part", LongType(), required=False),
)
BY_PART = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"), spec_id=1)
BY_BUCKET = PartitionSpec(PartitionField(1, 1001, BucketTransform(4), "id_bucket"), spec_id=2)
MANIFESTS = 24
FILTERS = (
    "id < 30",
    "id > 215",
    "id = 115",
    "id in (5, 117, 230)",
    "id != 3",
    "name is null",
    "name is not null and id < 100",
    "name like 'n1%'",
    "name not like 'n%'",
    "name = 'n7' or id = 200",
    "part = 3",
    "part = 3 and id < 60",
    "not (id < 235)",
    "id < 0",
)


def table_of(folder: Path, spec: PartitionSpec | None = None) -> SmallTable:
    """One file in each manifest, with ten ids; each third file has no names."""
    small = SmallTable(folder, SCHEMA, specs=[spec or PartitionSpec()])
    for number in range(MANIFESTS):
        part = number % 4
        name = None if number % 3 == 0 else f"n{number}"
        rows = [{"id": 10 * number + at, "name": name, "part": part} for at in range(10)]
        nulls = {1: 0, 2: 10 if name is None else 0}
        about: dict[str, Any] = {"value_counts": {1: 10, 2: 10}, "null_value_counts": nulls}
        if spec is not None:
            about |= {"spec_id": spec.spec_id, "partition": Record(part)}
        small.snapshot(small.parquet(rows, **about))
    return small


@pytest.fixture(params=[1, 5, MANIFESTS], ids="groups of {}".format)
def searching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if a table of a few manifests had many."""
    search_in_groups(monkeypatch, request.param)
    cache.clear()
    yield
    cache.clear()


def search_in_groups(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(manifest_search, "MANY", 2)
    monkeypatch.setattr(manifest_reading, "FEW", 0)
    monkeypatch.setattr(manifest_reading, "AHEAD", 0)
    monkeypatch.setattr(manifest_reading, "SAMPLE", 0)
    monkeypatch.setattr(manifest_reading, "GROUPS", 1)
    monkeypatch.setattr(manifest_reading, "MOST", size)


def planned(small: SmallTable, row_filter: str) -> list[tuple[str, str]]:
    return [
        (task.file.file_path, repr(task.residual)) for task in small.table().scan(row_filter=row_filter).plan_files()
    ]


def kept() -> list[type]:
    return [type(entry.value) for entry in KEPT._entries.values()]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5, MANIFESTS])
@pytest.mark.parametrize("spec", [None, BY_PART], ids=["unpartitioned", "by part"])
def test_a_search_finds_the_files_of_a_whole_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: PartitionSpec | None, size: int
) -> None:
    small = table_of(tmp_path, spec)
    cache.clear()
    whole = {each: planned(small, each) for each in FILTERS}
    assert set(kept()) == {ManifestColumns}
    search_in_groups(monkeypatch, size)
    for fresh in (True, False):
        cache.clear()
        for each in FILTERS:
            if fresh:
                cache.clear()
            assert planned(small, each) == whole[each], each


def test_manifests_without_a_file_are_not_decoded_as_a_whole(tmp_path: Path, searching: None) -> None:
    small = table_of(tmp_path)
    assert len(planned(small, "id < 30")) == 3
    assert (kept().count(ManifestColumns), kept().count(SearchedColumns)) == (3, MANIFESTS - 3)
    for columns in (entry.value for entry in KEPT._entries.values()):
        if isinstance(columns, SearchedColumns):
            assert set(columns.known) == {"lower_bound"}, "that is what the filter asks"
            assert "nowhere" not in repr(columns)
            assert repr(columns.manifest[:8])[2:-1] not in repr(columns)
            with pytest.raises(TypeError, match="not pickled"):
                pickle.dumps(columns)
    assert KEPT.weight == sum(entry.value.nbytes for entry in KEPT._entries.values())


def test_what_was_searched_is_not_read_again(tmp_path: Path, searching: None) -> None:
    small = table_of(tmp_path)
    assert len(planned(small, "id < 30")) == 3
    for manifest in small.manifests:
        small.folder.joinpath(str(manifest.manifest_path).removeprefix("file://")).unlink()
    assert len(planned(small, "id < 30")) == 3
    assert len(planned(small, "id > 215")) == 3, "other columns are decoded from what is kept"
    assert {"lower_bound", "upper_bound"} in [
        set(entry.value.known) for entry in KEPT._entries.values() if isinstance(entry.value, SearchedColumns)
    ]
    assert len(planned(small, "true")) == MANIFESTS
    assert set(kept()) == {ManifestColumns}


def test_a_filter_that_excludes_little_stops_the_search(tmp_path: Path, searching: None) -> None:
    search = manifest_search.ManifestSearch(bound("id > 1"), {0: PartitionSpec()}, 100)
    assert search.begins(0)
    for number in range(manifest_search.SAMPLE):
        search.note(left=number % 2 == 0)
    assert search.begins(0), "half of them"
    search.note(left=True)
    search.note(left=True)
    assert not search.begins(0)


def test_few_manifests_and_filters_about_partitions_are_not_searched() -> None:
    specs = {0: PartitionSpec(), 1: BY_PART, 2: BY_BUCKET}

    def begins(row_filter: str, manifests: int = manifest_search.MANY) -> list[bool]:
        search = manifest_search.ManifestSearch(bound(row_filter), specs, manifests)
        return [search.begins(spec_id) for spec_id in specs]

    assert begins("id < 30") == [True, True, False]
    assert begins("part = 3") == [True, False, True]
    assert begins("part = 3 and id < 30") == [True, True, True]
    assert begins("id < 30", manifest_search.MANY - 1) == [False, False, False]
    assert begins("true") == [False, False, False]


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_groups_cover_the_manifests_in_order_and_are_enough_for_many_threads(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(manifest_reading, "CORES", cores)
    for count in (0, 1, 16, 17, 31, 32, 100, 1000, 1001):
        manifests: Any = [SimpleNamespace(manifest_length=1000) for _ in range(count)]
        groups = list(manifest_reading.in_groups(manifests, ahead=False))
        assert [each for group in groups for each in group] == manifests
        assert len(groups) >= min(count, 32 if count >= 32 else cores)
        assert all(1 <= len(group) <= 16 for group in groups)
        assert count < 32 or all(len(group) == 1 for group in groups[:16]), "the sample"
        fetched = list(manifest_reading.in_groups(manifests, ahead=True))
        assert [each for group in fetched for each in group] == manifests
        assert len(fetched) == -(-count // min(16, max(1, -(-count // cores)))), "as few as there may be"
        for manifest in manifests:
            manifest.manifest_length = manifest_reading.MOST_BYTES // 3
        for ahead in (False, True):
            groups = list(manifest_reading.in_groups(manifests, ahead=ahead))
            assert [each for group in groups for each in group] == manifests
            assert all(1 <= len(group) <= 3 for group in groups), "long manifests"


def test_short_manifests_are_fetched_each_by_a_job_and_decoded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = table_of(tmp_path)
    cache.clear()
    jobs: list[int] = []

    def run(work: Any, groups: Any) -> Any:
        jobs.append(len(groups))
        return map(work, groups)

    monkeypatch.setattr(manifest_reading, "_on_threads", run)
    monkeypatch.setattr(manifest_reading, "CORES", 1)
    monkeypatch.setattr(manifest_reading, "FEW", 2)
    assert len(planned(small, "true")) == MANIFESTS
    assert jobs == [MANIFESTS, -(-MANIFESTS // manifest_reading.MOST)], "fetched, then decoded"
    cache.clear()
    jobs.clear()
    monkeypatch.setattr(manifest_reading, "AHEAD", sum(each.manifest_length for each in small.manifests) - 1)
    assert len(planned(small, "true")) == MANIFESTS
    assert len(jobs) == 1, "too long together: each group fetches its own"


def bound(row_filter: str) -> Any:
    return bind(SCHEMA, rewrite_not(parse(row_filter)), case_sensitive=True)
