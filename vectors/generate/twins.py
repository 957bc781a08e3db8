"""Tampered twins: copies of tables with one thing changed each, and what a reader must make of it.

    storage       bytes of a file flipped, cut, added; files swapped, taken away, put back from an older state
    metadata      the same for the keys in metadata.json, which is not encrypted
    resealed      what only a holder of the keys can do: files that open, and say something else than their parents

A twin holds the changed files only; all others are those of its table. Nothing here is random.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from vectors.reader import KEY_METADATA, SEALED_BLOCK, Keys, Table, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Twin:
    """`files` are the changed ones by their path in the archives; `step` is where a reader must stop."""

    name: str
    table: str
    about: str
    step: str
    why: str
    files: dict[str, bytes]
    removed: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def to_json(self, archive: str) -> dict[str, Any]:
        return {
            "name": self.name,
            "table": self.table,
            "about": self.about,
            "archive": archive,
            "changed": {path: f"{self.name}/{path}" for path in sorted(self.files)},
            "removed": list(self.removed),
            "expect": "refuse",
            "step": self.step,
            "why": self.why,
            "needs": list(self.needs),
        }


class Base:
    """A table whose files are about to be changed, by their roles in its newest snapshot."""

    def __init__(self, folder: Path, entry: Mapping[str, Any], master_keys: Mapping[str, str]) -> None:
        self.entry = entry
        self.folder = folder
        self.name: str = entry["name"]
        self.table = Table(folder, entry, master_keys)
        self.master_key = bytes.fromhex(master_keys[entry["key-id"]])
        self.metadata = self.table.metadata
        self.snapshot = next(
            one for one in self.metadata["snapshots"] if one["snapshot-id"] == self.metadata["current-snapshot-id"]
        )
        self.older = self.metadata["snapshots"][0]
        self.list_keys = self.table.list_keys(self.snapshot)
        self.list = self.path(self.snapshot["manifest-list"])
        self.manifests = self.records(self.list, self.list_keys)[0]
        live = list(self.table.files(self.snapshot["snapshot-id"]))
        self.parquet = [one for one in live if one.entry["file_format"].upper() == "PARQUET"]
        self.avro = [one for one in live if one.entry["file_format"].upper() == "AVRO"]
        self.vectors = [one for one in live if one.entry["file_format"].upper() == "PUFFIN"]

    def path(self, location: str) -> str:
        return "wh" + location.removeprefix(self.entry["prefix"])

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def plain(self, path: str, keys: Keys) -> bytes:
        return open_stream(self.folder / path, keys, "twin")

    def records(self, path: str, keys: Keys) -> tuple[list[Any], Any, dict[str, str]]:
        reader = fastavro.reader(io.BytesIO(self.plain(path, keys)))
        return list(reader), reader.writer_schema, dict(reader.metadata)

    def with_metadata(self, change: Callable[[dict[str, Any]], object]) -> dict[str, bytes]:
        changed = copy.deepcopy(self.metadata)
        change(changed)
        return {self.entry["metadata"]: json.dumps(changed, separators=(",", ":"), ensure_ascii=False).encode()}

    # -- sealing again, by who has the keys ---------------------------------------------------------

    def list_key_entry(self, keys: Keys, name: str) -> Callable[[dict[str, Any]], None]:
        """A change of metadata.json after which the newest snapshot's list has these keys."""

        def change(metadata: dict[str, Any]) -> None:
            by_id = {one["key-id"]: one for one in metadata["encryption-keys"]}
            entry = by_id[self.snapshot["key-id"]]
            kek = by_id[entry["encrypted-by-id"]]
            wrapped = base64.b64decode(kek["encrypted-key-metadata"])
            opened = AESGCM(self.master_key).decrypt(wrapped[:12], wrapped[12:], None)
            nonce, aad = _nonce(name), kek["properties"]["KEY_TIMESTAMP"].encode()
            sealed = nonce + AESGCM(opened).encrypt(nonce, blob_of(keys), aad)
            entry["encrypted-key-metadata"] = base64.b64encode(sealed).decode()

        return change

    def with_manifest(self, name: str, change: Callable[[dict[str, Any]], object]) -> dict[str, bytes]:
        """The newest snapshot with every entry of its first manifest changed, and all above it sealed again."""
        line = self.manifests[0]
        keys = Keys.parse(line["key_metadata"], "twin")
        path = self.path(line["manifest_path"])
        records, schema, header = self.records(path, keys)
        for record in records:
            change(record)
        sealed, keys = seal(write_avro(records, schema, header), keys, f"{name} manifest")

        def above(changed: dict[str, Any]) -> None:
            changed.update(key_metadata=blob_of(keys), manifest_length=len(sealed))

        return {path: sealed, **self.with_list(name, above)}

    def with_list(self, name: str, change: Callable[[dict[str, Any]], object]) -> dict[str, bytes]:
        """The newest list with its first line changed, sealed again."""
        lines, schema, header = self.records(self.list, self.list_keys)
        change(lines[0])
        sealed, keys = seal(write_avro(lines, schema, header), self.list_keys, f"{name} list")
        return {self.list: sealed, **self.with_metadata(self.list_key_entry(keys, name))}


def write_avro(records: list[Any], schema: Any, header: dict[str, str]) -> bytes:
    """A container of one block, not compressed. By hand: fastavro puts a schema's own attributes in any order."""
    out, block = io.BytesIO(), io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(block, schema, record)
    kept = {name: value.encode() for name, value in {**header, "avro.codec": "null"}.items()}
    out.write(b"Obj\x01")
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, kept)
    out.write(bytes(16))
    for number in (len(records), len(block.getvalue())):
        fastavro.schemaless_writer(out, "long", number)
    return out.getvalue() + block.getvalue() + bytes(16)


def seal(plain: bytes, keys: Keys, name: str) -> tuple[bytes, Keys]:
    """An AGS1 stream of one block, and its keys with the new length."""
    assert len(plain) < SEALED_BLOCK - 28
    nonce = _nonce(name)
    block = AESGCM(keys.key).encrypt(nonce, plain, keys.aad_prefix + struct.pack("<i", 0))
    sealed = b"AGS1\x00\x00\x10\x00" + nonce + block
    return sealed, keys._replace(length=len(sealed))


def blob_of(keys: Keys) -> bytes:
    out = io.BytesIO()
    record = {"encryption_key": keys.key, "aad_prefix": keys.aad_prefix, "file_length": keys.length}
    fastavro.schemaless_writer(out, KEY_METADATA, record)
    return b"\x01" + out.getvalue()


def _nonce(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:12]


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


# -- the twins --------------------------------------------------------------------------------------

TAG = "a GCM tag does not match"
LENGTH = "the file is not as long as its key metadata say"
MAGIC = "the file does not begin as an encrypted one"


def every_twin(folder: Path, entries: Mapping[str, Any], master_keys: Mapping[str, str]) -> list[Twin]:
    """All twins, of three tables."""
    parquet = Base(folder, entries["basic128"], master_keys)
    mixed = Base(folder, entries["partitioned_deletes"], master_keys)
    blocks = Base(folder, entries["avro"], master_keys)
    return [*_storage(parquet, mixed, blocks), *_metadata(parquet), *_resealed(parquet)]


def _storage(parquet: Base, mixed: Base, blocks: Base) -> list[Twin]:
    manifest = parquet.manifests[0]
    kinds = (
        ("list", parquet, "list", parquet.list),
        ("manifest", parquet, "manifest", parquet.path(manifest["manifest_path"])),
        ("parquet", parquet, "data", parquet.path(parquet.parquet[0].entry["file_path"])),
        ("avro", mixed, "data", mixed.path(mixed.avro[0].entry["file_path"])),
        ("vector", mixed, "deletes", mixed.path(mixed.vectors[0].entry["file_path"])),
    )
    made = []
    for kind, base, step, path in kinds:
        changes = _parquet_changes(base.read(path)) if kind == "parquet" else _stream_changes(base.read(path))
        made += [
            Twin(f"{kind}_{what}", base.name, about, step, why, {path: changed})
            for what, about, why, changed in changes
        ]
        made.append(Twin(f"{kind}_removed", base.name, "the file is not there", step, "it is missing", {}, (path,)))
    return [*made, *_plaintext(parquet), *_misplaced(parquet), _cut_between_blocks(blocks)]


FileChanges = list[tuple[str, str, str, bytes]]


def _any_changes(content: bytes) -> FileChanges:
    return [
        ("magic_flipped", "one bit of the first byte is flipped", MAGIC, flipped(content, 0)),
        ("cut", "the last byte is missing", LENGTH, content[:-1]),
        ("extended", "a byte more at the end", LENGTH, content + b"\x00"),
        ("emptied", "no byte left", LENGTH, b""),
    ]


def _stream_changes(content: bytes) -> FileChanges:
    return [
        ("byte_flipped", "one bit of a byte in the middle is flipped", TAG, flipped(content, len(content) // 2)),
        ("nonce_flipped", "one bit of the nonce is flipped", TAG, flipped(content, 8)),
        ("tag_flipped", "one bit of the last byte is flipped", TAG, flipped(content, -1)),
        ("block_size_changed", "the header says another block size", "blocks have 1 MiB", flipped(content, 6)),
        *_any_changes(content),
    ]


def _parquet_changes(content: bytes) -> FileChanges:
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return [
        ("page_flipped", "one bit in a data page is flipped", TAG, flipped(content, 100)),
        ("footer_flipped", "one bit in the encrypted footer is flipped", TAG, flipped(content, footer + 60)),
        ("end_flipped", "one bit of the magic at the end is flipped", MAGIC, flipped(content, -1)),
        *_any_changes(content),
    ]


def _plaintext(base: Base) -> list[Twin]:
    file, manifest = base.parquet[0], base.manifests[0]
    sink = pa.BufferOutputStream()
    pq.write_table(base.table.read_parquet(file), sink)
    path = base.path(manifest["manifest_path"])
    found = (
        ("list", "list", base.list, base.plain(base.list, base.list_keys)),
        ("manifest", "manifest", path, base.plain(path, Keys.parse(manifest["key_metadata"], "manifest"))),
        ("parquet", "data", base.path(file.entry["file_path"]), bytes(sink.getvalue())),
    )
    about = "the same in the clear, as a table without encryption has it"
    return [
        Twin(f"{kind}_plaintext", base.name, about, step, f"{LENGTH}, and {MAGIC}", {path: content})
        for kind, step, path, content in found
    ]


def _misplaced(base: Base) -> list[Twin]:
    one, other = (base.path(file.entry["file_path"]) for file in base.parquet[:2])
    files = {one: base.read(other), other: base.read(one)}
    made = [Twin("parquet_swapped", base.name, "two data files changed places", "data", TAG, files)]
    one, other = (base.path(line["manifest_path"]) for line in base.manifests[:2])
    files = {one: base.read(other), other: base.read(one)}
    made.append(Twin("manifest_swapped", base.name, "two manifests changed places", "manifest", TAG, files))
    files = {base.list: base.read(base.path(base.older["manifest-list"]))}
    about = "the list of the first snapshot in the place of the newest"
    return [*made, Twin("list_of_older_snapshot", base.name, about, "list", f"{LENGTH}, and {TAG}", files)]


def _cut_between_blocks(base: Base) -> Twin:
    large = next(file for file in base.avro if file.entry["file_size_in_bytes"] > SEALED_BLOCK)
    path = base.path(large.entry["file_path"])
    about = "the last block is gone, and all tags that are left match"
    return Twin("avro_last_block_cut", base.name, about, "data", LENGTH, {path: base.read(path)[: 8 + SEALED_BLOCK]})


def _metadata(base: Base) -> list[Twin]:
    key_id, by_id = base.snapshot["key-id"], {one["key-id"]: one for one in base.metadata["encryption-keys"]}
    kek_id = by_id[key_id]["encrypted-by-id"]

    def entry(metadata: dict[str, Any], wanted: str) -> dict[str, Any]:
        return next(one for one in metadata["encryption-keys"] if one["key-id"] == wanted)

    def newest(metadata: dict[str, Any]) -> dict[str, Any]:
        return next(one for one in metadata["snapshots"] if one["snapshot-id"] == base.snapshot["snapshot-id"])

    def without(wanted: str) -> Callable[[dict[str, Any]], object]:
        return lambda metadata: metadata["encryption-keys"].remove(entry(metadata, wanted))

    def spoilt(wanted: str) -> Callable[[dict[str, Any]], object]:
        def change(metadata: dict[str, Any]) -> None:
            found = entry(metadata, wanted)
            raw = flipped(base64.b64decode(found["encrypted-key-metadata"]), 20)
            found["encrypted-key-metadata"] = base64.b64encode(raw).decode()

        return change

    def set_key(value: str) -> Callable[[dict[str, Any]], object]:
        return lambda metadata: newest(metadata).update({"key-id": value})

    chain = "the snapshot's key does not lead to the table's master key"
    changes: list[tuple[str, str, str, str, Callable[[dict[str, Any]], object]]] = [
        ("list_key_removed", "the entry of the list's key is gone", "keys", chain, without(key_id)),
        ("kek_removed", "the entry of the KEK is gone", "keys", chain, without(kek_id)),
        ("list_key_flipped", "one bit of the list's sealed key is flipped", "keys", TAG, spoilt(key_id)),
        ("kek_flipped", "one bit of the wrapped KEK is flipped", "keys", "the KMS refuses it", spoilt(kek_id)),
        ("kek_timestamp_changed", "KEY_TIMESTAMP is later by 1 ms: it is the AAD of the list's key", "keys", TAG,
         lambda metadata: entry(metadata, kek_id)["properties"].update(
             KEY_TIMESTAMP=str(int(by_id[kek_id]["properties"]["KEY_TIMESTAMP"]) + 1))),
        ("kek_by_other_key", "the KEK says that keyB wrapped it", "keys", chain,
         lambda metadata: entry(metadata, kek_id).update({"encrypted-by-id": "keyB"})),
        ("snapshot_key_of_older", "the snapshot names the key of the first snapshot", "list",
         f"{LENGTH}, and no tag matches", set_key(base.older["key-id"])),
        ("snapshot_key_is_kek", "the snapshot names the KEK", "keys", chain, set_key(kek_id)),
        ("snapshot_key_unknown", "the snapshot names a key that is not there", "keys", chain, set_key("bm8ga2V5")),
        ("snapshot_key_taken_away", "the snapshot names no key", "keys", "its list would be read in the clear",
         lambda metadata: newest(metadata).pop("key-id")),
        ("table_key_changed", "encryption.key-id is keyB", "metadata", "the catalog has another key id",
         lambda metadata: metadata["properties"].update({"encryption.key-id": "keyB"})),
        ("table_key_taken_away", "encryption.key-id is gone", "metadata", "the catalog has a key id",
         lambda metadata: metadata["properties"].pop("encryption.key-id")),
    ]  # fmt: skip
    made = [
        Twin(f"metadata_{name}", base.name, about, step, why, base.with_metadata(change))
        for name, about, step, why, change in changes
    ]
    versions = sorted((base.folder / base.entry["metadata"]).parent.glob("*metadata.json"))
    rolled_back = versions[-2].read_bytes()
    why = "only a catalog that keeps the hash of metadata.json can tell"
    about = "the metadata of one snapshot before in the place of the newest"
    files = {base.entry["metadata"]: rolled_back}
    return [*made, Twin("metadata_rolled_back", base.name, about, "metadata", why, files, needs=("metadata-hash",))]


def _resealed(parquet: Base) -> list[Twin]:
    made = []
    short = parquet.list_keys._replace(length=(parquet.list_keys.length or 0) - 1)
    none = parquet.list_keys._replace(length=None)
    for name, keys, about, why in (
        ("list_length_short", short, "the list's trusted length is one less than it was", LENGTH),
        ("list_length_missing", none, "the list's key carries no length", "a list without a trusted length"),
    ):
        files = parquet.with_metadata(parquet.list_key_entry(keys, name))
        made.append(Twin(name, parquet.name, about, "list", why, files))

    def length(record: dict[str, Any]) -> None:
        keys = Keys.parse(record["data_file"]["key_metadata"], "")
        record["data_file"]["key_metadata"] = blob_of(keys._replace(length=(keys.length or 0) + 1))

    def version(record: dict[str, Any]) -> None:
        record["data_file"]["key_metadata"] = b"\x02" + record["data_file"]["key_metadata"][1:]

    def key(record: dict[str, Any]) -> None:
        keys = Keys.parse(record["data_file"]["key_metadata"], "")
        record["data_file"]["key_metadata"] = blob_of(keys._replace(key=flipped(keys.key, 0)))

    def aad(record: dict[str, Any]) -> None:
        keys = Keys.parse(record["data_file"]["key_metadata"], "")
        record["data_file"]["key_metadata"] = blob_of(keys._replace(aad_prefix=flipped(keys.aad_prefix, 0)))

    def none_at_all(record: dict[str, Any]) -> None:
        record["data_file"]["key_metadata"] = None

    for name, change, about, why in (
        ("data_length_changed", length, "the data files' trusted lengths are one more than they were", LENGTH),
        ("data_key_changed", key, "the data files' keys are others", TAG),
        ("data_aad_changed", aad, "the data files' AAD prefixes are others", TAG),
        ("data_key_version_unknown", version, "the data files' key metadata have version 2", "an unknown version"),
        ("data_key_lost", none_at_all, "the data files are encrypted and have no key metadata", "nobody has the key"),
    ):
        made.append(Twin(name, parquet.name, about, "data", why, parquet.with_manifest(name, change)))
    line = parquet.manifests[0]
    path = parquet.path(line["manifest_path"])
    plain = parquet.plain(path, Keys.parse(line["key_metadata"], ""))
    files = parquet.with_list("manifest_in_the_clear", lambda first: first.update(key_metadata=None))
    about = "a manifest without a key, in the clear, as Java 1.11.0 leaves them"
    why = "a plaintext file of an encrypted table, unless that is allowed"
    return [*made, Twin("manifest_in_the_clear", parquet.name, about, "manifest", why, {**files, path: plain})]
