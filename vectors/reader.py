"""A reader of the tables in tables.json that shares no code with sealberg, and is small enough to port in an afternoon.

    table = Table(folder, entry, master_keys)      folder: where the archives were unpacked
    table.rows(snapshot_id)                        rows of a table that only ever grew, from Parquet
    table.check(snapshot_id)                       open every file of a snapshot to its last byte

    KMS unwraps the KEK > the KEK opens the list's key > list > manifests > each file's own key > rows

What it refuses it refuses with `Refused`, whose `step` is one of metadata, keys, list, manifest, data, deletes.
It needs cryptography, fastavro and pyarrow. It does not apply deletes, schema evolution or row filters.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BLOCK: Final = 1 << 20
SEALED_BLOCK: Final = 12 + BLOCK + 16
KEY_METADATA: Final = {
    "type": "record", "name": "key_metadata",
    "fields": [
        {"name": "encryption_key", "type": "bytes"},
        {"name": "aad_prefix", "type": ["null", "bytes"]},
        {"name": "file_length", "type": ["null", "long"]},
    ],
}  # fmt: skip


class Refused(Exception):  # noqa: N818 (it reads better)
    """What was read is not what was written."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"{step}: {why}")
        self.step = step


class Keys(NamedTuple):
    """What a `key_metadata` blob holds."""

    key: bytes
    aad_prefix: bytes
    length: int | None

    @classmethod
    def parse(cls, blob: bytes | None, step: str) -> Keys:
        if blob is None:
            raise Refused(step, "no key metadata: the file would be read in the clear")
        if blob[:1] != b"\x01":
            raise Refused(step, "key metadata of an unknown version")
        found: Any = fastavro.schemaless_reader(io.BytesIO(blob[1:]), KEY_METADATA, None)
        return cls(found["encryption_key"], found["aad_prefix"] or b"", found["file_length"])


def unseal(key: bytes, sealed: bytes, aad: bytes, step: str) -> bytes:
    """nonce(12) || ciphertext || tag(16)."""
    try:
        return AESGCM(key).decrypt(sealed[:12], sealed[12:], aad or None)
    except (InvalidTag, ValueError) as error:
        raise Refused(step, "a tag does not match") from error


def open_stream(path: Path, keys: Keys, step: str, *, allow_missing_length: bool = False) -> bytes:
    """An AGS1 file: AGS1, block size (1 MiB, little-endian), blocks sealed with the AAD prefix and their number."""
    content = _read(path, step)
    if keys.length is None and not allow_missing_length:
        raise Refused(step, "the key metadata carry no length: blocks cut off the end would go unseen")
    if keys.length is not None and len(content) != keys.length:
        raise Refused(step, f"{len(content)} bytes, and the key metadata say {keys.length}")
    if content[:8] != b"AGS1\x00\x00\x10\x00" or len(content) < 36:
        raise Refused(step, "no AGS1 stream")
    blocks = [content[at : at + SEALED_BLOCK] for at in range(8, len(content), SEALED_BLOCK)]
    return b"".join(
        unseal(keys.key, block, keys.aad_prefix + struct.pack("<i", number), step)
        for number, block in enumerate(blocks)
    )


class File(NamedTuple):
    """A live data or delete file of a snapshot."""

    entry: dict[str, Any]
    keys: Keys
    first_row_id: int | None
    sequence_number: int


class Table:
    """One table of tables.json. `place` maps a path of the archives to the file to read, for tampered twins."""

    def __init__(
        self,
        folder: Path,
        entry: Mapping[str, Any],
        master_keys: Mapping[str, str],
        place: Mapping[str, Path] | None = None,
    ) -> None:
        self._folder, self._place, self._prefix = folder, place or {}, entry["prefix"]
        self._allow_missing_length = "missing-length" in entry["needs"]
        raw = _read(self._local(entry["metadata"]), "metadata")
        self.metadata = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        self._key_id = entry["key-id"]  # of the catalog, not of metadata.json, which nobody vouches for
        if self.metadata["properties"].get("encryption.key-id") != self._key_id:
            raise Refused("metadata", "encryption.key-id is not the one that the catalog has")
        self._master_key = bytes.fromhex(master_keys[self._key_id])
        self._entries = {key["key-id"]: key for key in self.metadata.get("encryption-keys", [])}

    def _local(self, path: str) -> Path:
        return self._place.get(path, self._folder / path)

    def _at(self, location: str) -> Path:
        """The file of a location: the prefix is where the writer had its tables, and `wh` is where they are here."""
        return self._local("wh" + location.removeprefix(self._prefix))

    def list_keys(self, snapshot: Mapping[str, Any]) -> Keys:
        """From the snapshot's key-id to the key of its manifest list, by way of the KEK."""
        entry = self._entries.get(snapshot.get("key-id", ""))
        kek = self._entries.get(entry["encrypted-by-id"]) if entry else None
        if entry is None or kek is None or kek["encrypted-by-id"] != self._key_id:
            raise Refused("keys", "the snapshot's key does not lead to the table's master key")
        opened = unseal(self._master_key, base64.b64decode(kek["encrypted-key-metadata"]), b"", "keys")
        timestamp = kek["properties"]["KEY_TIMESTAMP"].encode()  # the AAD is the text as it stands there
        blob = unseal(opened, base64.b64decode(entry["encrypted-key-metadata"]), timestamp, "keys")
        return Keys.parse(blob, "keys")

    def files(self, snapshot_id: int) -> Iterator[File]:
        """The live files of a snapshot."""
        (snapshot,) = (one for one in self.metadata["snapshots"] if one["snapshot-id"] == snapshot_id)
        for manifest in self._avro(snapshot["manifest-list"], self.list_keys(snapshot), "list"):
            next_row = manifest["first_row_id"]
            keys = Keys.parse(manifest["key_metadata"], "manifest")
            step = "deletes" if manifest["content"] else "data"
            for entry in self._avro(manifest["manifest_path"], keys, "manifest"):
                file, sequence_number = entry["data_file"], entry["sequence_number"]
                if sequence_number is None:  # inherited by what the manifest added
                    sequence_number = manifest["sequence_number"]
                first = file["first_row_id"]
                if first is None and next_row is not None and entry["status"] != 2:
                    first, next_row = next_row, next_row + file["record_count"]
                if entry["status"] != 2:  # deleted
                    yield File(file, Keys.parse(file["key_metadata"], step), first, sequence_number)

    def rows(self, snapshot_id: int) -> list[dict[str, Any]]:
        """Rows as Python values, with `_row_id` and `_last_updated_sequence_number`."""
        found = []
        for file in self.files(snapshot_id):
            for position, row in enumerate(self.read_parquet(file).to_pylist()):
                assert file.first_row_id is not None
                lineage = {
                    "_row_id": file.first_row_id + position,
                    "_last_updated_sequence_number": file.sequence_number,
                }
                found.append(row | lineage)
        return found

    def check(self, snapshot_id: int) -> None:
        for file in self.files(snapshot_id):
            kind = file.entry["file_format"].upper()
            step = "deletes" if file.entry["content"] else "data"
            if kind == "PARQUET":
                self.read_parquet(file)
            elif kind == "AVRO":
                list(self._avro(file.entry["file_path"], file.keys, step))
            else:  # a deletion vector: length, magic and bitmap, CRC-32; offsets are those of the plaintext
                content = open_stream(self._at(file.entry["file_path"]), file.keys, step)
                blob = content[file.entry["content_offset"] :][: file.entry["content_size_in_bytes"]]
                if blob[4:8] != b"\xd1\xd3\x39\x64" or zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
                    raise Refused(step, "no deletion vector")

    def _avro(self, location: str, keys: Keys, step: str) -> Iterator[dict[str, Any]]:
        plain = open_stream(self._at(location), keys, step, allow_missing_length=self._allow_missing_length)
        yield from fastavro.reader(io.BytesIO(plain))  # type: ignore[misc]

    def read_parquet(self, file: File) -> pa.Table:
        content = _read(self._at(file.entry["file_path"]), "data")
        if len(content) != (file.keys.length or len(content)):
            raise Refused("data", "the length is not the one that the key metadata say")
        if content[:4] != b"PARE" or content[-4:] != b"PARE":
            raise Refused("data", "no Parquet file with an encrypted footer")
        properties = pe.create_decryption_properties(file.keys.key, aad_prefix=file.keys.aad_prefix)
        try:
            return pq.read_table(pa.BufferReader(content), decryption_properties=properties)
        except (OSError, pa.ArrowException) as error:
            raise Refused("data", str(error)) from error


def _read(path: Path, step: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise Refused(step, f"{path.name} is not there") from error
