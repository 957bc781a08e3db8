"""The demonstration behind `make demo`: an encrypted table from its creation to an attack on it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import StringType

import sealberg
from sealberg.errors import SealbergError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 3_000_000
CITIES = ["Bern", "Cairo", "Lima", "Oslo", "Quito", "Seoul"]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sealberg-demo-") as name:
        home = Path(name)
        os.environ |= {"SEALBERG_HOME": name, "SEALBERG_PASSPHRASE": "a passphrase for a demonstration"}
        with step("a keystore with the master key 'hr', under a passphrase"):
            command("keystore", "create")
            command("keystore", "add", "hr")

        with step(f"an encrypted table, {ROWS:,} rows"):
            catalog = sealberg.load_catalog()  # nothing configured: SQLite, a local folder, the keystore
            catalog.create_namespace("hr")
            rows = people(ROWS)
            table = catalog.create_table("hr.people", rows.schema, properties={"encryption.key-id": "hr"})
            table.append(rows)

        with step("a query: who earns more than 9,990 in Oslo?"):
            found = table.scan("city == 'Oslo' and salary > 9990", selected_fields=("id", "salary")).to_arrow()
            say(f"{found.num_rows} rows, {pc.sum(found['salary']).as_py():,} in all")

        with step("a delete, an upsert, a new column"):
            table.delete("id < 1000")
            update = pa.table({"id": [5000, ROWS], "city": ["Lima", "Bern"], "salary": [1, 2]})
            result = table.upsert(update, join_cols=["id"])
            with table.update_schema() as schema:
                schema.add_column("note", StringType())
            say(
                f"{result.rows_updated} row updated, {result.rows_inserted} inserted; {table.scan().count():,} rows now"
            )

        warehouse = home / "warehouse/hr/people"
        with step("what lies in storage"):
            for pattern in ("snap-*.avro", "*-m0.avro", "*.parquet"):
                path = newest(warehouse, pattern)
                head = path.read_bytes()[:16]
                say(f"{path.name[:28]:<28}… {head.hex(' ')}  |{printable(head)}|")
            command("inspect", str(sorted(warehouse.rglob("*.metadata.json"))[-1]), show=8)

        with step("an attack: one bit of a data file"):
            target = newest(warehouse, "*.parquet")
            flip(target, target.stat().st_size // 2)
            refused(lambda: table.scan().to_arrow())
            flip(target, target.stat().st_size // 2)
        with step("an attack: an older metadata.json in place of the newest"):
            versions = sorted(warehouse.rglob("*.metadata.json"))
            newest_text = versions[-1].read_bytes()
            versions[-1].write_bytes(versions[-2].read_bytes())
            refused(lambda: catalog.load_table("hr.people"))
            versions[-1].write_bytes(newest_text)
        say(f"and with everything back in its place: {catalog.load_table('hr.people').scan().count():,} rows")


def people(count: int) -> pa.Table:
    ids = pa.array(range(count), pa.int64())
    cities = pa.array(CITIES).take(pc.bit_wise_and(ids, pa.scalar(3)))
    salary = pc.add(pc.bit_wise_and(pc.multiply(ids, pa.scalar(7919)), pa.scalar(8191)), pa.scalar(2000))
    return pa.table({"id": ids, "city": cities, "salary": salary})


@contextmanager
def step(words: str) -> Iterator[None]:
    print(f"\n== {words}", flush=True)
    began = time.perf_counter()
    yield
    say(f"({time.perf_counter() - began:.1f} s)")


def command(*arguments: str, show: int = 3) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sealberg.cli.main", *arguments], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines()[:show]:
        say(line)


def refused(act: Callable[[], object]) -> None:
    try:
        act()
    except SealbergError as error:
        say(f"refused, {type(error).__name__}: {error}")
    else:
        raise SystemExit("not noticed")


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.rglob(pattern), key=lambda path: path.stat().st_mtime_ns)


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def printable(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def say(words: str) -> None:
    print(f"   {words}", flush=True)


if __name__ == "__main__":
    main()
