"""States that a writer with keys forges, or somebody in storage: each is one change to a sound table.

The faults of planted.py damage a table; these leave it readable, and it says something that is not true.
"""

from __future__ import annotations

import base64
import json
import shutil
from typing import TYPE_CHECKING, Any, Final

from jobs.forge import opened
from jobs.plant import _list_key, entry, keys, line, member, metadata, new_line, of_field, snapshot
from jobs.planted import Fault
from kit.tables.tables import head, local
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.forge import Forge, Records

FUTURE: Final = 4_070_908_800_000  # 2099
INT: Final = (7).to_bytes(8, "little")


def _aad(prefix: bytes | None, secret: bytes | None = None) -> Callable[[Forge], None]:
    """The newest data manifest sealed anew under another AAD prefix, or under another key, too."""

    def plant(forge: Forge) -> None:
        def change(lines: Records) -> None:
            found = _newest(lines)
            path, key = local(found["manifest_path"]), KeyMetadata.decode(found["key_metadata"])
            sealed = forge.sealed(path, opened(path, key), KeyMetadata(secret or key.encryption_key, prefix))
            found["key_metadata"], found["manifest_length"] = sealed.encode(), sealed.file_length

        forge.lines(change)

    return plant


def _newest(lines: Records) -> dict[str, Any]:
    return max((each for each in lines if each["content"] == 0), key=lambda each: each["sequence_number"])


def _manifests_share_a_key(forge: Forge) -> None:
    def change(lines: Records) -> None:
        first = min((each for each in lines if each["content"] == 0), key=lambda each: each["sequence_number"])
        found, key = _newest(lines), KeyMetadata.decode(first["key_metadata"])
        path = local(found["manifest_path"])
        sealed = forge.sealed(path, opened(path, KeyMetadata.decode(found["key_metadata"])), key)
        found["key_metadata"], found["manifest_length"] = sealed.encode(), sealed.file_length

    forge.lines(change)


def _files_share_a_key(forge: Forge) -> None:
    """Two Avro files under one key and AAD prefix."""

    def change(entries: Records) -> None:
        one, other = (each["data_file"] for each in entries[:2])
        path, key = local(other["file_path"]), KeyMetadata.decode(one["key_metadata"])
        sealed = forge.sealed(path, opened(path, KeyMetadata.decode(other["key_metadata"])), key)
        other["key_metadata"], other["file_size_in_bytes"] = sealed.encode(), sealed.file_length

    forge.entries(change, avro=True)


def _longer_keys_wanted(forge: Forge) -> None:
    """In every metadata file, so that the table has never wanted other keys."""
    wanted = {"encryption.data-key-length": "32"}
    for place in sorted(forge.metadata.parent.glob("*.metadata.json")):
        document = json.loads(place.read_text())
        document["properties"].update(wanted)
        place.write_text(json.dumps(document))
    forge.sql("UPDATE sealberg_trust SET key_length = 32")
    forge.document(lambda document: document["properties"].update(wanted))


def _key_in_the_clear(name: str, spell: Callable[[bytes], str]) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        manager, snapshot_ = forge.table.encryption, head(forge.table)
        assert manager is not None
        assert snapshot_.key_id is not None
        key = manager.open_list_key(forge.table.metadata.encryption_keys, snapshot_.key_id)

        def change(document: dict[str, Any]) -> None:
            text = spell(key.encryption_key)
            if name == "entry":
                _list_key(document["encryption-keys"])["properties"] = {"note": text}
            elif name == "member":
                _list_key(document["encryption-keys"])["plain-key"] = text
            elif name == "kek":
                kek = next(each for each in document["encryption-keys"] if "properties" in each)
                kek["properties"]["note"] = text
            elif name == "properties":
                document["properties"]["note"] = text
            else:
                document["snapshots"][-1]["summary"]["note"] = text

        forge.document(change)

    return plant


def _summary(name: str, value: Any) -> Callable[[Forge], None]:
    def change(before: dict[str, str]) -> dict[str, str]:
        return {**before, name: value(before.get(name, "0")) if callable(value) else value}

    return snapshot(-1, summary=change)


def _more(text: str) -> str:
    return str(int(text) + 1)


def _log(change: Callable[[dict[str, Any]], object]) -> Callable[[Forge], None]:
    return metadata(change)


def _rolled_back(document: dict[str, Any]) -> None:
    older = sorted(document["snapshots"], key=lambda each: each["sequence-number"])[-2]["snapshot-id"]
    document["current-snapshot-id"] = older
    document["refs"]["main"]["snapshot-id"] = older


def _exchanged(document: dict[str, Any]) -> None:
    fields = document["schemas"][0]["fields"]
    fields[1]["name"], fields[3]["name"] = fields[3]["name"], fields[1]["name"]


def _summaries(**values: Any) -> Callable[[Forge], None]:
    def change(lines: Records) -> None:
        _newest(lines)["partitions"][0].update(values)

    return lambda forge: forge.lines(change)


def _existing(entries: Records) -> None:
    """With the numbers that an existing entry must have."""
    first = entries[0]
    first["status"] = 0
    first["snapshot_id"] = entries[1]["snapshot_id"]


def _elsewhere(forge: Forge) -> None:
    def change(entries: Records) -> None:
        file = entries[0]["data_file"]
        path = local(file["file_path"])
        copy = forge.root.parent / "elsewhere" / path.name
        copy.parent.mkdir()
        shutil.move(path, copy)
        file["file_path"] = f"file://{copy}"

    forge.entries(change)


def _added(name: str, field_id: int, value: Any) -> Callable[[Forge], None]:
    def change(entries: Records) -> None:
        file = entries[0]["data_file"]
        file[name] = [*(file[name] or []), {"key": field_id, "value": value}]

    return lambda forge: forge.entries(change)


def _only(**bounds: bytes) -> Callable[[Forge], None]:
    """Bounds of a column without values."""

    def change(entries: Records) -> None:
        for name, bound in bounds.items():
            entries[0]["data_file"][f"{name}_bounds"] = [{"key": 1, "value": bound}]
            entries[0]["data_file"]["null_value_counts"] = []

    return lambda forge: forge.entries(change)


def _null_partition(*, avro: bool) -> Callable[[Forge], None]:
    return entry(partition={"cat": None}, lower_bounds=None, upper_bounds=None, avro=avro)


def _older(change: Callable[[dict[str, Any]], object]) -> Callable[[Forge], None]:
    """An older metadata file of the log says something else."""

    def plant(forge: Forge) -> None:
        place = local(forge.table.metadata.metadata_log[-1].metadata_file)
        document = json.loads(place.read_text())
        change(document)
        place.write_text(json.dumps(document))

    return plant


def _cycle(forge: Forge) -> None:
    newest = max(forge.table.metadata.snapshots, key=lambda each: each.sequence_number or 0).snapshot_id
    forge.document(
        lambda document: min(document["snapshots"], key=lambda each: each["sequence-number"]).update(
            {"parent-snapshot-id": newest}
        )
    )


def _long(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _pair(field_id: int, value: Any) -> dict[str, Any]:
    return {"key": field_id, "value": value}


def _b64(key: bytes) -> str:
    return base64.b64encode(key).decode()


FORGED = (
    # -- keys
    Fault("two data files under one key", "key-reused", _files_share_a_key),
    Fault("two manifests under one key", "key-reused", _manifests_share_a_key),
    Fault("keys shorter than the table wants", "key-weak", _longer_keys_wanted),
    Fault("a manifest without AAD prefix", "key-weak", _aad(None)),
    Fault("a manifest with a short AAD prefix and a zero key", "key-weak", _aad(b"\0", bytes(16))),
    Fault("a manifest under a key of one byte repeated", "key-weak", _aad(b"p" * 16, b"k" * 16)),
    Fault("a raw key in the properties of an entry", "key-exposed", _key_in_the_clear("entry", _b64)),
    Fault("a raw key in a member of an entry", "key-exposed", _key_in_the_clear("member", bytes.hex)),
    Fault("a raw key in the properties of a KEK", "key-exposed", _key_in_the_clear("kek", bytes.hex)),
    Fault("a raw key in the properties of the table", "key-exposed", _key_in_the_clear("properties", _b64)),
    Fault("a raw key in a summary", "key-exposed", _key_in_the_clear("summary", bytes.hex)),
    Fault(
        "KEK timestamp with a plus sign",
        "key-time",
        keys(lambda entries: next(e for e in entries if "properties" in e)["properties"].update(KEY_TIMESTAMP="+1")),
    ),
    # -- metadata.json
    Fault("parent does not exist", "snapshot", snapshot(-1, parent_snapshot_id=77)),
    Fault("parent is the child", "snapshot", _cycle),
    Fault("snapshot of 2099", "snapshot", snapshot(-1, timestamp_ms=FUTURE)),
    Fault("updated in 2099", "metadata", member("last-updated-ms", FUTURE)),
    Fault("operation delete", "snapshot", _summary("operation", "delete")),
    Fault("operation replace", "snapshot", _summary("operation", "replace")),
    Fault("summary: a partition", "plaintext", _summary("partitions.name=Ann", "added-records=1")),
    Fault("summary: total files size", "count", _summary("total-files-size", _more)),
    Fault("summary: added records", "count", _summary("added-records", _more)),
    Fault("summary: added data files", "count", _summary("added-data-files", _more)),
    Fault("summary: added files size", "count", _summary("added-files-size", _more)),
    Fault("summary: deleted records", "count", _summary("deleted-records", "5")),
    Fault("summary: total position deletes", "count", _summary("total-position-deletes", _more)),
    Fault("summary: total equality deletes", "count", _summary("total-equality-deletes", "3")),
    Fault("log names no snapshot", "snapshot", metadata(lambda d: d["snapshot-log"][0].update({"snapshot-id": 5}))),
    Fault(
        "log names another snapshot",
        "snapshot",
        metadata(lambda d: d["snapshot-log"][0].update({"snapshot-id": d["snapshot-log"][1]["snapshot-id"]})),
    ),
    Fault("log ends before the current snapshot", "snapshot", metadata(lambda d: d["snapshot-log"].pop())),
    Fault(
        "metadata log names a file elsewhere",
        "elsewhere",
        metadata(lambda d: d["metadata-log"][0].update({"metadata-file": "file:///elsewhere/1.metadata.json"})),
    ),
    Fault("two columns exchange their names", "past", metadata(_exchanged)),
    Fault("rolled back, but not in the log", "snapshot", metadata(_rolled_back)),
    Fault("next row id far above", "row-ids", member("next-row-id", lambda before: before + 1_000_000)),
    Fault("last column id too low", "metadata", member("last-column-id", 3)),
    Fault("last partition id too low", "metadata", member("last-partition-id", 999)),
    Fault("older file: another schema", "past", _older(_exchanged)),
    Fault("older file: another snapshot", "past", _older(lambda d: d["snapshots"][0].update({"manifest-list": "x"}))),
    Fault("older file: another spec", "past", _older(lambda d: d["partition-specs"][0]["fields"][0].update(name="z"))),
    Fault(
        "older file: another key",
        "past",
        _older(lambda d: _list_key(d["encryption-keys"]).update({"encrypted-key-metadata": "AAAA"})),
    ),
    # -- lines
    Fault("line: content deletes", "entry", line(content=1)),
    Fault("line: another snapshot", "entry", line(added_snapshot_id=77)),
    Fault("line: no partition summaries", "partition", new_line(partitions=None)),
    Fault("line: no bounds of a partition", "partition", _summaries(lower_bound=None)),
    Fault("line: contains NaN", "partition", _summaries(contains_nan=True)),
    # -- entries
    Fault("entry: status existing", "count", entry(status=0)),
    Fault("entry: status deleted", "count", entry(status=2)),
    Fault("entry: equality deletes", "entry", entry(content=2, equality_ids=[1])),
    Fault("entry: bounds of no column", "bounds", _added("lower_bounds", 99, INT)),
    Fault("entry: value counts of no column", "count", _added("value_counts", 99, 10)),
    Fault("entry: sizes of no column", "size", _added("column_sizes", 99, 10)),
    Fault("entry: null counts of no column", "count", _added("null_value_counts", 99, 0)),
    Fault(
        "entry: lower bound of a double too high",
        "bounds",
        entry(lower_bounds=of_field(3, bytes.fromhex("000000000000f07f"))),
    ),
    Fault(
        "entry: upper bound of a double NaN",
        "bounds",
        entry(upper_bounds=of_field(3, bytes.fromhex("000000000000f87f"))),
    ),
    Fault("entry: bound too short", "bounds", entry(lower_bounds=of_field(1, b"\0\0\0"))),
    Fault("entry: bound too long", "bounds", entry(upper_bounds=of_field(1, b"\x7f" * 9))),
    Fault("entry: bound that is no text", "bounds", entry(lower_bounds=of_field(2, b"\x00\xff"))),
    Fault(
        "entry: lower bound above the upper",
        "bounds",
        _only(lower=(90).to_bytes(8, "little"), upper=(5).to_bytes(8, "little")),
    ),
    Fault("entry: negative null count", "count", entry(null_value_counts=of_field(1, -1))),
    Fault(
        "entry of a vector: size one less",
        "size",
        entry(deletes=True, content_size_in_bytes=lambda before: before - 1),
    ),
    Fault("entry of a vector: file size", "entry", entry(deletes=True, file_size_in_bytes=lambda before: before - 1)),
    Fault("entry of Avro: lower bound", "bounds", entry(avro=True, lower_bounds=[_pair(1, _long(59))])),
    Fault("entry of Avro: upper bound", "bounds", entry(avro=True, upper_bounds=[_pair(1, _long(41))])),
    Fault("entry of Avro: null count", "count", entry(avro=True, null_value_counts=[_pair(3, 0)])),
    Fault("entry of Avro: null partition", "partition", _null_partition(avro=True)),
    Fault("entry: null partition", "partition", _null_partition(avro=False)),
    Fault(
        "entry: another partition, without bounds",
        "partition",
        entry(
            partition=lambda before: {"cat": "x" if before["cat"] == "y" else "y"},
            lower_bounds=None,
            upper_bounds=None,
        ),
    ),
    Fault("a data file outside of the table", "elsewhere", _elsewhere),
)
