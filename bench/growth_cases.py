"""The acts of `bench.growth`, each in a process of its own: `python -m bench.growth_cases NAME SIZE`.

Prints JSON: seconds of the act, seconds of processor time, and MiB by which the peak memory of the process grew
during the act.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from bench.stream_memory import peak_mib
from bench.tables import _catalog, _make, _table, commit_files
from sealberg.jobs import rewrite_manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Act = Callable[[], object]

BATCH = 100_000
KEYS = 5_000
STREAM_SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "code", LongType()),
    NestedField(4, "part", IntegerType()),
    NestedField(5, "note", StringType()),
)
BY_PART = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "part"))


def stream(rows: int, partitions: int) -> pa.RecordBatchReader:
    kinds = (("id", pa.int64()), ("amount", pa.float64()), ("code", pa.int64()), ("part", pa.int32()))
    schema = pa.schema([*kinds, ("note", pa.string())])
    dice, notes = np.random.default_rng(1), pa.array([f"note {i % 9973}" for i in range(BATCH)])
    part = pa.array((np.arange(BATCH) % max(1, partitions)).astype(np.int32))

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, BATCH):
            numbers = pa.array(np.arange(first, first + BATCH))
            amounts, codes = pa.array(dice.normal(100, 30, BATCH)), pa.array(dice.integers(0, 1_000_000, BATCH))
            yield pa.record_batch([numbers, amounts, codes, part, notes], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def append_stream(catalog: Any, rows: int, partitions: int = 0) -> Act:
    spec = {"partition_spec": BY_PART} if partitions else {}
    table = catalog.create_table("b.t", STREAM_SCHEMA, properties={"encryption.key-id": "k"}, **spec)
    return lambda: table.append(stream(rows, partitions))


def upsert(catalog: Any, files: int) -> Act:
    rows = _table(400_000)
    table: Any = _make(catalog, "t", rows.schema, sealed=True, **{"write.update.mode": "merge-on-read"})
    step = rows.num_rows // files
    with table.transaction() as transaction:
        for i in range(files):
            transaction.append(rows.slice(i * step, step))
    chosen = np.sort(np.random.default_rng(5).choice(rows.num_rows, KEYS, replace=False))
    changed = rows.take(pa.array(chosen)).set_column(1, "amount", pa.array(np.zeros(KEYS)))
    return lambda: table.upsert(changed, join_cols=["id"])


def in_format(catalog: Any, rows: int, kind: str, verb: str) -> Act:
    given = _table(rows)
    table: Any = _make(catalog, "t", given.schema, sealed=True, **{"write.format.default": kind})
    if verb == "append":
        return lambda: table.append(given)
    table.append(given)
    table.scan().to_arrow()  # the first scan imports
    return lambda: table.scan().to_arrow()


def with_snapshots(catalog: Any, count: int) -> Any:
    rows = pa.table({"id": [1]})
    table: Any = _make(catalog, "t", rows.schema, sealed=True)
    while len(table.metadata.snapshots) < count:
        with table.transaction() as transaction:
            for _ in range(50):
                transaction.append(rows)
    return table


def expire(catalog: Any, snapshots: int) -> Act:
    table = with_snapshots(catalog, snapshots)
    old = [snapshot.snapshot_id for snapshot in table.metadata.snapshots[:-1]]
    return lambda: table.maintenance.expire_snapshots().by_ids(old).commit()


def commit(catalog: Any, snapshots: int) -> Act:
    table = with_snapshots(catalog, snapshots)
    return lambda: table.append(pa.table({"id": [1]}))


def plan_again(catalog: Any, files: int) -> Act:
    table = with_files(catalog, files)

    def plan() -> None:
        assert len(table.scan(row_filter="id < 5000").plan_files()) >= 50

    plan()
    return plan


def with_files(catalog: Any, files: int) -> Any:
    table: Any = _make(catalog, "t", _table(10).schema, sealed=True)
    for _ in range(10):
        commit_files(table, files // 10)
    return table


def inspect(catalog: Any, files: int, what: str) -> Act:
    table = with_files(catalog, files)

    def show() -> None:
        rows = getattr(table.inspect, what)().num_rows
        assert rows == (files if what == "files" else 1), rows

    return show


def manifests(catalog: Any, files: int) -> Act:
    table = with_files(catalog, files)
    return lambda: rewrite_manifests.plan(table, target_size=1 << 20).execute()


def delete_positions(catalog: Any, rows: int) -> Act:
    """About every second row goes: vectors are largest then."""
    given = _table(rows)
    table: Any = _make(catalog, "t", given.schema, sealed=True, **{"write.delete.mode": "merge-on-read"})
    table.append(given)
    return lambda: table.delete("code < 500000")


CASES: dict[str, Callable[[Any, int], Act]] = {
    "append 3 M rows into partitions": lambda catalog, size: append_stream(catalog, 3_000_000, size),
    "append 12 M rows into partitions": lambda catalog, size: append_stream(catalog, 12_000_000, size),
    "append a stream": append_stream,
    "append a stream into 12 partitions": lambda catalog, size: append_stream(catalog, size, 12),
    "upsert 5,000 keys over files": upsert,
    "append Avro": lambda catalog, size: in_format(catalog, size, "avro", "append"),
    "append Parquet": lambda catalog, size: in_format(catalog, size, "parquet", "append"),
    "scan Avro": lambda catalog, size: in_format(catalog, size, "avro", "scan"),
    "scan Parquet": lambda catalog, size: in_format(catalog, size, "parquet", "scan"),
    "expire snapshots": expire,
    "commit onto snapshots": commit,
    "plan files again": plan_again,
    "inspect files": lambda catalog, size: inspect(catalog, size, "files"),
    "inspect partitions of files": lambda catalog, size: inspect(catalog, size, "partitions"),
    "rewrite manifests of files": manifests,
    "delete rows by positions": delete_positions,
}


def main() -> None:
    name, size = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        act = CASES[name](_catalog(Path(folder)), size)
        gc.collect()
        pa.default_memory_pool().release_unused()
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
        before, began, busy = peak_mib(), time.perf_counter(), time.process_time()
        act()
        spent, busy = time.perf_counter() - began, time.process_time() - busy
        print(json.dumps({"seconds": spent, "cpu": busy, "mib": peak_mib() - before}))


if __name__ == "__main__":
    main()
