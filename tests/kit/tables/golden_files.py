"""The data and delete files of the tables that Iceberg Java wrote, with their keys."""

from __future__ import annotations

from functools import cache
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import fastavro

from kit.tables import golden
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import UnitestKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from pathlib import Path

DELETED = 2


class GoldenFile(NamedTuple):
    """A live file of a snapshot, as in its manifest."""

    entry: dict[str, Any]
    first_row_id: int | None

    @property
    def path(self) -> Path:
        return golden.local(self.entry["file_path"])

    @property
    def keys(self) -> KeyMetadata:
        return KeyMetadata.decode(self.entry["key_metadata"])

    @property
    def format(self) -> str:
        return str(self.entry["file_format"]).lower()


def snapshots(table: str) -> list[int]:
    return [one["snapshot-id"] for one in golden.metadata(table)["snapshots"]]


@cache
def live_files(table: str, snapshot_id: int) -> list[GoldenFile]:
    """Data files and deletion vectors of one snapshot."""
    metadata = golden.metadata(table)
    (snapshot,) = (one for one in metadata["snapshots"] if one["snapshot-id"] == snapshot_id)
    ring = Keyring.from_json(metadata["encryption-keys"])
    settings = EncryptionSettings.from_properties(f"db.{table}", metadata["properties"], {})
    manager = EncryptionManager(settings, kms=UnitestKms.from_properties({}))
    found = []
    for manifest in _records(snapshot["manifest-list"], manager.open_list_key(ring, snapshot["key-id"])):
        next_row = manifest.get("first_row_id")
        for entry in _records(manifest["manifest_path"], KeyMetadata.decode(manifest["key_metadata"])):
            if entry["status"] == DELETED:
                continue
            data_file = entry["data_file"]
            first = data_file.get("first_row_id")
            if first is None and next_row is not None:  # inherited, file after file
                first, next_row = next_row, next_row + data_file["record_count"]
            found.append(GoldenFile(data_file, first))
    return found


def files(table: str, file_format: str) -> list[GoldenFile]:
    """Every file of one format that any snapshot ever had; a Puffin file once for each of its vectors."""
    found = {
        (one.entry["file_path"], one.entry.get("content_offset")): one
        for snapshot_id in snapshots(table)
        for one in live_files(table, snapshot_id)
        if one.format == file_format
    }
    assert found, f"{table} has no {file_format} file"
    return list(found.values())


def _records(location: str, keys: KeyMetadata) -> list[Any]:
    with Ags1Reader(golden.local(location), keys) as stream:
        return list(fastavro.reader(cast("IO[bytes]", stream)))
