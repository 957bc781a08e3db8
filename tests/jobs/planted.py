"""Faults to plant into a table, one each, and the code of the finding that `verify` must report.

    Fault(name, code, plant)     plant(forge) changes the table; "deep" faults need every row to be decoded

The forger has all keys, so a lie in a manifest is authentic. See forge.py for the table.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kit.tables.tables import head
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.modules import ModuleKind
from sealberg.files.seal import seal_bytes
from sealberg.format import aes_gcm
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import DAY_MS, EncryptedKey, Keyring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobs.forge import Forge

    Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Fault:
    """What is planted; `code` is the only code that verify may report."""

    name: str
    code: str
    plant: Callable[[Forge], object]
    level: Any = "full"


# -- bytes ----------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def flip_module(kind: ModuleKind, within: int = 20) -> Callable[[Forge], None]:
    """Flip a bit inside of the first module of a kind; 20 is in the ciphertext, 1 in the length, 5 in the nonce."""

    def plant(forge: Forge) -> None:
        file = forge.data()[0]
        key = KeyMetadata.decode(file.key_metadata or b"")
        with ModuleWalk(forge.parquet(), key) as walk:
            modules = (module for group, chunk in walk.footer.chunks() for module in walk.chunk(group, chunk))
            offset = next(module.offset for module in modules if module.place.kind == kind)
        flip(forge.parquet(), offset + within)

    return plant


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def cut(path: Path, count: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def plain_parquet(path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), path)


def plain_avro(path: Path) -> None:
    path.write_bytes(b"Obj\x01" + path.read_bytes()[4:])


# -- lies -----------------------------------------------------------------------------------------


def line(**values: Any) -> Callable[[Forge], None]:
    """Lie in the line of a data manifest that an earlier snapshot has added."""

    def change(lines: Records) -> None:
        _old_data_line(lines).update(
            {name: _value(value, _old_data_line(lines)[name]) for name, value in values.items()}
        )

    return lambda forge: forge.lines(change)


def _old_data_line(lines: Records) -> dict[str, Any]:
    return min((each for each in lines if each["content"] == 0), key=lambda each: each["sequence_number"])


def new_line(**values: Any) -> Callable[[Forge], None]:
    """The same for the manifest that the current snapshot has added."""

    def change(lines: Records) -> None:
        newest = max((each for each in lines if each["content"] == 0), key=lambda each: each["sequence_number"])
        newest.update({name: _value(value, newest[name]) for name, value in values.items()})

    return lambda forge: forge.lines(change)


def _value(value: Any, before: Any) -> Any:
    return value(before) if callable(value) else value


def entry(*, deletes: bool = False, avro: bool = False, **values: Any) -> Callable[[Forge], None]:
    """Lie in the first entry of a manifest: of the entry itself, or of its data file."""

    def change(entries: Records) -> None:
        for name, value in values.items():
            target = entries[0] if name in entries[0] else entries[0]["data_file"]
            target[name] = _value(value, target[name])

    return lambda forge: forge.entries(change, deletes=deletes, avro=avro)


def of_field(field_id: int, value: Any) -> Callable[[Any], Any]:
    """Another value for one field of a map."""

    def change(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**pair, "value": _value(value, pair["value"])} if pair["key"] == field_id else pair for pair in pairs]

    return change


def metadata(change: Callable[[dict[str, Any]], object]) -> Callable[[Forge], None]:
    return lambda forge: forge.document(change)


def member(name: str, value: Any) -> Callable[[Forge], None]:
    return metadata(lambda document: document.update({name: _value(value, document[name])}))


def snapshot(at: int, **values: Any) -> Callable[[Forge], None]:
    def change(document: dict[str, Any]) -> None:
        found = sorted(document["snapshots"], key=lambda each: each["sequence-number"])[at]
        for name, value in values.items():
            found[name.replace("_", "-")] = _value(value, found[name.replace("_", "-")])

    return metadata(change)


def summary(name: str) -> Callable[[Forge], None]:
    return snapshot(-1, summary=lambda before: {**before, name: str(int(before[name]) + 1)})


# -- keys -----------------------------------------------------------------------------------------


def keys(change: Callable[[Records], object]) -> Callable[[Forge], None]:
    return metadata(lambda document: change(document["encryption-keys"]))


def _kek(entries: Records) -> dict[str, Any]:
    return next(each for each in entries if "properties" in each)


def _list_key(entries: Records) -> dict[str, Any]:
    return next(each for each in entries if "properties" not in each)


def altered(chosen: Callable[[Records], dict[str, Any]]) -> Callable[[Forge], None]:
    def change(entries: Records) -> None:
        found = chosen(entries)
        raw = bytearray(base64.b64decode(found["encrypted-key-metadata"]))
        raw[-1] ^= 1
        found["encrypted-key-metadata"] = base64.b64encode(raw).decode()

    return keys(change)


def stamp(value: Callable[[int], int]) -> Callable[[Records], None]:
    def change(entries: Records) -> None:
        kek = _kek(entries)
        kek["properties"] = {"KEY_TIMESTAMP": str(value(int(kek["properties"]["KEY_TIMESTAMP"])))}

    return change


def aged(days: float) -> Callable[[Forge], None]:
    """All keys sealed anew under a KEK of that age."""

    def plant(forge: Forge) -> None:
        manager = forge.table.encryption
        assert manager is not None
        before = forge.table.metadata.encryption_keys
        old_id = next(each.key_id for each in before if each.timestamp is not None)
        made = str(int(time.time() * 1000 - days * DAY_MS))
        fresh = manager.new_kek()
        old = EncryptedKey(old_id, fresh.encrypted_key_metadata, fresh.encrypted_by_id, {"KEY_TIMESTAMP": made})
        kek = manager.kms.unwrap(fresh.encrypted_key_metadata, "hr")
        lists = [
            EncryptedKey(
                each.key_id,
                aes_gcm.seal(kek, manager.open_list_key(before, each.key_id).encode(), made.encode()),
                old_id,
            )
            for each in before
            if each.timestamp is None
        ]
        forge.document(lambda document: document.update({"encryption-keys": Keyring((old, *lists)).to_json()}))

    return plant


def second_kek(forge: Forge) -> None:
    """The key of the newest manifest list under a KEK of its own."""
    manager = forge.table.encryption
    assert manager is not None
    ring = forge.table.metadata.encryption_keys
    newest = head(forge.table)
    assert newest.key_id is not None
    key = manager.open_list_key(ring, newest.key_id)
    fresh = manager.new_kek()
    kek = manager.kms.unwrap(fresh.encrypted_key_metadata, "hr")
    sealed = aes_gcm.seal(kek, key.encode(), str(fresh.timestamp).encode())
    kept = ring.without([newest.key_id]).with_keys(fresh, EncryptedKey(newest.key_id, sealed, fresh.key_id))
    forge.document(lambda document: document.update({"encryption-keys": kept.to_json()}))


def other_kek(master: str, *, used: bool) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        manager = forge.table.encryption
        assert manager is not None
        made = manager.new_kek().to_json()
        made["encrypted-by-id"] = master
        if not used:  # not the newest, which the next commit would use
            made["properties"]["KEY_TIMESTAMP"] = str(int(made["properties"]["KEY_TIMESTAMP"]) - DAY_MS)
        forge.document(lambda document: document["encryption-keys"].append(made))

    return plant


def unused_list_key(forge: Forge) -> None:
    manager = forge.table.encryption
    assert manager is not None
    _, key = seal_bytes(b"")
    ring, _ = manager.seal_list_key(forge.table.metadata.encryption_keys, key)
    forge.document(lambda document: document.update({"encryption-keys": ring.to_json()}))


# -- the catalog and storage ----------------------------------------------------------------------


def unvouched(forge: Forge) -> None:
    forge.document(lambda document: document.update({"last-updated-ms": 1}), vouched=False)


def rolled_back(forge: Forge) -> None:
    older = forge.table.metadata.metadata_log[-1].metadata_file
    forge.sql("UPDATE iceberg_tables SET metadata_location = ?", older)


def broken_json(forge: Forge) -> None:
    forge.metadata.write_text("{")
    forge.vouch()


def put(name: str, content: bytes) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        (forge.root / "data" / name).write_bytes(content)

    return plant


def expired(forge: Forge) -> None:
    """Keys of a snapshot that is expired, in an older metadata file; the current one is as an expiry leaves it."""
    forge.table.maintenance.expire_snapshots().by_id(forge.table.metadata.snapshots[0].snapshot_id).commit()


def statistics(*, exists: bool) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        place = forge.root / "metadata" / "some.stats"
        content = b"PFA1" + bytes(30)
        if exists:
            place.write_bytes(content)
        about: dict[str, Any] = {
            "snapshot-id": forge.table.metadata.current_snapshot_id,
            "statistics-path": f"file://{place}",
            "file-size-in-bytes": len(content),
            "file-footer-size-in-bytes": 10,
            "blob-metadata": [],
        }
        forge.document(lambda document: document.update({"statistics": [about]}))

    return plant


def other_metadata(forge: Forge) -> None:
    document = json.loads(forge.metadata.read_text())
    document["table-uuid"] = "00000000-0000-4000-8000-000000000000"
    (forge.root / "metadata" / "00009-other.metadata.json").write_text(json.dumps(document))


def _double(items: Records) -> None:
    items.append(dict(items[0]))


def _without_length(blob: bytes) -> bytes:
    key = KeyMetadata.decode(blob)
    return KeyMetadata(key.encryption_key, key.aad_prefix).encode()


def _another_key(blob: bytes) -> bytes:
    key = KeyMetadata.decode(blob)
    return KeyMetadata(bytes(len(key.encryption_key)), key.aad_prefix, key.file_length).encode()


def _null_partition(lines: Records) -> None:
    _old_data_line(lines)["partitions"][0].update(lower_bound=b"y", upper_bound=b"y")


def nan_count(_: Any) -> list[dict[str, int]]:
    return [{"key": 3, "value": 1}]


def misplaced(forge: Forge) -> None:
    """The partition value of another file, for a file that has no bounds."""
    entry(partition=lambda before: {"cat": "x" if before["cat"] == "y" else "y"}, lower_bounds=None, upper_bounds=None)(
        forge
    )


PAGE, PAGE_HEADER = ModuleKind.DATA_PAGE, ModuleKind.DATA_PAGE_HEADER

FAULTS = (
    # -- Parquet
    Fault("data page", "altered", flip_module(PAGE)),
    Fault("nonce of a data page", "altered", flip_module(PAGE, 5)),
    Fault("length of a data page", "malformed", flip_module(PAGE, 3)),
    Fault("data page header", "altered", flip_module(PAGE_HEADER)),
    Fault("dictionary page", "altered", flip_module(ModuleKind.DICTIONARY_PAGE)),
    Fault("dictionary page header", "altered", flip_module(ModuleKind.DICTIONARY_PAGE_HEADER)),
    Fault("column index", "altered", flip_module(ModuleKind.COLUMN_INDEX)),
    Fault("offset index", "altered", flip_module(ModuleKind.OFFSET_INDEX)),
    Fault("Parquet footer", "altered", lambda forge: flip(forge.parquet(), -20)),
    Fault("Parquet footer length", "malformed", lambda forge: flip(forge.parquet(), -6)),
    Fault("Parquet magic at the start", "malformed", lambda forge: flip(forge.parquet(), 3)),
    Fault("Parquet magic at the end", "malformed", lambda forge: flip(forge.parquet(), -1)),
    Fault("Parquet file cut", "length", lambda forge: cut(forge.parquet())),
    Fault("Parquet file grown", "length", lambda forge: grow(forge.parquet())),
    Fault("Parquet file missing", "missing", lambda forge: forge.parquet().unlink()),
    Fault("Parquet file empty", "length", lambda forge: forge.parquet().write_bytes(b"")),
    Fault("Parquet files swapped", "length", lambda forge: swap(forge.parquet(0), forge.parquet(2))),
    # -- AGS1
    Fault("manifest list", "altered", lambda forge: flip(forge.list_file(), 100)),
    Fault("manifest list header", "malformed", lambda forge: flip(forge.list_file(), 5)),
    Fault("manifest list cut", "length", lambda forge: cut(forge.list_file())),
    Fault("manifest list missing", "missing", lambda forge: forge.list_file().unlink()),
    Fault("manifest list in plaintext", "plaintext", lambda forge: plain_avro(forge.list_file())),
    Fault("manifest", "altered", lambda forge: flip(forge.manifest(), 100)),
    Fault("manifest cut", "length", lambda forge: cut(forge.manifest(), 30)),
    Fault("manifest grown", "length", lambda forge: grow(forge.manifest())),
    Fault("manifest missing", "missing", lambda forge: forge.manifest().unlink()),
    Fault("manifest in plaintext", "plaintext", lambda forge: plain_avro(forge.manifest())),
    Fault("deletion vector", "altered", lambda forge: flip(forge.puffin(), 60)),
    Fault("deletion vector missing", "missing", lambda forge: forge.puffin().unlink()),
    Fault("deletion vector cut", "length", lambda forge: cut(forge.puffin())),
    Fault("Avro file", "altered", lambda forge: flip(forge.avro(), -1)),
    Fault("Avro file cut", "length", lambda forge: cut(forge.avro())),
    Fault("Avro file missing", "missing", lambda forge: forge.avro().unlink()),
    Fault("Avro file in plaintext", "plaintext", lambda forge: plain_avro(forge.avro())),
    Fault("Avro block size", "malformed", lambda forge: flip(forge.avro(), 4)),
    # -- keys
    Fault("list key missing", "key-missing", keys(lambda entries: entries.remove(_list_key(entries)))),
    Fault("KEK missing", "key-missing", keys(lambda entries: entries.remove(_kek(entries)))),
    Fault("key entry doubled", "metadata", keys(_double)),
    Fault("list key altered", "key-altered", altered(_list_key)),
    Fault("KEK altered", "key-altered", altered(_kek)),
    Fault("KEK timestamp altered", "key-altered", keys(stamp(lambda before: before - 1))),
    Fault("KEK of the future", "key-time", keys(stamp(lambda before: before + 9 * DAY_MS))),
    Fault("KEK without timestamp", "key-time", keys(lambda entries: _kek(entries).pop("properties"))),
    Fault("KEK past its age", "kek-age", aged(731)),
    Fault("KEK near its age", "kek-age", aged(720)),
    Fault("KEK of another master key", "key-master", other_kek("elsewhere", used=True)),
    Fault("KEK that nothing needs", "key-unused", other_kek("hr", used=False)),
    Fault("list key that nothing needs", "key-unused", unused_list_key),
    Fault("snapshot without key", "plaintext", snapshot(0, key_id=None)),
    # -- the catalog and metadata.json
    Fault("hash differs", "catalog", unvouched),
    Fault("catalog points at older metadata", "catalog", rolled_back),
    Fault("metadata.json is not JSON", "metadata", broken_json),
    Fault("tag of no snapshot", "snapshot", metadata(lambda d: d["refs"].update(t={"snapshot-id": 5, "type": "tag"}))),
    Fault("snapshot of no schema", "snapshot", snapshot(0, schema_id=9)),
    Fault("last sequence number", "sequence", member("last-sequence-number", lambda before: before - 1)),
    Fault("next row id", "row-ids", member("next-row-id", lambda before: before - 1)),
    Fault("snapshot's first row id", "row-ids", snapshot(1, first_row_id=lambda before: before + 1)),
    Fault("snapshot's added rows", "row-ids", snapshot(-1, added_rows=lambda before: before - 1)),
    Fault("summary: total records", "count", summary("total-records")),
    Fault("summary: total data files", "count", summary("total-data-files")),
    Fault("summary: total delete files", "count", summary("total-delete-files")),
    # -- lines of the manifest list
    Fault("added files count", "count", new_line(added_files_count=lambda before: before + 1)),
    Fault("added rows count", "count", line(added_rows_count=lambda before: before + 1)),
    Fault("existing files count", "count", line(existing_files_count=1)),
    Fault("existing rows count", "count", line(existing_rows_count=1)),
    Fault("deleted files count", "count", line(deleted_files_count=1)),
    Fault("deleted rows count", "count", line(deleted_rows_count=1)),
    Fault("smallest sequence number", "sequence", line(min_sequence_number=lambda before: before + 1)),
    Fault("manifest's sequence number", "sequence", line(sequence_number=lambda before: before + 1)),
    Fault("manifest's first row id", "row-ids", new_line(first_row_id=lambda before: before + 1)),
    Fault("manifest length", "size", line(manifest_length=lambda before: before + 1)),
    Fault("partition bounds", "partition", lambda forge: forge.lines(_null_partition)),
    Fault("partition spec", "entry", line(partition_spec_id=9)),
    Fault("manifest listed twice", "entry", lambda forge: forge.lines(_double)),
    Fault("manifest left out", "count", lambda forge: forge.lines(lambda lines: lines.remove(_old_data_line(lines)))),
    Fault("manifest without key", "plaintext", line(key_metadata=None)),
    Fault("manifest under another key", "altered", line(key_metadata=_another_key)),
    Fault("manifest without length", "no-length", line(key_metadata=_without_length)),
    # -- entries
    Fault("record count", "count", entry(record_count=lambda before: before + 1)),
    Fault("record count of Avro", "count", entry(avro=True, record_count=lambda before: before - 1)),
    Fault("file size", "size", entry(file_size_in_bytes=lambda before: before + 1)),
    Fault("column size", "size", entry(column_sizes=of_field(1, lambda before: before + 1))),
    Fault("value count", "count", entry(value_counts=of_field(1, lambda before: before + 1))),
    Fault("null count", "count", entry(null_value_counts=of_field(3, 7))),
    Fault("lower bound of numbers", "bounds", entry(lower_bounds=of_field(1, (38).to_bytes(8, "little")))),
    Fault("upper bound of numbers", "bounds", entry(upper_bounds=of_field(1, (21).to_bytes(8, "little")))),
    Fault("lower bound of strings", "bounds", entry(lower_bounds=of_field(2, b"n1"))),
    Fault("upper bound of strings", "bounds", entry(upper_bounds=of_field(2, b"n1"))),
    Fault("split offsets", "size", entry(split_offsets=[5])),
    Fault("partition value", "partition", entry(partition={"cat": "z"})),
    Fault("first row id", "row-ids", entry(first_row_id=3)),
    Fault("data sequence number", "sequence", entry(sequence_number=9)),
    Fault("file sequence number", "sequence", entry(file_sequence_number=9)),
    Fault("snapshot of an entry", "sequence", entry(snapshot_id=77)),
    Fault("sort order", "entry", entry(sort_order_id=9)),
    Fault("file without key", "no-key", entry(key_metadata=None)),
    Fault("file under another key", "altered", entry(key_metadata=_another_key)),
    Fault("file without length", "no-length", entry(key_metadata=_without_length)),
    Fault("deleted rows of a vector", "count", entry(deletes=True, record_count=2)),
    Fault("offset of a vector", "size", entry(deletes=True, content_offset=5)),
    Fault("data file of a vector", "entry", entry(deletes=True, referenced_data_file="file:///elsewhere")),
    Fault("NaN count", "count", entry(nan_value_counts=nan_count), "deep"),
    Fault("a row in another partition", "partition", misplaced, "deep"),
    # -- storage
    Fault("orphan", "orphan", put("lost.avro", seal_bytes(b"")[0])),
    Fault("plaintext Parquet", "plaintext", lambda forge: plain_parquet(forge.root / "data" / "copy.parquet")),
    Fault("plaintext in the place of a file", "plaintext", lambda forge: plain_parquet(forge.parquet())),
    Fault("foreign file", "foreign", put("notes.txt", b"the password is")),
    Fault("metadata of another table", "foreign", other_metadata),
    Fault("keys of expired snapshots", "old-keys", expired),
    Fault("plaintext statistics", "plaintext", statistics(exists=True)),
    Fault("statistics missing", "missing", statistics(exists=False)),
)
