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

from kit import postgres

if TYPE_CHECKING:
    from kit.postgres import Database
    from sealberg.table.catalogs.sql import SealedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
DIED = 42
# One program dies many deaths, each in a child of its own.
CHILD = """
import json, os, sys, traceback
import pyarrow as pa
import sealberg
from sealberg.table import commit, transaction, write
from sealberg.table.catalogs import sql
from sqlalchemy.orm import Session

STEPS = {
    "data file": (write.RowWriter, "_write_file"),
    "manifest": (commit._Builder, "_close"),
    "list": (commit, "write_manifest_list"),
    "keys": (commit, "key_updates"),
    "metadata": (sql.SealedSql, "_swap"),
    "pointer": (sql.SealedSql, "_vouch"),
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

operation, step, when, properties = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
catalog = sealberg.load_catalog("test", **properties)
if operation == "create":
    die(*STEPS[step], when)
    create(catalog)
else:
    table = catalog.load_table("db.t")
    die(*STEPS[step], when)
    globals()[operation](table)
"""

STEPS = ["data file", "manifest", "list", "keys", "metadata", "pointer", "COMMIT"]
LANDED = {("COMMIT", "after"), ("metadata", "after")}  # what moves the pointer is the last thing that happens


def killed(operation: str, step: str, when: str, database: Database) -> None:
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, operation, step, when, json.dumps(database.properties)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == DIED, done.stderr


def rows_of(table: Any, snapshot_id: int | None = None) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def check_readable(catalog: SealedSql, name: str = "db.t") -> list[int]:
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
    catalog: SealedSql, database: Database, operation: str
) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    table.append(ROWS)
    wanted = [1, 2, 3]
    for step in STEPS if operation == "append" else ["list", "metadata", "COMMIT"]:
        for when in ("before", "after"):
            killed(operation, step, when, database)
            if (step, when) in LANDED:
                wanted = [*wanted, 1, 2, 3] if operation == "append" else [each for each in wanted if each != 2]
            assert check_readable(catalog) == sorted(wanted), f"{when} {step}"
            table.refresh().append(ROWS)
            wanted = [*wanted, 1, 2, 3]
            assert check_readable(catalog) == sorted(wanted), f"a commit after a death {when} {step}"


@pytest.mark.slow
def test_a_writer_killed_while_it_creates_a_table_leaves_all_of_it_or_nothing(
    catalog: SealedSql, database: Database
) -> None:
    for step, when in (("list", "after"), ("pointer", "before"), ("pointer", "after"), ("COMMIT", "before")):
        killed("create", step, when, database)
        assert not catalog.table_exists("db.new"), f"{when} {step}"
    killed("create", "COMMIT", "after", database)
    assert check_readable(catalog, "db.new") == [1, 2, 3]
    catalog.load_table("db.new").append(ROWS)
    assert check_readable(catalog, "db.new") == [1, 1, 2, 2, 3, 3]


@pytest.mark.slow
def test_the_first_commit_killed_after_its_kek_was_made_leaves_no_key_behind(
    catalog: SealedSql, database: Database
) -> None:
    catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    killed("append", "keys", "after", database)
    assert len(catalog.load_table("db.t").metadata.encryption_keys) == 0  # type: ignore[union-attr]
    catalog.load_table("db.t").append(ROWS)
    assert check_readable(catalog) == [1, 2, 3]
