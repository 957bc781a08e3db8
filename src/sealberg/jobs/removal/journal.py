"""The journal of an expiry: which snapshots a killed run has expired, sealed under the table's KEK.

    write(table, gone)   before the commit: metadata/<uuid>-expiry.json
    read(table, files)   the next run: the expired snapshots of each journal, with their keys
    the job itself       deletes its journal when all files are removed

    {"table-uuid": ..., "key": {an entry as in encryption-keys}, "sealed": the expired part of the metadata}

Whoever may write to the storage can neither forge a journal nor change one: only a key of the table seals it. An old
one that somebody has put back names files that were unneeded then; what the newest metadata name stays in any case.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError
from sealberg.files.file_io import naming
from sealberg.files.seal import open_bytes, seal_bytes
from sealberg.jobs.removal.unreachable import Gone
from sealberg.keys.keyring import EncryptedKey
from sealberg.metadata.metadata_file import max_bytes, parse, read_text
from sealberg.metadata.statistics import statistics_files
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.table.own_folders import metadata_folder

if TYPE_CHECKING:
    from sealberg.table.catalog_table import CatalogTable

SUFFIX: Final = "-expiry.json"


class NoJournalError(FormatError):
    """Half a journal, or one under a KEK that the table has no more: nobody can read anything out of it."""


def write(table: CatalogTable, gone: Gone) -> str | None:
    """Write the journal of an expiry that is about to be committed; returns its location.

    None if all KEKs of the table are too old to seal anything; what a killed run leaves is then for `orphans`.
    """
    assert table.encryption is not None, "only a table with keys has something to seal a journal with"
    sealed, key = seal_bytes(_part(gone).to_json().encode())
    ring = table.metadata.encryption_keys
    more, key_id = table.encryption.seal_list_key(ring, key)
    entry = more.get(key_id)
    assert entry is not None
    if entry.encrypted_by_id not in ring:
        return None
    document = {
        "table-uuid": str(table.metadata.table_uuid),
        "key": entry.to_json(),
        "sealed": base64.b64encode(sealed).decode(),
    }
    location = f"{metadata_folder(table.metadata)}/{uuid.uuid4()}{SUFFIX}"
    with naming(location), table.inner.new_output(location).create() as stream:
        stream.write(json.dumps(document).encode())
    return location


def read(table: CatalogTable, location: str) -> Gone:
    """The expired snapshots of a journal. An error if it is not one that a key of this table has sealed."""
    with naming(location):
        try:
            document = parse(read_text(table.inner.new_input(location), max_bytes(table.catalog.properties)), location)
            entry = EncryptedKey.from_json(document["key"])
            sealed = base64.b64decode(document["sealed"], validate=True)
        except (FormatError, KeyError, TypeError, ValueError) as error:
            raise NoJournalError(f"not a journal of an expiry: {error!r}") from error
        encryption = table.encryption
        if encryption is None:
            raise FormatError("a journal of an expiry beside a table that is not encrypted")
        if entry.encrypted_by_id not in table.metadata.encryption_keys:
            raise NoJournalError(f"sealed under the KEK {entry.encrypted_by_id}, which the table has no more")
        ring = table.metadata.encryption_keys.with_keys(entry)
        text = open_bytes(sealed, encryption.open_list_key(ring, entry.key_id))
        metadata = V3TableMetadata.from_json(text)
        if metadata.table_uuid != table.metadata.table_uuid:
            raise FormatError(f"the journal of another table ({metadata.table_uuid})")
    current = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    return Gone(metadata, tuple(each for each in metadata.snapshots if each.snapshot_id not in current))


def _part(gone: Gone) -> V3TableMetadata:
    """The metadata before the expiry, with the expired snapshots alone and the keys that open them."""
    ids = {snapshot.snapshot_id for snapshot in gone.snapshots}
    metadata = gone.metadata
    needed = {snapshot.key_id for snapshot in gone.snapshots}
    ring = metadata.encryption_keys
    statistics = [file for file in statistics_files(metadata) if file.snapshot_id in ids]
    changes: dict[str, Any] = {
        "snapshots": list(gone.snapshots),
        "refs": {},
        "current_snapshot_id": None,
        "snapshot_log": [],
        "metadata_log": [],
        "statistics": [file for file in metadata.statistics if file in statistics],
        "partition_statistics": [file for file in metadata.partition_statistics if file in statistics],
        "encryption_keys": ring.without([e.key_id for e in ring if e.timestamp is None and e.key_id not in needed]),
    }
    return metadata.model_copy(update=changes)
