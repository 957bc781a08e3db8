"""Searches what is left of a table with every key that ever existed.

    keys = every_key(table)                      of all snapshots: lists, manifests, data and delete files, KEKs
    openings(folder, keys)                       plaintexts of all files below the folder that one of these keys opens

For proofs that something is gone: after the job, no opening may hold it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from sealberg.errors import SealbergError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.format import aes_gcm
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class EveryKey:
    """Keys of files, and KEKs with the timestamps that they seal with."""

    files: set[bytes] = field(default_factory=set)
    keks: set[tuple[bytes, str]] = field(default_factory=set)

    def add(self, table: Any) -> None:
        """Add all keys that the current metadata of a table lead to."""
        ring = table.metadata.encryption_keys
        for entry in ring:
            if entry.timestamp is not None:
                self.keks.add((table.encryption._unwrap(entry), entry.timestamp))
        for snapshot in table.metadata.snapshots:
            self.files.add(table.io.open_list_key(snapshot.key_id).encode())
            for manifest in snapshot.manifests(table.io):
                self.files.add(bytes(manifest.key_metadata))
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                    self.files.add(bytes(entry.data_file.key_metadata))


def openings(folder: Path, keys: EveryKey) -> Iterator[tuple[Path, bytes]]:
    """Each file that opens, with its plaintext; keys in metadata files that a KEK opens are used too."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    known = set(keys.files)
    for path in paths:
        if path.name.endswith(".metadata.json") and path.stat().st_size:  # a killed writer leaves an empty one
            yield path, path.read_bytes()
            for entry in json.loads(path.read_text()).get("encryption-keys", ()):
                known.update(_unsealed(entry, keys))
    decoded = [KeyMetadata.decode(blob) for blob in known]
    for path in paths:
        for key in decoded:
            if (plain := _opened(path.read_bytes(), key)) is not None:
                yield path, plain


def _unsealed(entry: dict[str, Any], keys: EveryKey) -> Iterator[bytes]:
    import base64

    sealed = base64.b64decode(entry["encrypted-key-metadata"])
    for kek, stamp in keys.keks:
        try:
            yield aes_gcm.open(kek, sealed, stamp.encode())
        except SealbergError:
            continue


def _opened(content: bytes, key: KeyMetadata) -> bytes | None:
    try:
        if content.startswith(b"AGS1"):
            return Ags1Reader(io.BytesIO(content), key).read()
        if content.startswith(b"PARE"):
            from sealberg.files.parquet.reader import decryption_properties

            table = pq.read_table(
                io.BytesIO(content), decryption_properties=decryption_properties(key), use_threads=False
            )
            return str(table.to_pydict()).encode()
    except (SealbergError, OSError, ValueError):
        return None
    return None
