"""Publishes a staged snapshot: `table.manage_snapshots().cherrypick(id)` and `.publish_changes(wap_id)`.

    the parent of the snapshot is the current snapshot ──> fast-forward: main points at the snapshot
    the snapshot appended files                        ──> replay: the same files in a new snapshot of main
    the snapshot replaced partitions                   ──> replay, if no later snapshot added files to the partitions
    any other snapshot                                 ──> refused

The rules and the messages are those of Iceberg Java's CherryPickOperation and WapUtil. Each attempt to commit chooses
again between fast-forward and replay. A replay keeps the keys of the data files, which are in their manifest entries;
the new manifests and the new manifest list get keys of their own.

An expiry of the staged snapshot deletes its files, so a publication is committed only while the snapshot is there:
AssertSnapshot. Java has no such requirement, and publishes files that an expiry at the same time has deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, ancestors_of
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    ValidatableTableRequirement,
)
from pyiceberg.table.update.snapshot import ManageSnapshots

from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_cache import copy_of
from sealberg.write.conflicts import history
from sealberg.write.snapshot_builder import FileChanges, retention
from sealberg.write.snapshot_summary import REPLACE_PARTITIONS, partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.transaction import EncryptedTransaction

STAGED_WAP_ID: Final = "wap.id"
PUBLISHED_WAP_ID: Final = "published-wap-id"
SOURCE_SNAPSHOT_ID: Final = "source-snapshot-id"


class EncryptedManageSnapshots(ManageSnapshots):
    """PyIceberg's ManageSnapshots, with Java's `cherrypick` and its Spark procedure `publish_changes`."""

    def __init__(self, transaction: EncryptedTransaction) -> None:
        super().__init__(transaction)
        self._change = transaction

    def __enter__(self) -> EncryptedManageSnapshots:
        return self

    def cherrypick(self, snapshot_id: int) -> EncryptedManageSnapshots:
        """Apply the changes of one snapshot to main; `commit()` publishes them.

        Args:
            snapshot_id: a snapshot that appended rows, that replaced partitions, or whose parent is current.

        Raises:
            ValidationException: the snapshot is unknown, was published already, or can no longer be applied.
        """
        self._commit_if_ref_updates_exist()
        if not self._change.staged_updates:
            self._change.target.refresh()
        self._change.stage_pick(CherryPick.of(snapshot_id, self._change.table_metadata, self._change.io))
        return self

    def publish_changes(self, wap_id: str) -> EncryptedManageSnapshots:
        """Cherry-pick the one snapshot that was staged with this `spark.wap.id`."""
        if not self._change.staged_updates:
            self._change.target.refresh()
        found = [
            snapshot
            for snapshot in self._change.table_metadata.snapshots
            if _summary(snapshot, STAGED_WAP_ID) == wap_id
        ]
        if len(found) > 1:
            raise ValidationException(
                f"Cannot apply non-unique WAP ID. Found multiple snapshots with WAP ID '{wap_id}': "
                f"call cherrypick with one of the snapshot ids {', '.join(str(each.snapshot_id) for each in found)}"
            )
        if not found:
            raise ValidationException(f"Cannot apply unknown WAP ID '{wap_id}'")
        return self.cherrypick(found[0].snapshot_id)

    def fast_forward(self, branch: str, to: str) -> EncryptedManageSnapshots:
        """Move a branch forward to the head of another ref, or create the branch there; `commit()` publishes it.

        Raises:
            ValidationException: a ref that does not exist, a tag, or a branch that is no ancestor of the ref.
        """
        self._commit_if_ref_updates_exist()
        if not self._change.staged_updates:
            self._change.target.refresh()
        metadata = self._change.table_metadata
        target, ref = metadata.refs.get(to), metadata.refs.get(branch)
        if target is None:
            raise ValidationException(f"Ref does not exist: {to}")
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise ValidationException(f"Ref {branch} is a tag not a branch")
        before = ref.snapshot_id if ref is not None else None
        history_of_target = ancestors_of(metadata.snapshot_by_id(target.snapshot_id), metadata)
        if before is not None and before not in {each.snapshot_id for each in history_of_target}:
            raise ValidationException(f"Cannot fast-forward: {branch} is not an ancestor of {to}")
        if before != target.snapshot_id:
            self._change.stage(*_moved(metadata, branch, target.snapshot_id, before))
        return self


class AssertSnapshot(ValidatableTableRequirement):
    """The table still has this snapshot, whose files the commit publishes.

    A catalog that swaps a pointer checks this on the metadata that it replaces. The REST protocol has no such
    requirement; `updates` make the server check it, because no ref can be set to a snapshot that is gone.
    """

    type: Literal["assert-snapshot"] = Field(default="assert-snapshot")
    snapshot_id: int = Field(alias="snapshot-id")

    @classmethod
    def of(cls, snapshot_id: int) -> AssertSnapshot:
        return cls.model_validate({"snapshot-id": snapshot_id})

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is None or base_metadata.snapshot_by_id(self.snapshot_id) is None:
            raise CommitFailedException(f"Requirement failed: snapshot {self.snapshot_id} was expired meanwhile")

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """A tag on the snapshot, and its removal in the same commit."""
        name = f"sealberg-cherrypick-{self.snapshot_id}"
        tag = {"ref-name": name, "type": SnapshotRefType.TAG, "snapshot-id": self.snapshot_id}
        return SetSnapshotRefUpdate.model_validate(tag), RemoveSnapshotRefUpdate.model_validate({"ref-name": name})


@dataclass(frozen=True)
class CherryPick:
    """A step of a transaction: one snapshot applied to main.

    Args:
        snapshot_id, parent_id: the snapshot, and its parent.
        replay: the changes of the snapshot as changes to main; None if only a fast-forward can apply them.
    """

    snapshot_id: int
    parent_id: int | None
    replay: FileChanges | None

    @classmethod
    def of(cls, snapshot_id: int, metadata: V3TableMetadata, io: FileIO) -> CherryPick:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise ValidationException(f"Cannot cherry-pick unknown snapshot ID: {snapshot_id}")
        pick = cls(snapshot_id, snapshot.parent_snapshot_id, None)
        replaces = _summary(snapshot, REPLACE_PARTITIONS) == "true"
        operation = snapshot.summary.operation if snapshot.summary is not None else None
        if operation != Operation.APPEND and not (operation == Operation.OVERWRITE and replaces):
            pick.refuse_unless_fast_forward(metadata)
            return pick
        if operation == Operation.OVERWRITE and not _is_ancestor(metadata, pick.parent_id):
            raise ValidationException(
                f"Cannot cherry-pick overwrite not based on an ancestor of the current state: {snapshot_id}"
            )
        wap_id = _unpublished_wap_id(metadata, snapshot)
        files = list(_files_of(snapshot, io))
        added = tuple(_new(entry) for entry in files if entry.status == ManifestEntryStatus.ADDED)
        removed = tuple(_file(entry) for entry in files if entry.status == ManifestEntryStatus.DELETED)
        changes = FileChanges(
            added=added,
            removed=removed if operation == Operation.OVERWRITE else (),
            operation=operation,
            properties={
                **({} if wap_id is None else {PUBLISHED_WAP_ID: wap_id}),
                SOURCE_SNAPSHOT_ID: str(snapshot_id),
            },
            schema=metadata.schema(),
            foreign=True,  # the files belong to the staged snapshot, and are not deleted if this commit fails
            snapshot_id=metadata.new_snapshot_id(),
        )
        return replace(pick, replay=changes)

    def on(
        self, metadata: V3TableMetadata, io: FileIO
    ) -> FileChanges | tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        """What this attempt commits, with AssertSnapshot: updates that move main, or the changes of a new snapshot."""
        self._known(metadata)
        if self.is_fast_forward(metadata):
            return self._fast_forward(metadata)
        if self.replay is None:
            self.refuse_unless_fast_forward(metadata)
        assert self.replay is not None
        self._validate(metadata, io)
        return replace(self.replay, removed_deletes=tuple(_vectors(self.replay, metadata, io)))

    def is_fast_forward(self, metadata: V3TableMetadata) -> bool:
        current = metadata.current_snapshot()
        return self.parent_id == (current.snapshot_id if current is not None else None)

    def landed(self, metadata: V3TableMetadata) -> bool:
        """Whether an attempt whose response was lost has published the snapshot."""
        replayed = self.replay is not None and metadata.snapshot_by_id(self.replay.snapshot_id or 0) is not None
        return replayed or metadata.current_snapshot_id == self.snapshot_id

    def refuse_unless_fast_forward(self, metadata: V3TableMetadata) -> None:
        if not self.is_fast_forward(metadata):
            raise ValidationException(
                f"Cannot cherry-pick snapshot {self.snapshot_id}: not append, dynamic overwrite, or fast-forward"
            )

    def _fast_forward(self, metadata: V3TableMetadata) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        return _moved(metadata, MAIN_BRANCH, self.snapshot_id, self.parent_id)

    def _validate(self, metadata: V3TableMetadata, io: FileIO) -> None:
        """Check that the newest metadata allow a replay."""
        for ancestor in ancestors_of(metadata.current_snapshot(), metadata):
            if ancestor.snapshot_id == self.snapshot_id:
                raise ValidationException(f"Cannot cherrypick snapshot {self.snapshot_id}: already an ancestor")
            if _summary(ancestor, SOURCE_SNAPSHOT_ID) == str(self.snapshot_id):
                raise ValidationException(
                    f"Cannot cherrypick snapshot {self.snapshot_id}: already picked to create ancestor "
                    f"{ancestor.snapshot_id}"
                )
        _unpublished_wap_id(metadata, self._known(metadata))
        assert self.replay is not None
        if self.replay.operation == Operation.OVERWRITE:
            self._validate_partitions(metadata, io)

    def _known(self, metadata: V3TableMetadata) -> Snapshot:
        snapshot = metadata.snapshot_by_id(self.snapshot_id)
        if snapshot is None:
            raise ValidationException(f"Cannot cherry-pick unknown snapshot ID: {self.snapshot_id}")
        return snapshot

    def _validate_partitions(self, metadata: V3TableMetadata, io: FileIO) -> None:
        head = metadata.current_snapshot()
        if head is None:
            return
        if not _is_ancestor(metadata, self.parent_id):
            raise ValidationException(
                f"Cannot cherry-pick overwrite, based on non-ancestor of the current state: {self.parent_id}"
            )
        assert self.replay is not None
        replaced = {partition_of(file) for file in self.replay.added}
        for snapshot in history(metadata, head, self.parent_id):
            for entry in _files_of(snapshot, io):
                if entry.status == ManifestEntryStatus.ADDED and partition_of(_file(entry)) in replaced:
                    # Java names the partition. Its values are data of an encrypted table, so the file is named instead.
                    raise ValidationException(
                        "Cannot cherry-pick replace partitions with changed partition: "
                        f"{_file(entry).file_path!s} was added by snapshot {snapshot.snapshot_id}"
                    )


def _files_of(snapshot: Snapshot, io: FileIO) -> Iterator[ManifestEntry]:
    """The data files that this snapshot added or removed."""
    for manifest in snapshot.manifests(io):
        assert isinstance(manifest, ManifestFileV3)
        if manifest.content != ManifestContent.DATA or manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.shared_entries(io):
            if entry.snapshot_id == snapshot.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                yield entry


def _vectors(changes: FileChanges, metadata: V3TableMetadata, io: FileIO) -> Iterator[DataFileV3]:
    """The deletion vectors on main of the removed files; without their file they would never be removed."""
    head = metadata.current_snapshot()
    gone = {str(file.file_path) for file in changes.removed}
    if head is None or not gone:
        return
    for manifest in head.manifests(io):
        if manifest.content == ManifestContent.DELETES:
            files = [_file(entry) for entry in manifest.fetch_manifest_entry(io)]
            yield from (file for file in files if file.is_deletion_vector and file.referenced_data_file in gone)


def _new(entry: ManifestEntry) -> DataFileV3:
    """The file without first_row_id: its rows get new ids, as in Java."""
    file = _file(copy_of(entry))
    file.first_row_id = None
    return file


def _file(entry: ManifestEntry) -> DataFileV3:
    assert isinstance(entry.data_file, DataFileV3)
    return entry.data_file


def _summary(snapshot: Snapshot, name: str) -> str | None:
    return snapshot.summary[name] if snapshot.summary is not None else None


def _is_ancestor(metadata: V3TableMetadata, snapshot_id: int | None) -> bool:
    """Whether the snapshot is an ancestor of the current one; None, the empty table, always is."""
    if snapshot_id is None:
        return True
    return any(ancestor.snapshot_id == snapshot_id for ancestor in ancestors_of(metadata.current_snapshot(), metadata))


def _unpublished_wap_id(metadata: V3TableMetadata, snapshot: Snapshot) -> str | None:
    wap_id = _summary(snapshot, STAGED_WAP_ID)
    if wap_id:
        for ancestor in ancestors_of(metadata.current_snapshot(), metadata):
            if wap_id in (_summary(ancestor, STAGED_WAP_ID), _summary(ancestor, PUBLISHED_WAP_ID)):
                raise ValidationException(
                    f"Duplicate request to cherry pick wap id that was published already: {wap_id}"
                )
    return wap_id


def _moved(
    metadata: V3TableMetadata, branch: str, to: int, before: int | None
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    """A branch at another snapshot, if it is still where it was."""
    ref: dict[str, Any] = {"ref-name": branch, "type": SnapshotRefType.BRANCH, "snapshot-id": to}
    move = SetSnapshotRefUpdate.model_validate(ref | retention(metadata, branch))
    return (move,), (AssertRefSnapshotId.model_validate({"ref": branch, "snapshot-id": before}),)
