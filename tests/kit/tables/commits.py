"""Tables for tests of conflicts and faults, and the check that commits lose nothing and leave no files behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sealberg.keys.kms.memory import MemoryKms

if TYPE_CHECKING:
    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
FAST = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
ONCE = {"commit.retry.num-retries": "0"}


def make(catalog: EncryptedSql, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={"encryption.key-id": "hr", **FAST, **properties})


def rows_of(table: Any, snapshot_id: int | None = None) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


def check_whole(catalog: EncryptedSql, database: Database, name: str = "db.t") -> None:
    """Check that every snapshot opens, every key is used, and the metadata name every file of the folder."""
    table: Any = catalog.load_table(name)
    ring = table.metadata.encryption_keys
    for snapshot in table.metadata.snapshots:
        rows_of(table, snapshot.snapshot_id)
    used = {snapshot.key_id for snapshot in table.metadata.snapshots}
    assert {entry.key_id for entry in ring if entry.timestamp is None} == used
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            named.add(str(manifest.manifest_path))
            named |= {
                str(e.data_file.file_path) for e in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            }
    folder = table.location().removeprefix("file://")
    assert {path for path in database.files() if path.startswith(f"{folder}/")} == {
        str(path).removeprefix("file://") for path in named
    }


class FaultyKms(MemoryKms):
    """A KMS that fails on demand and counts calls."""

    def __init__(self) -> None:
        super().__init__({"hr": b"\xab" * 16})
        self.down: Exception | None = None
        self.calls = 0

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        self._call()
        return super().wrap(key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        self._call()
        return super().unwrap(wrapped, master_key_id)

    def _call(self) -> None:
        self.calls += 1
        if self.down is not None:
            raise self.down
