"""The tree of a table's keys, from table metadata alone and without a key.

    master key ── KEK ── list key ── snapshot, or statistics file of a snapshot
                             └────── unreferenced

The tree shows which key opens which entry, and which entries have no path to a master key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sealberg.keys.keyring import EncryptedKey, Keyring


@dataclass(frozen=True, slots=True)
class ListKey:
    """The key entry of a manifest list or of a statistics file, and what needs the key (nothing after a failed commit).

    Attributes:
        snapshots: the snapshots whose manifest list the key opens.
        statistics: the snapshots whose statistics file the key opens.
    """

    key_id: str
    snapshots: tuple[int, ...]
    statistics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kek:
    """A KEK entry and the manifest-list keys that are sealed under the KEK.

    Attributes:
        java_finds_timestamp: otherwise no new key is sealed under the KEK.
    """

    key_id: str
    made_ms: int | None
    wrapped_length: int
    list_keys: tuple[ListKey, ...]
    java_finds_timestamp: bool


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A master key in the KMS, of which only the id is known."""

    key_id: str
    keks: tuple[Kek, ...]


@dataclass(frozen=True, slots=True)
class KeyTree:
    """All master keys with the keys below them, and a problem for each snapshot or entry without a path to one."""

    master_keys: tuple[MasterKey, ...]
    problems: tuple[str, ...]


def key_tree(
    ring: Keyring, snapshots: Sequence[Mapping[str, Any]], statistics: Sequence[Mapping[str, Any]] = ()
) -> KeyTree:
    """The tree for the `encryption-keys`, the `snapshots` and the statistics files of a table, as parsed JSON."""
    named: dict[str, list[int]] = {}
    opened: dict[str, list[int]] = {}
    by_path = {entry.properties["statistics-path"]: entry.key_id for entry in ring if _names_statistics(entry)}
    for file in statistics:
        key_id = file.get("key-id") or by_path.get(file.get("statistics-path", ""))
        if key_id is not None:
            opened.setdefault(key_id, []).append(file["snapshot-id"])
    problems = []
    for snapshot in snapshots:
        key_id = snapshot.get("key-id")
        if key_id is None:
            problems.append(f"snapshot {snapshot['snapshot-id']} has no key-id: its manifest list is not encrypted")
        elif key_id not in ring:
            problems.append(f"snapshot {snapshot['snapshot-id']} names the key {key_id}, not found in encryption-keys")
        else:
            named.setdefault(key_id, []).append(snapshot["snapshot-id"])
    below: dict[str, list[EncryptedKey]] = {}
    for entry in ring:
        if entry.encrypted_by_id is None:
            problems.append(f"key {entry.key_id} has no encrypted-by-id")
        else:
            below.setdefault(entry.encrypted_by_id, []).append(entry)

    def kek(entry: EncryptedKey) -> Kek:
        lists = (
            ListKey(key.key_id, tuple(named.get(key.key_id, ())), tuple(opened.get(key.key_id, ())))
            for key in below.get(entry.key_id, ())
        )
        length = len(entry.encrypted_key_metadata)
        return Kek(entry.key_id, entry.timestamp_ms, length, tuple(lists), entry.java_finds_timestamp)

    masters = tuple(
        MasterKey(master, tuple(kek(entry) for entry in entries))
        for master, entries in below.items()
        if master not in ring
    )
    for master in masters:
        problems += [
            f"snapshot {snapshot} names the KEK {top.key_id}, expected a manifest-list key"
            if top.made_ms is not None
            else f"key {top.key_id} of snapshot {snapshot}: its KEK {master.key_id} is not found in encryption-keys"
            for top in master.keks
            for snapshot in named.get(top.key_id, ())
        ]
    return KeyTree(masters, tuple(problems))


def _names_statistics(entry: EncryptedKey) -> bool:
    """The key of a statistics file names its file."""
    return "statistics-path" in entry.properties
