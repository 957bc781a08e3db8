"""Plans of ten thousand and of a million files: ours over PyIceberg's on plaintext, and over Iceberg Java's planner.

    ten thousand   PyIceberg plans the same entries in a plaintext version 2 table, in this process
    a million      one encrypted table on a Hive Metastore; Java plans it in a warm JVM (Table.newScan), we in a process
                   of our own (`python -m bench.plan_once`), which has planned another table before

Java keeps no manifests between plans by default, so that "again" is compared with the same time of Java.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType

from bench.figures import Figure, best
from bench.many_files import PLAIN, commit_many
from bench.spark_session import Bench, session
from bench.tables import KEY_METADATA, _catalog, _fake_files, commit_files
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.manifest import DataFileV3
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILES: Final = 10_000
MANIFESTS: Final = 1_000
FILES_OF_MANIFEST: Final = 1_000
PARTS: Final = 100
PARTITION: Final = 3  # its place in the record of a data file
BOUND: Final = "id < 5000"
SCHEMA: Final = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "code", LongType()),
    NestedField(4, "kind", StringType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "part", IntegerType()),
)
BY_PART: Final = PartitionSpec(PartitionField(6, 1000, IdentityTransform(), "part"))


def figures(rounds: int, manifests: int = MANIFESTS) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        yield from _ten_thousand(_catalog(Path(name)), max(3, rounds // 2))
    with tempfile.TemporaryDirectory() as name, session(Path(name)) as bench:
        yield from _million(bench, max(3, rounds // 3), manifests)


# -- ten thousand, in Python ------------------------------------------------------------------------


def _ten_thousand(catalog: Any, rounds: int) -> Iterator[Figure]:
    plain = catalog.create_table("b.plain", SCHEMA, partition_spec=BY_PART, properties={"format-version": "2"})
    sealed = catalog.create_table("b.sealed", SCHEMA, partition_spec=BY_PART, properties={"encryption.key-id": "k"})
    for _ in range(10):
        with plain.transaction() as tx, tx.update_snapshot().fast_append() as producer:
            for file in _with_parts(_fake_files(FILES // 10, DataFile)):
                producer.append_data_file(file)
        transaction = sealed.transaction()
        added = tuple(_with_parts(_fake_files(FILES // 10, DataFileV3, key_metadata=KEY_METADATA)))
        transaction.commit_changes(FileChanges(added=added, operation=Operation.APPEND))
        transaction.commit_transaction()

    def first(row_filter: str) -> Callable[[], object]:
        def act() -> object:
            cache.clear()
            return _planned(sealed, row_filter)

        return act

    def with_objects() -> list[Any]:
        return [task.file for task in first("true")()]  # type: ignore[attr-defined]

    cases = {"no filter": ("true", 0.10), "a bound": (BOUND, 0.10), "a partition": ("part = 7", 0.10)}
    acts: dict[str, Callable[[], object]] = {}
    for name, (row_filter, _) in cases.items():
        acts[name] = first(row_filter)
        acts[f"{name} plain"] = partial(_planned, plain, row_filter)
        assert len(acts[name]()) == len(acts[f"{name} plain"]()), name  # type: ignore[arg-type]
    acts["all objects"], cases["all objects"] = with_objects, ("true", 0.20)
    spent = best(acts, rounds)
    spent["all objects plain"] = spent["no filter plain"]  # which makes them all
    for name, (_, bound) in cases.items():
        ours, theirs = spent[name], spent[f"{name} plain"]
        note = f"{ours * 1000:.0f} ms, plain {theirs * 1000:.0f} ms"
        words = f"plan 10,000 files, first, {name}, over PyIceberg's plaintext plan"
        yield Figure(words, ours / theirs, bound, False, note=note)


def _planned(table: Any, row_filter: str) -> list[Any]:
    return list(table.scan(row_filter=row_filter).plan_files())


def _with_parts(files: list[Any]) -> Iterator[Any]:
    for at, file in enumerate(files):
        file[PARTITION] = Record(at % PARTS)
        yield file


# -- a million, against Java ------------------------------------------------------------------------


def _million(bench: Bench, rounds: int, manifests: int) -> Iterator[Figure]:
    files = manifests * FILES_OF_MANIFEST
    table = _made(bench, "million", manifests, FILES_OF_MANIFEST)
    small = _made(bench, "ten", 10, FILES_OF_MANIFEST)
    spent = _planned_by_java(bench, "million", rounds)
    ours = _planned_by_us(bench, "million", rounds)
    assert ours["files"] == spent["files"] == 5, (ours, spent)
    words = f"plan {files:,} files in {manifests:,} manifests by a bound"
    told = f"{ours['first']:.2f} s, again {ours['again']:.3f} s, Java {spent['seconds']:.2f} s warm"
    yield Figure(f"{words}, first, over Java's planner", ours["first"] / spent["seconds"], 0.7, False, note=told)
    yield Figure(f"{words}, again, over Java's planner", ours["again"] / spent["seconds"], 0.4, False, note=told)
    note = f"{ours['peak']:.0f} MiB, Java's heap {spent['peak']:.0f} MiB"
    yield Figure(f"{words}, peak memory over Java's heap", ours["peak"] / spent["peak"], 1.0, False, note=note)
    kept = ours["kept"] / files
    note = f"{ours['resident'] * (1 << 20) / files:.0f} bytes by the memory of the process"
    yield Figure("kept between plans for each file", kept, 300, False, unit="bytes", note=note)
    yield from _by_tasks(bench, files, manifests)
    spent = best({"many": lambda: commit_files(table, 1), "few": lambda: commit_files(small, 1)}, 3 * rounds)
    note = f"{spent['many'] * 1000:.0f} ms, onto 10,000 {spent['few'] * 1000:.0f} ms"
    words = f"commit of one file onto {files:,}, over onto 10,000"
    yield Figure(words, spent["many"] / spent["few"], 1.2, False, note=note)


def _by_tasks(bench: Bench, files: int, manifests: int) -> Iterator[Figure]:
    """The same table, planned by Spark's tasks: the whole memory of the driver, which starts for this plan."""
    words = f"plan {files:,} files in {manifests:,} manifests by Spark's tasks"
    for what, name, bound in (("plan", "by a bound", 500), ("plan-all", "no filter", 2000)):
        told = bench.once(what, "shared.b.million")
        note = (
            f"{told['python_before']:.0f} MB before the plan, {told['seconds']:.1f} s, {told['parts']} tasks to read; "
            f"the JVM, with the executor in it, {told['jvm']:.0f} MB, heap after it {told['jvm_heap']:.0f} MB"
        )
        yield Figure(f"{words}, {name}, driver's Python", told["python"], bound, False, unit="MB", note=note)


def _made(bench: Bench, name: str, manifests: int, files: int) -> Any:
    bench.create("java", name)
    table: Any = bench.shared.load_table(f"b.{name}")
    with table.transaction() as transaction:
        transaction.set_properties({key: value for key, value in PLAIN.items() if key.startswith("commit.")})
    commit_many(table, manifests, files)
    return table


def _planned_by_java(bench: Bench, name: str, rounds: int) -> dict[str, float]:
    jvm: Any = bench.spark._jvm
    session: Any = bench.spark._jsparkSession
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, f"java.b.{name}")
    loaded.refresh()
    expression = jvm.org.apache.iceberg.expressions.Expressions.lessThan("id", 5000)
    pools = [pool for pool in jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans() if _is_heap(pool)]

    def plan() -> int:
        tasks = loaded.newScan().filter(expression).planFiles()
        found, iterator = 0, tasks.iterator()
        while iterator.hasNext():
            iterator.next()
            found += 1
        tasks.close()
        return found

    plan()
    jvm.System.gc()
    before = sum(pool.getUsage().getUsed() for pool in pools)
    for pool in pools:
        pool.resetPeakUsage()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        found = plan()
        times.append(time.perf_counter() - began)
        peak = sum(pool.getPeakUsage().getUsed() for pool in pools) - before
    return {"seconds": min(times), "peak": peak / (1 << 20), "files": found}


def _is_heap(pool: Any) -> bool:
    return str(pool.getType().name()) == "HEAP"


def _planned_by_us(bench: Bench, name: str, rounds: int) -> dict[str, float]:
    given = json.dumps({"properties": dict(bench.shared.properties), "rounds": rounds})
    command = [sys.executable, "-m", "bench.plan_once", "b.ten", f"b.{name}", BOUND]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"bench.plan_once failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
