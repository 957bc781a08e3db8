"""A plan whose manifests other processes read is the plan that one process makes: files, residuals, deletes, errors."""

from __future__ import annotations

import pickle
import random
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, PrimitiveType, StringType

from kit.examples import examples
from kit.tables import corpus
from kit.tables.small_tables import SmallTable
from sealberg.errors import AuthenticationError, FormatError, KeyNotFoundError, TruncatedError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.task_io import storage_only
from sealberg.metadata import decode_cache, manifest_columns_ipc
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.scan import manifest_tasks
from sealberg.scan.manifest_filter import DeleteRows, ManifestFilter, added_in
from sealberg.scan.manifest_tasks import ManifestTask, _jobs, _tasks, filtered, read_by_tasks
from sealberg.scan.planner import Planner
from sealberg.table.base import EncryptedTable
from sealberg.table.reachable import without_list_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyiceberg.table.snapshots import Snapshot

    from sealberg.scan.planner import FilePlan

ex: Any = expressions  # whose constructors are typed for pydantic
ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType(), required=False)
SCHEMA = Schema(ID, NAME)
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=0)
BY_ID = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "name"), PartitionField(1, 1001, BucketTransform(4), "b"), spec_id=1
)
STATISTICS = (6, 7, 8, 9, 10, 11)  # their places in the record of a data file
TABLES = [name for name in corpus.TABLES if isinstance(corpus.opened(name), EncryptedTable)]


def elsewhere(work: Callable[[Any], bytes], tasks: Iterable[ManifestTask]) -> Iterator[bytes]:
    """As other processes: tasks and results are pickled, and results come in any order."""
    results = [pickle.dumps(work(pickle.loads(pickle.dumps(task)))) for task in tasks]
    decode_cache.clear()
    random.Random(7).shuffle(results)
    return map(pickle.loads, results)


def by_tasks(table: EncryptedTable, planner: Planner, manifests: Any, own: Any = None, slots: int = 1) -> FilePlan:
    io = table.io
    task_io = without_list_keys(io, storage_only(io.inner)) if isinstance(io, EncryptingFileIO) else storage_only(io)

    def read(chosen: Any, keep: Any) -> Any:
        return read_by_tasks(elsewhere, chosen, keep, task_io, slots)

    return planner.file_plan(manifests, own, read_data=read, read_deletes=read)


def shown(plan: FilePlan) -> list[Any]:
    found = []
    for task in plan.tasks():
        file = list(task.file._data)
        for place in STATISTICS:
            file[place] = None
        deletes = sorted(repr(list(delete._data)) for delete in task.delete_files)
        partition = tuple(task.file.partition[at] for at in range(len(task.file.partition)))
        file[3] = repr(partition)
        found.append((file, task.file.spec_id, repr(task.residual), deletes, task.sequence_number, task.counted_rows))
    return found


def assert_same(table: EncryptedTable, snapshot: Snapshot | None, row_filter: BooleanExpression, slots: int = 1) -> int:
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    schema = table.schema()
    here = shown(Planner(table.metadata, table.io, schema, row_filter).file_plan(manifests))
    there = shown(by_tasks(table, Planner(table.metadata, table.io, schema, row_filter), manifests, slots=slots))
    assert here == there
    return len(here)


def filters(table: EncryptedTable) -> list[BooleanExpression]:
    """Filters with values that the table has, on bounds and on partitions."""
    made: list[BooleanExpression] = []
    try:
        rows = table.scan(limit=3).to_arrow()
    except KeyNotFoundError:  # of vectors whose keys were lost; the plan does not open them
        rows = table.schema().as_arrow().empty_table()
    for field in table.schema().fields:
        if not isinstance(field.field_type, PrimitiveType):
            continue
        made += [ex.IsNull(field.name), ex.NotNull(field.name)]
        values = [each for each in rows[field.name].to_pylist() if each is not None and repr(each) != "nan"]
        if values and isinstance(values[0], int | str | float):
            made += [
                ex.EqualTo(field.name, values[0]),
                ex.LessThan(field.name, values[-1]),
                ex.In(field.name, tuple(values)),
            ]
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_plans_of_javas_tables_are_the_same_at_every_snapshot(name: str) -> None:
    table: Any = corpus.opened(name)
    for snapshot in (*table.metadata.snapshots, None):
        assert_same(table, snapshot, AlwaysTrue())
    for row_filter in filters(table)[:16]:
        assert_same(table, table.metadata.current_snapshot(), row_filter, slots=3)


# -- any filter, on a table with deletes of every kind and two partition specs ------------------------


@cache
def mixed(folder: Path) -> EncryptedTable:
    small = SmallTable(folder, SCHEMA, specs=[BY_NAME, BY_ID])

    def file(first: int, name: str | None, **about: Any) -> Any:
        rows = [{"id": number, "name": name} for number in range(first, first + 5)]
        return small.parquet(rows, partition=(name,), **about)

    files = [file(10 * at, "abcd"[at % 4]) for at in range(8)]
    small.snapshot(*files)
    newer = [file(100 + 10 * at, None) for at in range(3)]
    bucketed = [
        small.parquet([{"id": 5, "name": "a"}], partition=("a", 1), spec_id=1),
        small.parquet([{"id": 6, "name": "e"}], partition=("e", 2), spec_id=1),
    ]
    small.snapshot(*newer, *bucketed)
    small.snapshot(small.vector({files[0]: [0, 2], files[5]: [1], newer[0]: [4]}))
    small.snapshot(small.position_deletes((files[1], 1), (files[5], 0), partition=("b",)))
    small.snapshot(small.equality_deletes([{"id": 12}], Schema(ID), 1, partition=("b",)))
    small.snapshot(file(500, "a"))
    return small.table()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixed")


IDS = st.integers(0, 130)
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
LEAVES = st.one_of(
    IDS.map(lambda value: ex.EqualTo("id", value)),
    IDS.map(lambda value: ex.LessThan("id", value)),
    IDS.map(lambda value: ex.GreaterThanOrEqual("id", value)),
    NAMES.map(lambda value: ex.EqualTo("name", value)),
    NAMES.map(lambda value: ex.NotEqualTo("name", value)),
    NAMES.map(lambda value: ex.StartsWith("name", value)),
    st.sets(NAMES, min_size=2).map(lambda values: ex.In("name", tuple(values))),
    st.just(ex.IsNull("name")),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: ex.And(*both)),
        st.tuples(inner, inner).map(lambda both: ex.Or(*both)),
        inner.map(ex.Not),
    ),
)


@pytest.mark.slow
@examples(0.6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row_filter=FILTERS, at=st.integers(0, 5), slots=st.integers(1, 4))
def test_any_filter_leaves_the_same(folder: Path, row_filter: BooleanExpression, at: int, slots: int) -> None:
    table = mixed(folder)
    assert_same(table, table.metadata.snapshots[at], row_filter, slots)


def test_the_table_of_any_filter_has_what_it_should_have(folder: Path) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert assert_same(table, head, AlwaysTrue()) == 14
    assert 0 < assert_same(table, head, ex.EqualTo("id", 12)) < 14
    assert 0 < assert_same(table, head, ex.EqualTo("name", "b")) < 14
    assert len([task for task in table.scan().plan_files() if task.delete_files]) >= 4


def test_appended_files_are_the_same(folder: Path) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    manifests, own = head.manifests(table.io), added_in({2000, 6000})
    planner = Planner(table.metadata, table.io, table.schema(), AlwaysTrue())
    here = shown(planner.file_plan(manifests, own))
    assert here == shown(by_tasks(table, planner, manifests, own))
    assert len(here) == 6


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["altered", "cut", "gone"])
@pytest.mark.parametrize("content", list(ManifestContent))
def test_a_damaged_manifest_is_the_same_error(tmp_path: Path, damage: str, content: ManifestContent) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    file = small.parquet([{"id": 1, "name": "a"}, {"id": 2, "name": "a"}])
    small.snapshot(file)
    small.snapshot(small.vector({file: [0]}))
    table = small.table()
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    (bad,) = [manifest for manifest in manifests if manifest.content == content]
    path = tmp_path / str(bad.manifest_path).rsplit("/", 1)[-1]
    path = path if path.exists() else next(tmp_path.rglob(path.name))
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-20] if damage == "cut" else whole[:-20] + bytes(20))
    planner = Planner(table.metadata, table.io, SCHEMA, AlwaysTrue())
    decode_cache.clear()
    expected = {"altered": AuthenticationError, "cut": TruncatedError, "gone": FileNotFoundError}[damage]
    with pytest.raises(expected) as here:
        planner.file_plan(manifests)
    with pytest.raises(expected) as there:
        by_tasks(table, planner, manifests)
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)
    assert getattr(there.value, "__notes__", []) == getattr(here.value, "__notes__", [])


def test_a_result_of_another_plan_does_not_open(folder: Path) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    planner = Planner(table.metadata, table.io, SCHEMA, AlwaysTrue())
    old: list[bytes] = []

    def replaying(work: Callable[[Any], bytes], tasks: Iterable[ManifestTask]) -> Iterator[bytes]:
        results = list(elsewhere(work, tasks))
        found = old.copy() or results
        old.extend(results)
        return iter(found)

    def opening(chosen: Any, keep: Any) -> Any:
        io: Any = table.io
        return read_by_tasks(replaying, chosen, keep, without_list_keys(io, storage_only(io.inner)), 1)

    manifests = head.manifests(table.io)
    planner.file_plan(manifests, read_data=opening)
    with pytest.raises(AuthenticationError):
        planner.file_plan(manifests, read_data=opening)


# -- what travels -------------------------------------------------------------------------------------


def test_a_task_holds_the_keys_of_its_manifests_and_a_result_shows_none(folder: Path) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    seen: list[tuple[ManifestTask, bytes]] = []

    def watching(work: Callable[[Any], bytes], tasks: Iterable[ManifestTask]) -> Iterator[bytes]:
        for task in tasks:
            seen.append((task, work(task)))
            yield seen[-1][1]

    def read(chosen: Any, keep: Any) -> Any:
        io: Any = table.io
        return read_by_tasks(watching, chosen, keep, without_list_keys(io, storage_only(io.inner)), 4)

    manifests = head.manifests(table.io)
    plan = Planner(table.metadata, table.io, SCHEMA, ex.LessThan("id", 3)).file_plan(manifests, read_data=read)
    assert len(seen) >= 2
    keys = {task.file.file_path.keys.encryption_key for task in plan.tasks()}  # type: ignore[attr-defined]
    lists = {bytes(manifest.key_metadata) for manifest in manifests if manifest.key_metadata}
    for task, result in seen:
        text = pickle.dumps(task)
        own = {bytes(manifest.key_metadata) for manifest in task.manifests if manifest.key_metadata}
        assert all((key in text) == (key in own) for key in lists)
        assert not any(key in result or key in text for key in keys)
        assert repr(task) == f"ManifestTask(first={task.first})"
    kek = [entry.encrypted_key_metadata for entry in table.metadata.encryption_keys]
    assert not any(bytes(key) in pickle.dumps(task) for task, _ in seen for key in kek)


def test_files_that_the_filter_excludes_stay_where_they_are(folder: Path) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    data: Any = next(each for each in head.manifests(table.io) if each.added_snapshot_id == 1000)
    columns = read_columns(data, table.io)
    rows = columns.live_rows()
    whole = manifest_columns_ipc.read(manifest_columns_ipc.write(columns, rows, statistics=True))
    assert [file._data for file in whole.files(rows)] == [file._data for file in columns.files(rows)]
    sent = manifest_columns_ipc.write(columns, rows[:1], statistics=False)
    left = manifest_columns_ipc.read(sent)
    (own,) = left.files(left.live_rows())
    assert own.file_path == columns.files(rows[:1])[0].file_path
    assert (own[10], own[7], own.record_count) == (None, None, 5), "no bounds and no counts of values"
    with pa.ipc.open_stream(sent) as stream:
        assert stream.read_all().num_rows == 1


@pytest.mark.parametrize("slots", [1, 2, 7, 1000])
def test_manifests_are_dealt_to_tasks_and_jobs_in_order(
    folder: Path, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    manifests = [each for each in head.manifests(table.io) for _ in range(3)]
    dealt = list(_tasks(5, manifests, slots))
    assert len(dealt) <= min(slots, len(manifests))
    assert dealt[0][0] == 5
    assert [manifest for _, some in dealt for manifest in some] == manifests
    assert all(later - first == len(some) for (first, some), (later, _) in pairwise(dealt))
    monkeypatch.setattr(manifest_tasks, "FILES_OF_JOB", 9)
    jobs = list(_jobs(manifests))
    assert [manifest for _, some in jobs for manifest in some] == manifests
    assert len(jobs) > 1
    assert list(_jobs([])) == list(_tasks(0, [], 4)) == []


def test_an_error_that_cannot_be_sent_is_the_error_of_its_task(folder: Path) -> None:
    class Odd(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not this one")

    class Failing:
        def new_input(self, _: str) -> Any:
            raise Odd("odd")

    table = mixed(folder)
    head = table.metadata.current_snapshot()
    assert head is not None
    keep = DeleteRows(ManifestFilter(table.metadata.specs(), SCHEMA, AlwaysTrue()))
    task = ManifestTask(0, tuple(head.manifests(table.io)[:1]), keep, Failing(), bytes(32))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not this one"):
        filtered(task)


def test_a_manifest_of_an_unknown_spec_is_refused_before_any_task(tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.parquet([{"id": 1, "name": "a"}]))
    table = small.table()
    head = table.metadata.current_snapshot()
    assert head is not None
    manifests = head.manifests(table.io)
    manifests[0]._data[2] = 9

    def read(*_: Any) -> Any:
        raise AssertionError("no task was to run")

    with pytest.raises(FormatError, match="partition spec 9"):
        Planner(table.metadata, table.io, SCHEMA, AlwaysTrue()).file_plan(manifests, read_data=read)
