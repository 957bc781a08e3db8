"""Many processes change one table at once: how long a change takes, and how many changes fail.

    python -m bench.contention --writers 8 --operations 20                   SQLite
    python -m bench.contention --writers 32 --database postgresql --deletes 0.3

    writers  database    operations  failed   median     95 %    longest   all
    8        sqlite      160         0.0 %    0.61 s     1.4 s   2.1 s     14 s

Each writer makes one change after the other without a pause, so all writers compete for commits all the time: no real
load is worse. The table has the default properties, and is partitioned by writer, so that deletes do not conflict.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyiceberg.expressions.parser  # noqa: F401 (imported before the fork, for all children)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

import sealberg.catalogs.sql.catalog  # noqa: F401 (the same)
from kit.servers.postgres import KEY_ID, Database, empty_database

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = Schema(NestedField(1, "writer", LongType()), NestedField(2, "id", LongType()))
SPEC = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="writer"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.contention", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--operations", type=int, default=20, help="of each writer")
    parser.add_argument("--deletes", type=float, default=0.0, help="the part of the operations that are deletes")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--property", action="append", default=[], help="a property of the table, NAME=VALUE")
    given = parser.parse_args()
    properties = dict(each.split("=", 1) for each in given.property)
    with tempfile.TemporaryDirectory() as folder, empty_database(given.database, Path(folder)) as database:
        started = time.monotonic()
        logs = compete(database, given.writers, given.operations, given.deletes, properties)
        took = time.monotonic() - started
        report(given.writers, given.database, logs, took)
        check(database, logs)


def compete(
    database: Database, writers: int, operations: int, deletes: float, properties: dict[str, str]
) -> list[list[Any]]:
    """For each operation of all writers: its name, its duration, and its error or None."""
    made = os.fork()
    if made == 0:  # no connection is made before the fork of the writers
        with database.catalog() as catalog:
            catalog.create_namespace("db")
            given = {"encryption.key-id": KEY_ID, **properties}
            catalog.create_table("db.t", SCHEMA, partition_spec=SPEC, properties=given)
        os._exit(0)
    if os.waitpid(made, 0)[1]:
        sys.exit("the table could not be made")
    go, start = os.pipe()
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.read(go, 1)  # returns in all writers at once, when the other end is closed
            try:
                log = write(database, writer, operations, deletes)
                (database.folder / f"{writer}.json").write_text(json.dumps(log))
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(start)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit("a writer died")
    os.close(go)
    files = (database.folder / f"{writer}.json" for writer in range(writers))
    return [entry for file in files for entry in json.loads(file.read_text())]


def write(database: Database, writer: int, operations: int, deletes: float) -> list[list[Any]]:
    random = Random(writer)
    log: list[list[Any]] = []
    rows: list[int] = []
    warnings.simplefilter("ignore")
    with database.catalog() as catalog:
        table: Any = catalog.load_table("db.t")
        for number in range(operations):
            began = time.monotonic()
            gone = bool(rows) and random.random() < deletes
            try:
                if gone:
                    table.delete(f"writer == {writer} and id == {rows[0]}")
                    rows.pop(0)
                else:
                    table.append(
                        pa.table({"writer": pa.array([writer], pa.int64()), "id": pa.array([number], pa.int64())})
                    )
                    rows.append(number)
                failed = None
            except Exception as error:  # noqa: BLE001
                failed = f"{type(error).__name__}: {str(error)[:150]}"
                table = catalog.load_table("db.t")
            log.append(["delete" if gone else "append", time.monotonic() - began, failed])
    return log


def check(database: Database, logs: Sequence[Sequence[Any]]) -> None:
    """Check that no row is lost or doubled; otherwise the figures mean nothing."""
    worked = [kind for kind, _, failed in logs if failed is None]
    with database.catalog() as catalog:
        count = catalog.load_table("db.t").scan().count()
    expected = worked.count("append") - worked.count("delete")
    if count != expected:
        sys.exit(f"{count} rows, expected {expected}")


def report(writers: int, database: str, logs: Sequence[Sequence[Any]], took: float) -> None:
    print(f"{'writers':<9}{'database':<12}{'operations':<16}{'failed':>8}{'median':>10}{'95 %':>10}{'longest':>10}")
    for kind in sorted({kind for kind, _, _ in logs}):
        times = sorted(seconds for each, seconds, _ in logs if each == kind)
        failures = [failed for each, _, failed in logs if each == kind and failed]
        print(
            f"{writers:<9}{database:<12}{f'{len(times)} {kind}s':<16}{len(failures) / len(times):>8.1%}"
            f"{statistics.median(times):>8.2f} s{times[int(len(times) * 0.95)]:>8.2f} s{times[-1]:>8.2f} s"
        )
        for failed in sorted(set(failures))[:3]:
            print(f"    {failures.count(failed)} x {failed}")
    print(
        f"    in all {took:.0f} s, {len(logs) / took:.1f} changes each second, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
