"""Compares responses of a REST server with the request and with earlier responses.

    Pins      the key id of each table, as this client first saw it
    losses    parts of a commit that the response lacks: keys, key ids, the version
    orphaned  KEKs of this commit that another process has removed
    landed    whether the metadata contain a commit whose response was lost
    undoing   the updates that revert a commit
    unrestricted   refuses a table whose rows the server restricts

The server is trusted with the metadata, and there is no second record to compare them with. But the key id of a table
never changes, so a client that saw the first one notices a change. A server that does not support encryption keys drops
them from its first response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)

from sealberg.errors import TrustError, UnsupportedError
from sealberg.keys.file_key import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata
from sealberg.metadata.updates import AddEncryptionKeyUpdate, added_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.keys.keyring import EncryptedKey


RESTRICTIONS: Final = "read-restrictions"


class Pins:
    """The key id and key length of every table that this client has seen."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._seen: dict[UUID, tuple[str, str | None]] = {}

    def check(self, table: str, metadata: TableMetadata) -> None:
        """Refuse a table whose key id differs from the one that this client saw first or that its KEKs name."""
        key_id = metadata.properties.get(KEY_ID_PROPERTY)
        seen = self._seen.get(metadata.table_uuid)
        now = None if key_id is None else (key_id, metadata.properties.get(KEY_LENGTH_PROPERTY))
        if seen is not None and now != seen:
            raise TrustError(
                f"{self._server} says that the key id of table {table} is {_describe(now)}, and it was "
                f"{_describe(seen)}: a key id never changes, so somebody has changed the metadata"
            )
        if isinstance(metadata, V3TableMetadata):
            self._check_ring(table, key_id, metadata)
        if now is not None:
            self._seen[metadata.table_uuid] = now

    def _check_ring(self, table: str, key_id: str | None, metadata: V3TableMetadata) -> None:
        ring = metadata.encryption_keys
        if key_id is None:
            if len(ring) or any(snapshot.key_id for snapshot in metadata.snapshots):
                raise TrustError(
                    f"{self._server} says that table {table} has encryption keys and no {KEY_ID_PROPERTY}: "
                    "the property is never removed, so somebody has changed the metadata"
                )
            return
        for kek in (entry for entry in ring if entry.timestamp is not None):
            if kek.encrypted_by_id != key_id:
                raise TrustError(
                    f"{self._server} says that the key id of table {table} is {key_id}, but the table's KEK "
                    f"{kek.key_id} is wrapped by {kek.encrypted_by_id}: somebody has changed the metadata"
                )


def _describe(keys: tuple[str, str | None] | None) -> str:
    if keys is None:
        return "none"
    return keys[0] if keys[1] is None else f"{keys[0]} with keys of {keys[1]} bytes"


def losses(expected: V3TableMetadata, updates: Sequence[TableUpdate], raw: dict[str, Any]) -> Iterator[str]:
    """The parts of a commit that the metadata of a response lack. `expected` are the metadata after the commit."""
    if raw.get("format-version") != FORMAT_VERSION:
        yield f"format version 3 (it made version {raw.get('format-version')})"
        return
    found = V3TableMetadata.from_raw(raw)
    if found.table_uuid != expected.table_uuid:
        yield f"the table {expected.table_uuid} (it is {found.table_uuid} now)"
        return
    for name in (KEY_ID_PROPERTY, KEY_LENGTH_PROPERTY):
        if found.properties.get(name) != expected.properties.get(name):
            yield f"{name} {expected.properties.get(name)} (it says {found.properties.get(name)})"
    for update in updates:
        if isinstance(update, AddEncryptionKeyUpdate):
            key = update.encryption_key
            if found.encryption_keys.get(key.key_id) != key and key.key_id in expected.encryption_keys:
                yield f"the encryption key {key.key_id}"
        elif isinstance(update, AddSnapshotUpdate):
            yield from _snapshot_losses(expected, found, update.snapshot.snapshot_id)


def _snapshot_losses(expected: V3TableMetadata, found: V3TableMetadata, snapshot_id: int) -> Iterator[str]:
    sent, actual = expected.snapshot_by_id(snapshot_id), found.snapshot_by_id(snapshot_id)
    if sent is None:
        return  # added and removed in one commit
    if actual is None:
        yield f"the snapshot {snapshot_id}"
    elif getattr(actual, "key_id", None) != getattr(sent, "key_id", None):
        yield f"the key-id of snapshot {snapshot_id}"
    elif actual.manifest_list != sent.manifest_list:
        yield f"the manifest list of snapshot {snapshot_id}"


def orphaned(
    expected: V3TableMetadata, updates: Sequence[TableUpdate], raw: dict[str, Any]
) -> tuple[EncryptedKey, ...]:
    """The KEKs of this commit that another process removed before it: no requirement of a commit covers keys."""
    found, ring = V3TableMetadata.from_raw(raw), expected.encryption_keys
    added = {key.key_id for key in added_keys(updates)}
    keks = {key.encrypted_by_id for key in ring if key.key_id in added}
    return tuple(kek for kek in ring if kek.key_id in keks and kek.key_id not in found.encryption_keys)


def landed(
    before: V3TableMetadata, expected: V3TableMetadata, updates: Sequence[TableUpdate], raw: dict[str, Any]
) -> bool:
    """Whether the metadata of the server contain this commit: by snapshot id, or without snapshots by their state."""
    if raw.get("format-version") != FORMAT_VERSION:
        return False
    found = V3TableMetadata.from_raw(raw)
    added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
    if added:
        return all(found.snapshot_by_id(each) is not None for each in added)
    return _state(found) == _state(expected) != _state(before)


def undoing(
    before: V3TableMetadata, updates: Sequence[TableUpdate]
) -> tuple[list[TableRequirement], list[TableUpdate], set[int]]:
    """Requirements and updates that revert the branches, and the ids of the snapshots that they remove."""
    added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    needs: list[TableRequirement] = [AssertTableUUID(uuid=before.table_uuid)]
    back: list[TableUpdate] = []
    moved = {each.ref_name: each for each in updates if isinstance(each, SetSnapshotRefUpdate)}
    for name, update in moved.items():
        needs.append(AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": update.snapshot_id}))
        ref = before.refs.get(name)
        old = None if ref is None else update.model_copy(update={"snapshot_id": ref.snapshot_id})
        back.append(old or RemoveSnapshotRefUpdate.model_validate({"ref-name": name}))
    back.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(added)}))
    return needs, back, added


def _state(metadata: V3TableMetadata) -> tuple[Any, ...]:
    return (
        metadata.table_uuid,
        metadata.location,
        metadata.properties,
        metadata.schema(),
        metadata.spec(),
        metadata.sort_order(),
        metadata.refs,
        {snapshot.snapshot_id for snapshot in metadata.snapshots},
        {(key.key_id, key.encrypted_key_metadata) for key in metadata.encryption_keys},
    )


def unrestricted(server: str, table: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, unless it says that a reader must leave out rows or mask columns: a client that dropped the
    restrictions would show all of them."""
    found = answer.get(RESTRICTIONS)
    named = found.items() if isinstance(found, dict) else [("", found)]
    wanted = sorted(name for name, value in named if not (value is None or value in ([], {})))
    if not wanted:
        return answer
    raise UnsupportedError(
        f"{server} restricts what a reader may see of table {table} ({RESTRICTIONS}: "
        f"{', '.join(name[:100] for name in wanted) or 'not an object'}), and sealberg enforces no row filters and "
        "masks: read the table with an engine that does, or as a user whom the server does not restrict"
    )
