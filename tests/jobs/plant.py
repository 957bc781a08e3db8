"""What a forger does to a table: bytes, lies in metadata, keys, files in storage. planted.py lists the faults.

The forger has all keys, so a lie in a manifest is authentic. See forge.py for the table.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kit.tables.tables import head
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.seal import seal_bytes
from sealberg.format import aes_gcm
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import DAY_MS, EncryptedKey, Keyring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobs.forge import Forge
    from sealberg.files.parquet.modules import ModuleKind

    Records = list[dict[str, Any]]


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
