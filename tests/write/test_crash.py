"""A writer that dies at any step of a commit: the table stays readable, and the next commit works.

    data file | manifest | list | metadata | before COMMIT | after COMMIT

The child is killed by a hook in the very function that does the step, before and after it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.servers import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
DIED = 42
# One program dies many deaths, each in a child of its own.
CHILD = """
import json, os, sys, traceback
import pyarrow as pa
import sealberg
from sealberg.table import transaction
from sealberg.write import snapshot_builder as commit
from sealberg.write import data_writer as write
from sealberg.catalogs.sql import catalog as sql
from sqlalchemy.orm import Session

STEPS = {
    "data file": (write.RowWriter, "_write_file"),
    "manifest": (commit._Builder, "_close"),
    "list": (commit, "write_manifest_list"),
    "keys": (commit, "key_updates"),
    "metadata": (sql.EncryptedSql, "_swap"),
    "pointer": (sql.EncryptedSql, "_write_trust"),
    "COMMIT": (Session, "commit"),
}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})

def die(owner, name, when):
    real = getattr(owner, name)
    def hooked(*args, **kwargs):
        if when == "before":
            os._exit(42)
        done = real(*args, **kwargs)
        os._exit(42)
    setattr(owner, name, hooked)

def append(table):
    table.append(ROWS)

def delete(table):
    table.delete("id = 2")

def create(catalog):
    with catalog.create_table_transaction("db.new", ROWS.schema, properties={"encryption.key-id": "hr"}) as made:
        made.append(ROWS)

def live(operation, step, when, properties):
    catalog = sealberg.load_catalog("test", **properties)
    if operation == "create":
        die(*STEPS[step], when)
        create(catalog)
    else:
        table = catalog.load_table("db.t")
        die(*STEPS[step], when)
        globals()[operation](table)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            live(*json.loads(line))
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

STEPS = ["data file", "manifest", "list", "keys", "metadata", "pointer", "COMMIT"]
LANDED = {("COMMIT", "after"), ("metadata", "after")}  # what moves the pointer is the last thing that happens


class Victims:
    """A program that dies as often as it is told to."""

    def __init__(self, log: Path) -> None:
        source = str(Path(__file__).parents[2] / "src")
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
            )

    def killed(self, operation: str, step: str, when: str, database: Database) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([operation, step, when, database.properties]) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{DIED}\n", self._log.read_text()


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    made = Victims(tmp_path_factory.mktemp("victims") / "log")
    with made.process:
        yield made


def rows_of(table: Any, snapshot_id: int | None = None) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def check_readable(catalog: EncryptedSql, name: str = "db.t") -> list[int]:
    table: Any = catalog.load_table(name)
    for snapshot in table.metadata.snapshots:
        rows_of(table, snapshot.snapshot_id)
    ring = table.metadata.encryption_keys
    assert {entry.key_id for entry in ring if entry.timestamp is None} == {
        snapshot.key_id for snapshot in table.metadata.snapshots
    }
    return rows_of(table)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["append", "delete"])
def test_a_writer_killed_at_any_step_leaves_the_table_readable_and_writable(
    catalog: EncryptedSql, database: Database, victims: Victims, operation: str
) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    table.append(ROWS)
    wanted = [1, 2, 3]
    for step in STEPS if operation == "append" else ["list", "metadata", "COMMIT"]:
        for when in ("before", "after"):
            victims.killed(operation, step, when, database)
            if (step, when) in LANDED:
                wanted = [*wanted, 1, 2, 3] if operation == "append" else [each for each in wanted if each != 2]
            assert check_readable(catalog) == sorted(wanted), f"{when} {step}"
            table.refresh().append(ROWS)
            wanted = [*wanted, 1, 2, 3]
            assert check_readable(catalog) == sorted(wanted), f"a commit after a death {when} {step}"


@pytest.mark.slow
def test_a_writer_killed_while_it_creates_a_table_leaves_all_of_it_or_nothing(
    catalog: EncryptedSql, database: Database, victims: Victims
) -> None:
    for step, when in (("list", "after"), ("pointer", "before"), ("pointer", "after"), ("COMMIT", "before")):
        victims.killed("create", step, when, database)
        assert not catalog.table_exists("db.new"), f"{when} {step}"
    victims.killed("create", "COMMIT", "after", database)
    assert check_readable(catalog, "db.new") == [1, 2, 3]
    catalog.load_table("db.new").append(ROWS)
    assert check_readable(catalog, "db.new") == [1, 1, 2, 2, 3, 3]


@pytest.mark.slow
def test_the_first_commit_killed_after_its_key_was_sealed_leaves_no_key_behind(
    catalog: EncryptedSql, database: Database, victims: Victims
) -> None:
    catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    victims.killed("append", "keys", "after", database)
    (kek,) = catalog.load_table("db.t").metadata.encryption_keys  # type: ignore[union-attr]
    assert kek.encrypted_by_id == "hr"  # the one that the table was made with
    catalog.load_table("db.t").append(ROWS)
    assert check_readable(catalog) == [1, 2, 3]
