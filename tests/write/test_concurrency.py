"""Many writers at once: every commit is there, every snapshot opens, no key is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.servers import postgres

if TYPE_CHECKING:
    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

pytestmark = pytest.mark.slow

catalog, database = postgres.catalog, postgres.database  # the fixtures

PATIENT = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "20",
    "commit.retry.max-wait-ms": "1000",
    "commit.manifest.min-count-to-merge": "20",
}
# One program that has imported everything becomes all the processes: imports would take longer than the commits.
MANY = """
import json, os, sys, traceback
import pyarrow as pa
import sealberg, sealberg.catalogs.sql.catalog

def commit(name, catalog):
    table = catalog.load_table("db.t")
    for each in range(20):
        table.append(pa.table({"id": pa.array([name * 1000 + each], pa.int64())}))

def append_or_delete(name, catalog):
    table = catalog.load_table("db.t")
    for each in range(5):
        if name % 2:
            table.delete(f"id == {name * 1000 + each}")
        else:
            table.append(pa.table({"id": pa.array([name * 1000 + each], pa.int64())}))

def open_only(name, catalog):
    catalog.create_namespace_if_not_exists(f"n{name}")

work, count, properties = globals()[sys.argv[1]], int(sys.argv[2]), json.loads(sys.argv[3])
children = []
go, start = os.pipe()
for name in range(count):
    child = os.fork()
    if child == 0:
        os.close(start)
        os.read(go, 1)  # ends for all at once, when the other side is closed
        try:
            with sealberg.load_catalog("test", **properties) as catalog:
                work(name, catalog)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(start)
sys.exit(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def make(catalog: EncryptedSql, properties: dict[str, str] = PATIENT) -> Any:
    schema = pa.schema([("id", pa.int64())])
    return catalog.create_table("db.t", schema, properties={"encryption.key-id": "hr", **properties})


def together(work: str, count: int, database: Database) -> None:
    """Many processes that begin at once."""
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", MANY, work, str(count), json.dumps(database.properties)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": source, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def check_all_there(catalog: EncryptedSql, database: Database, wanted: list[int]) -> None:
    table: Any = catalog.load_table("db.t")
    metadata = table.metadata
    found = table.scan(selected_fields=("id", "_row_id")).to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted(wanted)
    assert len(set(found["_row_id"].to_pylist())) == len(wanted)
    assert [snapshot.sequence_number for snapshot in metadata.snapshots] == list(range(1, len(wanted) + 1))
    for before, after in zip(metadata.snapshots, metadata.snapshots[1:], strict=False):
        assert after.parent_snapshot_id == before.snapshot_id
    for count, snapshot in enumerate(metadata.snapshots, 1):
        entries = [
            entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
        ]
        assert len(entries) == count
    assert len(metadata.encryption_keys) == len(wanted) + len(metadata.encryption_keys.keks("hr"))
    assert len(metadata.encryption_keys.keks("hr")) == 1
    # Attempts that failed have left nothing: one data file and one list for each commit.
    files = [path.rpartition("/")[2] for path in database.files()]
    assert sum(name.endswith(".parquet") for name in files) == len(wanted)
    assert sum(name.startswith("snap-") for name in files) == len(wanted)
    assert sum(name.endswith(".metadata.json") for name in files) == len(wanted) + 1


@pytest.mark.slow
def test_eight_processes_commit_twenty_times_each(catalog: EncryptedSql, database: Database) -> None:
    make(catalog)
    together("commit", 8, database)
    check_all_there(catalog, database, [name * 1000 + each for name in range(8) for each in range(20)])


@pytest.mark.slow
def test_with_default_properties_no_append_fails_while_others_delete_and_no_delete_either(
    catalog: EncryptedSql, database: Database
) -> None:
    table = make(catalog, {})
    for name in range(1, 8, 2):  # a file for each that deletes: nobody deletes from another's
        table.append(pa.table({"id": pa.array([name * 1000 + each for each in range(6)], pa.int64())}))
    together("append_or_delete", 8, database)
    left = sorted(catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist())
    wanted = [name * 1000 + each for name in range(0, 8, 2) for each in range(5)]
    assert left == sorted([*wanted, *(name * 1000 + 5 for name in range(1, 8, 2))])


def test_threads_that_share_a_catalog_commit_side_by_side(catalog: EncryptedSql, database: Database) -> None:
    make(catalog)
    errors: list[BaseException] = []

    def write(name: int) -> None:
        try:
            table = catalog.load_table("db.t")
            for each in range(5):
                table.append(pa.table({"id": pa.array([name * 1000 + each], pa.int64())}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    check_all_there(catalog, database, [name * 1000 + each for name in range(4) for each in range(5)])


def test_a_reader_never_takes_a_commit_of_somebody_else_for_tampering(
    catalog: EncryptedSql, database: Database
) -> None:
    make(catalog)
    done = threading.Event()
    seen: list[int] = []
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(len(catalog.load_table("db.t").metadata.snapshots))
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    table = catalog.load_table("db.t")
    for each in range(15):
        table.append(pa.table({"id": pa.array([each], pa.int64())}))
    done.set()
    for reader in readers:
        reader.join()
    assert not errors
    assert len(set(seen)) > 1


@pytest.mark.slow
def test_processes_that_open_a_new_database_together_all_get_their_tables(database: Database) -> None:
    together("open_only", 6, database)
    with database.catalog() as opened:
        assert sorted(opened.list_namespaces()) == [(f"n{name}",) for name in range(6)]
