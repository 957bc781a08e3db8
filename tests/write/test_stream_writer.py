"""Streams and partitions: what is held, what is open, what is written, counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from kit.tables import tables
from sealberg.pyiceberg_private import SMALL_BUFFER, with_small_buffer
from sealberg.write import data_writer, stream_writer
from sealberg.write.partition_split import by_partition, slabs
from sealberg.write.stream_writer import MAX_OPEN, MAX_OPEN_LOCAL, StreamWriter, most_open

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", DoubleType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


class Disk:
    """Files in memory, which count themselves."""

    def __init__(self) -> None:
        self.files: list[list[pa.Table]] = []
        self.open = self.most_open = self.aborted = 0

    def open_file(self) -> Any:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        self.files.append([])
        return _File(self, self.files[-1])


class _File:
    def __init__(self, disk: Disk, groups: list[pa.Table]) -> None:
        self._disk, self._groups = disk, groups

    def write(self, rows: pa.Table, *, end_group: bool) -> None:
        assert end_group
        self._groups.append(rows)

    def close(self) -> Any:
        self._disk.open -= 1
        return [value for group in self._groups for value in group["id"].to_pylist()]

    def abort(self) -> None:
        self._disk.open -= 1
        self._disk.aborted += 1


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def ids(first: int, count: int) -> list[pa.RecordBatch]:
    return list(pa.table({"id": pa.arange(first, first + count)}).to_batches())


def test_the_rows_of_a_key_stay_in_order_and_no_row_is_lost(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 10_000, 50, 1 << 30, budget=4_000, most=3)
    for i in range(200):
        writer.add(i % 7, disk.open_file, ids(10 * i, 10))
    files: list[Any] = writer.finish()
    assert sorted(value for file in files for value in file) == list(range(2_000))
    assert all(file == sorted(file) for file in files)
    assert all({value // 10 % 7 for value in file} == {file[0] // 10 % 7} for file in files)
    assert disk.open == 0


def test_rows_that_are_held_stay_within_the_budget(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1 << 30, 1 << 30, 1 << 30, budget=8_000)
    for i in range(500):
        writer.add(i % 50, disk.open_file, ids(i, 10))
        assert writer.held_bytes <= 8_000
    writer.finish()


@pytest.mark.parametrize("keys", [10, 100, 1_000])
def test_the_number_of_row_groups_follows_the_rows_and_not_the_keys(pool: ThreadPoolExecutor, keys: int) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1 << 30, 1 << 30, 1 << 30, budget=80_000)
    for i in range(4_000):
        writer.add(i % keys, disk.open_file, ids(i, 10))
    writer.finish()
    groups = sum(len(file) for file in disk.files)
    # 320,000 bytes in portions of half the budget: each portion writes at most all keys, and so does the end.
    assert groups <= keys * (1 + 320_000 // 40_000)


def test_at_most_as_many_files_as_allowed_are_open(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1 << 30, 5, 1 << 30, most=4)
    for i in range(300):
        writer.add(i % 30, disk.open_file, ids(i, 5))
        assert disk.open <= 4 + 2 * stream_writer.UNDER_WAY
    writer.finish()
    assert disk.most_open <= 4 + 2 * stream_writer.UNDER_WAY


def test_a_file_ends_at_the_target_size(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1_000, 20, 1 << 30)
    for i in range(100):
        writer.add("key", disk.open_file, ids(10 * i, 10))  # 80 bytes
    files: list[Any] = writer.finish()
    assert [len(file) for file in files] == [120] * 8 + [40]


def test_rows_that_were_copied_end_their_file_at_the_target_size(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1_000, 1 << 30, 1 << 30, budget=8_000)
    for i in range(400):
        writer.add(i % 3, disk.open_file, ids(10 * i, 10))
    files: list[Any] = writer.finish()
    assert sorted(value for file in files for value in file) == list(range(4_000))
    assert max(8 * len(file) for file in files) <= 1_000
    assert all(file == sorted(file) for file in files)


class _Nowhere:
    def write(self, rows: pa.Table, *, end_group: bool) -> None: ...

    def close(self) -> Any: ...

    def abort(self) -> None: ...


def test_a_rare_key_does_not_keep_the_rows_of_others_in_memory(pool: ThreadPoolExecutor) -> None:
    slab, budget = 1 << 20, 4 << 20
    writer, before, most = StreamWriter(pool, 1 << 30, 1 << 30, 1 << 30, budget=budget), pa.total_allocated_bytes(), 0
    for i in range(100):
        (whole,) = ids(i, slab // 8)
        writer.add("rare", _Nowhere, [whole.slice(0, 1)])
        for key in range(4):
            rows = whole.num_rows // 4
            writer.add(key, _Nowhere, [whole.slice(1 + key * rows, rows - 1)])
        del whole
        most = max(most, pa.total_allocated_bytes() - before)
    writer.finish()
    assert most <= 2 * budget + 4 * slab


def test_an_error_of_a_thread_reaches_the_caller_and_open_files_are_given_up(pool: ThreadPoolExecutor) -> None:
    disk, writer = Disk(), StreamWriter(pool, 1 << 30, 5, 1 << 30)

    def broken() -> Any:
        raise OSError("no space left")

    writer.add("good", disk.open_file, ids(0, 5))
    with pytest.raises(OSError, match="no space left"):
        writer.add("bad", broken, ids(0, 5))
        writer.finish()
    writer.abort()
    assert disk.open == 0


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 30), st.integers(1, 400))
def test_slabs_hold_all_rows_in_order_and_keep_their_limits(sizes: list[int], rows: int, size: int) -> None:
    batches = [ids(sum(sizes[:i]), count)[0] for i, count in enumerate(sizes) if count]
    made = list(slabs(batches, size, rows))
    assert [v for slab in made for piece in slab for v in piece["id"].to_pylist()] == list(range(sum(sizes)))
    for slab in made:
        count = sum(piece.num_rows for piece in slab)
        assert count <= rows
        assert 8 * count <= max(size, 8)


@pytest.mark.parametrize(
    ("location", "descriptors", "expected"),
    [
        ("s3://b/t", 1 << 20, MAX_OPEN),
        ("file:///t", 1 << 20, MAX_OPEN_LOCAL),
        ("/t", 1 << 20, MAX_OPEN_LOCAL),
        ("file:/t", 256, 128),
        ("file:/t", -1, MAX_OPEN_LOCAL),
    ],
)
def test_open_files_are_limited_by_the_store_and_by_the_descriptors_of_the_process(
    location: str, descriptors: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _what: (descriptors, descriptors))
    assert most_open(location) == expected


def test_local_files_are_written_through_a_small_buffer_unless_the_catalog_sets_one(tmp_path: Path) -> None:
    for given_, expected in (({}, SMALL_BUFFER), ({"buffer-size": "4096"}, 4096)):
        file: Any = with_small_buffer(PyArrowFileIO(given_).new_output(f"{tmp_path}/f"))
        assert file._buffer_size == expected
        with file.create(overwrite=True) as stream:
            stream.write(b"rows" * 50_000)
        assert (tmp_path / "f").read_bytes() == b"rows" * 50_000
    other = FsspecFileIO({}).new_output(f"{tmp_path}/f")
    assert with_small_buffer(other) is other


def test_the_rows_of_a_partition_are_copied_out_of_one_chunk() -> None:
    chunks = [pa.table({"id": pa.arange(10 * i, 10 * i + 10), "part": [0.5, nan] * 5}) for i in range(20)]
    split = [(key, part) for key, part in by_partition(BY_PART, SCHEMA, pa.concat_tables(chunks))]
    assert [part.column(0).num_chunks for _, part in split] == [1, 1]
    assert [part["id"].to_pylist() for _, part in split] == [list(range(0, 200, 2)), list(range(1, 200, 2))]


def test_a_stream_of_many_slabs_goes_into_partitions(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_writer, "SLAB_BYTES", 500)
    monkeypatch.setattr(data_writer, "StreamWriter", partial(StreamWriter, budget=2_000))
    monkeypatch.setattr(data_writer, "most_open", lambda _location: 3)
    table = tables.make(catalog, SCHEMA, BY_PART)
    values = [0.0, -0.0, nan, None, 1.5, 2.5, 3.5]
    given_rows = [{"id": i, "part": values[i % 7]} for i in range(700)]
    schema = pa.schema([("id", pa.int64()), ("part", pa.float64())])
    batches = (pa.RecordBatch.from_pylist(given_rows[i : i + 30], schema) for i in range(0, 700, 30))
    table.append(pa.RecordBatchReader.from_batches(schema, batches))
    found = {row["id"]: row["part"] for row in table.scan().to_arrow().to_pylist()}
    assert {i: repr(part) for i, part in found.items()} == {row["id"]: repr(row["part"]) for row in given_rows}
    partitions = [file.partition[0] for file in tables.data_files(table)]
    assert len({repr(part) for part in partitions}) == 7
    assert sum(part is not None and isnan(part) for part in partitions) < 12
    tables.check_lineage(table)
