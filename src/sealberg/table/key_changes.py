"""Changes of a table's keys alone, decided on the newest metadata when they are committed.

    AddKek        a fresh KEK, which seals the keys of later commits
    ReplaceKeks   the same KEKs, wrapped anew: each entry is removed and added in one update
    PruneKeys     without the entries that nothing needs
    DropKeys      without any key, and so without any snapshot: nothing of the table can be opened

    transaction.commit_keys(change) ──> change.on(newest metadata) ──> updates ──> one commit

If another process commits first, the change is decided again: a KEK that was pruned meanwhile does not come back, a
KEK that was rewrapped meanwhile keeps its newer bytes, and a key that a new snapshot needs stays. A change that
turns out to be empty commits nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    ValidatableTableRequirement,
)

from sealberg.keys.keyring import RingDiff
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.unneeded_keys import unneeded_keys
from sealberg.metadata.updates import key_updates

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.keys.keyring import EncryptedKey
    from sealberg.keys.manager import EncryptionSettings

    Decided = tuple[tuple[Any, ...], tuple[Any, ...]]

# The active KEK and the sequence number after which it began to seal keys: how many keys it has sealed, whatever
# snapshots have expired. A table property of sealberg's own; Java keeps it.
KEK_SINCE: Final = "sealberg.kek-since"


class AssertKeys(ValidatableTableRequirement):
    """These entries of encryption-keys are as they were when the change was decided.

    A catalog that swaps a pointer checks this on the metadata that it replaces. The REST protocol has no such
    requirement, so it is checked before the request, and not sent.

    Args:
        entries: by id.
        only: there are no other entries of this kind.
    """

    type: Literal["assert-keys"] = Field(default="assert-keys")
    entries: dict[str, Any]
    only: Literal["any", "KEKs"] | None = None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        ring = base_metadata.encryption_keys if isinstance(base_metadata, V3TableMetadata) else ()
        found = {entry.key_id: entry for entry in ring}
        changed = any(found.get(key_id) != entry for key_id, entry in self.entries.items())
        judged = {entry.key_id for entry in ring if self.only == "any" or entry.timestamp is not None}
        if changed or (self.only is not None and judged != self.entries.keys()):
            raise CommitFailedException("Requirement failed: another process has changed the table's encryption-keys")


class KeyChange(ABC):
    """A change of keys; `on` says what it is for these metadata."""

    @abstractmethod
    def on(self, metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> Decided:
        """The updates and the requirements; both empty if there is nothing to do."""


@dataclass(frozen=True)
class AddKek(KeyChange):
    """Add a new KEK, unless another process has added one since this KEK was decided on.

    Args:
        kek: wrapped by the KMS already.
        instead_of: the id of the KEK that was active then; None if there was none.
    """

    kek: EncryptedKey
    instead_of: str | None

    def on(self, metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> Decided:
        active = active_kek(metadata, settings, now_ms)
        if (None if active is None else active.key_id) != self.instead_of:
            return (), ()
        since = SetPropertiesUpdate(updates={KEK_SINCE: f"{self.kek.key_id} {metadata.last_sequence_number}"})
        keks = {entry.key_id: entry for entry in metadata.encryption_keys if entry.timestamp is not None}
        adding = key_updates(RingDiff(added=(self.kek,), removed=()))
        return (*adding, since), (AssertKeys(entries=keks, only="KEKs"),)


@dataclass(frozen=True)
class ReplaceKeks(KeyChange):
    """Replace KEKs by the same KEKs in other wrapping.

    Args:
        entries: pairs of the entry that was rewrapped, and its replacement.
        all_unchanged: no other commit has changed any key or ref, because the same transaction removes keys next.
    """

    entries: tuple[tuple[EncryptedKey, EncryptedKey], ...]
    all_unchanged: bool = False

    def on(self, metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> Decided:  # noqa: ARG002
        unchanged = [(old, new) for old, new in self.entries if metadata.encryption_keys.get(old.key_id) == old]
        if not unchanged:
            return (), ()
        diff = RingDiff(added=tuple(new for _, new in unchanged), removed=tuple(old.key_id for old, _ in unchanged))
        if self.all_unchanged:
            return key_updates(diff), _unchanged(metadata)
        return key_updates(diff), (AssertKeys(entries={old.key_id: old for old, _ in unchanged}),)


@dataclass(frozen=True)
class PruneKeys(KeyChange):
    """Remove the entries that nothing needs."""

    def on(self, metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> Decided:
        gone = unneeded_keys(metadata, settings, now_ms)
        if not gone:
            return (), ()
        return key_updates(RingDiff(added=(), removed=gone)), _unchanged(metadata)


@dataclass(frozen=True)
class DropKeys(KeyChange):
    """Remove every snapshot, every ref and every key."""

    def on(self, metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> Decided:  # noqa: ARG002
        refs = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in metadata.refs]
        ids = [snapshot.snapshot_id for snapshot in metadata.snapshots]
        snapshots = [RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids})] if ids else []
        gone = tuple(entry.key_id for entry in metadata.encryption_keys)
        updates = (*refs, *snapshots, *key_updates(RingDiff(added=(), removed=gone)))
        return (updates, _unchanged(metadata)) if updates else ((), ())


def active_kek(metadata: V3TableMetadata, settings: EncryptionSettings, now_ms: int) -> EncryptedKey | None:
    """The KEK under which the next commit seals its key; None if the next commit makes a KEK."""
    return metadata.encryption_keys.active_kek(
        now_ms, master_key_id=settings.master_key_id, lifespan_ms=settings.kek_lifespan_ms
    )


def _unchanged(metadata: V3TableMetadata) -> tuple[Any, ...]:
    """All keys and refs are as in these metadata: no other commit has used a key that is removed."""
    refs = {MAIN_BRANCH: None, **{name: ref.snapshot_id for name, ref in metadata.refs.items()}}
    heads = [AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at}) for name, at in refs.items()]
    return (AssertKeys(entries={entry.key_id: entry for entry in metadata.encryption_keys}, only="any"), *heads)
