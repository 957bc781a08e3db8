"""The life of a table: expiry against Java's, and the erasure of one customer against the rewriting of its files.

Java's expiry is the procedure `expire_snapshots` of Spark. The table is the same for both, and restored before each
round. (The class of Iceberg's core alone, table.expireSnapshots(), does not get through this encrypted table: it tries
to read manifests again and again.)
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

import sealberg
from bench.expiry import Life, copy_of
from bench.figures import Figure
from bench.spark_session import session
from sealberg.jobs import erase
from sealberg.jobs.compact import scan
from sealberg.jobs.compaction.options import CompactOptions
from sealberg.jobs.compaction.rewrite import rewrite
from sealberg.jobs.compaction.selection import FileGroup, InputFile
from sealberg.jobs.compaction.sorting import UNSORTED
from sealberg.jobs.compaction.tasks import TaskMaker
from sealberg.jobs.runner import Threads
from sealberg.write.data_writer import RowWriter
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}
SNAPSHOTS = int(os.environ.get("BENCH_LIFE_SNAPSHOTS", "1000"))
FILES = 1000
ROWS = int(os.environ.get("BENCH_LIFE_ROWS", "1000000"))  # of each file
HELD = 20  # files that hold the customer


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _erase(Path(folder), rounds)
    with tempfile.TemporaryDirectory() as folder:
        yield from _expire(Path(folder), rounds)


# -- expire -----------------------------------------------------------------------------------------


def _expire(folder: Path, rounds: int) -> Iterator[Figure]:
    for name in ("spark", "life"):
        (folder / name).mkdir()
    with session(folder / "spark") as bench:
        life = Life.make(folder / "life", bench.shared.properties["uri"], SNAPSHOTS)
        acts: dict[str, Callable[[], None]] = {
            "procedure": lambda: life.java_procedure(bench.spark),
            "ours": life.ours,
        }
        times: dict[str, float] = {}
        left: dict[str, int] = {}
        for _ in range(max(2, min(rounds, 3))):
            for name, act in acts.items():
                began = time.perf_counter()
                act()
                times[name] = min(time.perf_counter() - began, times.get(name, 1e9))
                left[name] = life.count()
                life.restore()
        assert len(set(left.values())) == 1, f"the same files are left: {left}"
    about = f"{SNAPSHOTS} snapshots of {SNAPSHOTS * 10} files; {times}"
    yield Figure(
        "expire over Java's procedure expire_snapshots", times["ours"] / times["procedure"], 1.0, False, "", about
    )


# -- erase ------------------------------------------------------------------------------------------


def _erase(folder: Path, rounds: int) -> Iterator[Figure]:
    rounds = max(2, min(rounds, 3))
    table = _customers(folder, 2 * rounds)
    erased, rewritten, deleted = 1e9, 1e9, 1e9
    for customer in range(rounds):
        where = f"customer = {customer}"
        rewritten = min(rewritten, _timed(lambda where=where: _rewrite(table, where)))  # type: ignore[misc]

        def act(where: str = where) -> None:
            assert erase.plan(table, where=where).execute().is_proved

        erased = min(erased, _timed(act))
        other = f"customer = {rounds + customer}"
        deleted = min(deleted, _timed(lambda other=other: table.delete(other)))  # type: ignore[misc]
    about = (
        f"{FILES} files, {HELD} of them with {ROWS} rows hold the customer; {erased:.2f} s over {rewritten:.2f} s, "
        f"without a search and a commit; a copy-on-write delete, which has both and no proof, takes {deleted:.2f} s"
    )
    yield Figure("erase one customer over rewriting its files", erased / rewritten, 1.2, at_least=False, note=about)


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _customers(folder: Path, customers: int) -> Any:
    """Each customer is in HELD files of their own, once; the other files are copies of a small one, whose bounds show
    that they hold none of the customers, so their content does not matter."""
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh", **MEMORY}
    catalog = sealberg.load_catalog("bench", **settings)
    catalog.create_namespace("db")
    table: Any = catalog.create_table("db.orders", _orders(1, 0, 0).schema, properties={"encryption.key-id": "hr"})
    table.append(_orders(10, FILES, FILES))
    ((small,),) = [list(table.scan().plan_files())]
    writer = RowWriter(table.transaction().context)
    held = [_orders(ROWS, number, number // HELD) for number in range(customers * HELD)]
    files = [file for orders in held for file in writer.write(orders)]
    files += [copy_of(small.file, f"copy-{number:05}") for number in range(FILES - len(files) - 1)]
    table.transaction_at_once().commit_changes(FileChanges(added=tuple(files)))
    return table


def _orders(count: int, number: int, customer: int) -> pa.Table:
    some = np.random.default_rng(number)
    customers = 1_000_000 + number * count + np.arange(count)
    customers[count // 2] = customer
    return pa.table(
        {
            "customer": pa.array(customers),
            "amount": pa.array(some.random(count)),
            "note": pa.array(np.char.add("note-", some.integers(0, count, count).astype(str))),
        }
    )


def _rewrite(table: Any, where: str) -> None:
    """Write the files that hold the customer anew, as a compaction would, and nothing else."""
    table.refresh()
    paths = {str(task.file.file_path) for task in table.scan(row_filter=where).plan_files()}
    tasks = [task for task in scan(table, "main", AlwaysTrue()) if str(task.file.file_path) in paths]
    assert len(tasks) == HELD
    maker = TaskMaker(table, CompactOptions().sizes(table.metadata.properties), UNSORTED)
    groups = [FileGroup(number, (InputFile.of(task),), True, 0, 0) for number, task in enumerate(tasks)]
    for done in Threads().run(rewrite, (each for group in groups for each in maker.tasks(group))):
        assert done.error is None, done.error
        discard(table.io, [str(file.file_path) for file in done.files])
