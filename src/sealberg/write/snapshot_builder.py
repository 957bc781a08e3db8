"""Builds a snapshot from file changes; every kind of write uses this module.

    FileChanges      the files to add and to remove, and which concurrent changes conflict with them
    build(...)       FileChanges on the newest metadata -> manifests, a manifest list, its key -> metadata updates

    changes ──> manifests (kept, filtered, new, merged) ──> manifest list ──> list key in the keyring
            ──> one tuple of updates: the keys, the snapshot, the branch

After a conflict `conflicts.validate` checks the snapshots that others committed, and the same changes are built again
on the newer metadata. Data files are written once; manifests and the manifest list are written for each attempt, and
those of a failed attempt are deleted.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate

from sealberg.errors import PlaintextFileError
from sealberg.format.key_metadata import KeyMetadata
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_codec import manifest_codec
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_writer import ManifestWriter, entry_encoder, write_manifest_list
from sealberg.metadata.partition_types import schema_for
from sealberg.metadata.table_metadata import V3Snapshot
from sealberg.metadata.updates import key_updates
from sealberg.properties.table_names import value_of
from sealberg.write.manifest_rewrite import ManifestRewrite, comparable, regroup
from sealberg.write.snapshot_summary import REPLACE_PARTITIONS, summarise
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Set

    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.metadata.encoded_entries import EncodedEntry, LiveEntries
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.context import WriteContext

Identity = tuple[str, int | None]
PartitionKey = tuple[int, str]  # of `snapshot_summary.partition_of`
Region = BooleanExpression | frozenset[PartitionKey]  # the rows that a check covers: by a filter, or by partition

MERGE_ENABLED: Final = "commit.manifest-merge.enabled"
MERGE_MIN_COUNT: Final = "commit.manifest.min-count-to-merge"
MERGE_TARGET_SIZE: Final = "commit.manifest.target-size-bytes"


@dataclass(frozen=True)
class FileChanges:
    """What one snapshot does to the files of a branch.

    Args:
        added: new data files.
        added_deletes: new deletion vectors and equality deletes.
        removed, removed_deletes: files to remove; the commit fails if one of them is no longer in the table.
        branch: the branch that the snapshot is built on and that the commit moves; None builds on the current
            snapshot and moves no branch.
        stage_only: the branch does not move; the snapshot can be cherry-picked later.
        starting_snapshot_id: the snapshot that the changes were planned on; a transaction fills it in.
        conflict_filter: rows that no later snapshot may have added (serializable isolation).
        deletes_filter: rows to which no later snapshot may have added delete files.
        removals_filter: rows whose data file no later snapshot may have removed.
        schema: the schema that the filters are written for; columns may have been renamed at validation.
        replaces: the partitions to replace; the files to remove are looked up again for each attempt.
        keep_sequence_numbers: for a rewrite, the sequence number of each new file.
        split_removed: put the entries of removed files into manifests of their own, which the next snapshot drops.
        manifest_rewrite: write manifests anew; such a change adds and removes no files.
        guard: called with the newest metadata before each attempt; raises if the changes must not be committed.
    """

    added: tuple[DataFileV3, ...] = ()
    added_deletes: tuple[DataFileV3, ...] = ()
    removed: tuple[DataFileV3, ...] = ()
    removed_deletes: tuple[DataFileV3, ...] = ()
    operation: Operation | None = None
    branch: str | None = MAIN_BRANCH
    stage_only: bool = False
    first_of_branch: bool = False  # the commit may create the branch on a table without snapshots, as in Java
    starting_snapshot_id: int | None = None
    conflict_filter: Region | None = None
    deletes_filter: Region | None = None
    removals_filter: Region | None = None
    schema: Schema | None = None
    case_sensitive: bool = True
    replaces: frozenset[PartitionKey] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    keep_sequence_numbers: Mapping[Identity, int] = field(default_factory=dict)
    foreign: bool = False  # add_files: the files existed before, and are not deleted if the commit fails
    split_removed: bool = False
    manifest_rewrite: ManifestRewrite | None = None
    guard: Callable[[V3TableMetadata], None] | None = None
    snapshot_id: int | None = None  # the same for every attempt, so that a commit whose response was lost can be found

    @property
    def kind(self) -> Operation:
        """The operation for the summary: as set, or derived as Java derives it."""
        if self.operation is not None:
            return self.operation
        comes = bool(self.added)
        goes = bool(self.removed or self.added_deletes)
        if goes and not comes:
            return Operation.DELETE
        return Operation.OVERWRITE if goes else Operation.APPEND

    @property
    def written(self) -> Iterator[str]:
        """The files that this change wrote."""
        if not self.foreign:
            yield from {str(file.file_path) for file in (*self.added, *self.added_deletes)}


@dataclass(frozen=True)
class Built:
    """One attempt: the updates that commit it, and the files to delete if it fails."""

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    written: tuple[str, ...]
    snapshot_id: int


def build(changes: FileChanges, context: WriteContext, *, timestamp_ms: int) -> Built:
    """Write manifests and a manifest list for these changes on top of the metadata of this context."""
    _check_sealed(changes, sealed=context.encryption is not None)
    with StagedFiles(context.io) as written:
        return _Builder(changes, context, written, timestamp_ms).build()


def _check_sealed(changes: FileChanges, *, sealed: bool) -> None:
    """The last check of a write: an encrypted table takes only files with a key and a length, any other table none."""
    for file in (*changes.added, *changes.added_deletes):
        blob = file.key_metadata
        if sealed and (blob is None or KeyMetadata.decode(blob).file_length is None):
            raise PlaintextFileError(
                f"{file.file_path!s}: cannot add the file to an encrypted table: its key metadata must have a key and "
                "the file length"
            )
        if not sealed and blob is not None:
            raise PlaintextFileError(
                f"{file.file_path!s}: cannot add an encrypted file to a table that is not encrypted: readers of the "
                "table have no keys"
            )


class _AssertRef(AssertRefSnapshotId):
    """PyIceberg's requirement, which also accepts a new branch of a table without snapshots."""

    def validate(self, base_metadata: Any) -> None:  # type: ignore[override]
        if self.snapshot_id is not None or base_metadata is None or base_metadata.snapshots:
            super().validate(base_metadata)


class _Builder:
    def __init__(self, changes: FileChanges, context: WriteContext, written: StagedFiles, timestamp_ms: int) -> None:
        self.changes = changes
        self.written = written
        self.timestamp_ms = timestamp_ms
        self.metadata = metadata = context.metadata
        self.io = context.io
        self.encryption = context.encryption
        self.locations = context.locations
        self.uuid = uuid.uuid4()
        self.numbers = count()
        self.snapshot_id = changes.snapshot_id or metadata.new_snapshot_id()
        self.parent = metadata.snapshot_by_name(changes.branch) if changes.branch else metadata.current_snapshot()
        self.compression = manifest_codec(metadata.properties)
        # Entries of the manifests written here. Read back they would lack row ids, which the manifest list assigns.
        self.fresh: dict[str, list[EncodedEntry]] = {}
        self.counts: dict[str, str] = {}  # for the summary, known when the manifests are written

    def build(self) -> Built:
        manifests = self._manifests()
        self._drop_merged(manifests)
        metadata, parent = self.metadata, self.parent
        sequence_number = metadata.last_sequence_number + 1
        location = self.locations.new_metadata_location(f"snap-{self.snapshot_id}-1-{self.uuid}.avro")
        self.written.add(location)
        key, next_row_id = write_manifest_list(
            self.io,
            location,
            self.encryption.new_file_key() if self.encryption else None,
            manifests,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent.snapshot_id if parent else None,
            sequence_number=sequence_number,
            first_row_id=metadata.next_row_id,
            compression=self.compression,
        )
        keys: tuple[TableUpdate, ...] = ()
        key_id = None
        if self.encryption is not None:
            assert key is not None, "the manifest list of an encrypted table is encrypted"
            ring, key_id = self.encryption.seal_list_key(metadata.encryption_keys, key)
            keys = key_updates(ring.diff(metadata.encryption_keys))
        snapshot = V3Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": parent.snapshot_id if parent else None,
                "sequence-number": sequence_number,
                "timestamp-ms": self.timestamp_ms,
                "manifest-list": location,
                "summary": self._summary(manifests),
                "schema-id": metadata.current_schema_id,
                "first-row-id": metadata.next_row_id,
                "added-rows": next_row_id - metadata.next_row_id,
                "key-id": key_id,
            }
        )
        return Built((*keys, *self._point_at(snapshot)), self._requirements(), self.written.locations, self.snapshot_id)

    def _point_at(self, snapshot: V3Snapshot) -> tuple[TableUpdate, ...]:
        add = AddSnapshotUpdate(snapshot=snapshot)
        branch = self.changes.branch
        if branch is None or self.changes.stage_only:
            return (add,)
        ref = SetSnapshotRefUpdate.model_validate(
            {"ref-name": branch, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
            | retention(self.metadata, branch)
        )
        return add, ref

    def _requirements(self) -> tuple[TableRequirement, ...]:
        branch = self.changes.branch
        if branch is None or self.changes.stage_only:
            return ()
        ref = self.metadata.refs.get(branch)
        wanted = {"ref": branch, "snapshot-id": ref.snapshot_id if ref else None}
        kind = _AssertRef if self.changes.first_of_branch else AssertRefSnapshotId
        return (kind.model_validate(wanted),)

    def _summary(self, manifests: list[ManifestFileV3]) -> Summary:
        created = sum(manifest.added_snapshot_id == self.snapshot_id for manifest in manifests)
        more = {
            "manifests-created": str(created),
            "manifests-kept": str(len(manifests) - created),
            **self.counts,
            **({REPLACE_PARTITIONS: "true"} if self.changes.replaces is not None else {}),
            **self.changes.properties,
        }
        return summarise(self.changes, self.metadata, self.parent.summary if self.parent else None, more)

    # -- manifests ----------------------------------------------------------------------------

    def _manifests(self) -> list[ManifestFileV3]:
        changes = self.changes
        old = [_v3(m) for m in self.parent.manifests(self.io)] if self.parent else []
        if changes.manifest_rewrite is not None:
            return self._regrouped(changes.manifest_rewrite, old)
        data = [manifest for manifest in old if manifest.content == ManifestContent.DATA]
        deletes = [manifest for manifest in old if manifest.content == ManifestContent.DELETES]
        return [
            *self._merged(self._new(changes.added, ManifestContent.DATA), self._filtered(data, changes.removed)),
            *self._merged(
                self._new(changes.added_deletes, ManifestContent.DELETES),
                self._filtered(deletes, changes.removed_deletes),
            ),
        ]

    def _regrouped(self, rewrite: ManifestRewrite, old: list[ManifestFileV3]) -> list[ManifestFileV3]:
        def lowest(manifest: ManifestFileV3) -> Any:
            schema = schema_for(self.metadata, manifest.partition_spec_id)
            fields = self.metadata.specs()[manifest.partition_spec_id].partition_type(schema).fields
            bounds = (summary.lower_bound for summary in manifest.partitions or [])
            kinds: Iterable[Any] = (field.field_type for field in fields)
            pairs = zip(kinds, bounds, strict=False)
            return comparable(None if low is None else from_bytes(kind, low) for kind, low in pairs)

        live = self._filtered(old, ())
        made = regroup(rewrite, live, lambda manifest: self._live(manifest).entries, self._write, lowest)
        self.counts = {"manifests-replaced": str(made.replaced), "entries-processed": str(made.entries)}
        return made.manifests

    def _new(self, files: Iterable[DataFileV3], content: ManifestContent) -> list[ManifestFileV3]:
        by_spec: dict[int, ManifestWriter] = {}
        for file in files:
            if file.spec_id not in by_spec:
                by_spec[file.spec_id] = self._writer(file.spec_id, content)
            by_spec[file.spec_id].add(file, self.changes.keep_sequence_numbers.get(file.identity))
        return [self._close(writer) for writer in by_spec.values()]

    def _filtered(self, manifests: list[ManifestFileV3], removed: Iterable[DataFileV3]) -> list[ManifestFileV3]:
        """The manifests without the removed files; only manifests that hold one are rewritten."""
        gone = {file.identity for file in removed}
        specs = {file.spec_id for file in removed}
        kept, found = [], set()
        for manifest in manifests:
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue  # only entries that an older snapshot removed
            if not gone or manifest.partition_spec_id not in specs:
                kept.append(manifest)
                continue
            if not self._may_name_one(manifest, gone):
                kept.append(manifest)
                continue
            live = self._live(manifest, gone)
            found |= live.removed
            kept += self._without(manifest, live.entries) if live.removed else [manifest]
        if missing := gone - found:
            paths = ", ".join(sorted(path for path, _ in missing))
            raise ValidationException(f"Missing required files to delete: {paths}")
        return kept

    def _may_name_one(self, manifest: ManifestFileV3, gone: Set[Identity]) -> bool:
        """A plan has often left the columns of the manifest in the cache; without a cache it is read only once."""
        return not manifest.is_kept(self.io) or read_columns(manifest, self.io).names_any(path for path, _ in gone)

    def _live(self, manifest: ManifestFileV3, gone: Set[Identity] = frozenset()) -> LiveEntries:
        spec_id = manifest.partition_spec_id
        encoder = entry_encoder(self.metadata.specs()[spec_id], schema_for(self.metadata, spec_id))
        return encoder.live(manifest, self.io, self.snapshot_id, gone)

    def _without(self, manifest: ManifestFileV3, entries: list[EncodedEntry]) -> list[ManifestFileV3]:
        if not self.changes.split_removed:
            return [self._write(manifest, entries)]
        parts: tuple[list[EncodedEntry], list[EncodedEntry]] = ([], [])
        for entry in entries:
            parts[entry.status == ManifestEntryStatus.DELETED].append(entry)
        return [self._write(manifest, part) for part in parts if part]

    def _write(self, like: ManifestFileV3, entries: Iterable[EncodedEntry]) -> ManifestFileV3:
        writer = self._writer(like.partition_spec_id, like.content)
        writer.put(entries)
        return self._close(writer)

    def _merged(self, new: list[ManifestFileV3], old: list[ManifestFileV3]) -> list[ManifestFileV3]:
        """Merge as Java does: bins of small manifests of one spec; the newest bin only if it has enough manifests."""
        properties = self.metadata.properties
        if not new or not value_of(properties, MERGE_ENABLED, True):
            return [*new, *old]
        target = value_of(properties, MERGE_TARGET_SIZE, 8 * 1024 * 1024)
        least = value_of(properties, MERGE_MIN_COUNT, 100)
        out: list[ManifestFileV3] = []
        specs = dict.fromkeys(manifest.partition_spec_id for manifest in (*new, *old))
        for spec_id in sorted(specs, reverse=True):
            group = [manifest for manifest in (*new, *old) if manifest.partition_spec_id == spec_id]
            for packed in _pack_from_the_end(group, target):
                fresh = any(manifest is newest for manifest in packed for newest in new)
                if len(packed) == 1 or (fresh and len(packed) < least):
                    out += packed
                else:
                    out.append(self._merge(packed))
        return out

    def _merge(self, manifests: list[ManifestFileV3]) -> ManifestFileV3:
        writer = self._writer(manifests[0].partition_spec_id, manifests[0].content)
        for manifest in manifests:
            fresh = self.fresh.get(str(manifest.manifest_path))
            # Entries removed by this snapshot are kept; entries removed by older snapshots are dropped.
            writer.put(self._live(manifest).entries if fresh is None else fresh)
        return self._close(writer)

    def _drop_merged(self, manifests: list[ManifestFileV3]) -> None:
        """Delete the manifests of this attempt that a merge replaced; no manifest list names them."""
        self.written.keep_only(str(manifest.manifest_path) for manifest in manifests)

    def _close(self, writer: ManifestWriter) -> ManifestFileV3:
        line = writer.close()
        self.fresh[str(line.manifest_path)] = writer.entries
        return line

    def _writer(self, spec_id: int, content: ManifestContent) -> ManifestWriter:
        location = self.locations.new_metadata_location(f"{self.uuid}-m{next(self.numbers)}.avro")
        self.written.add(location)
        return ManifestWriter(
            self.io,
            location,
            self.encryption.new_file_key() if self.encryption else None,
            spec=self.metadata.specs()[spec_id],
            schema=schema_for(self.metadata, spec_id),
            snapshot_id=self.snapshot_id,
            content=content,
            compression=self.compression,
        )


# -- functions of the builder -----------------------------------------------------------------


def _pack_from_the_end(manifests: list[ManifestFileV3], target: int) -> list[list[ManifestFileV3]]:
    bins: list[list[ManifestFileV3]] = []
    size = 0
    for manifest in reversed(manifests):
        if not bins or size + manifest.manifest_length > target:
            bins.append([])
            size = 0
        bins[-1].append(manifest)
        size += manifest.manifest_length
    return [packed[::-1] for packed in reversed(bins)]


def retention(metadata: V3TableMetadata, branch: str) -> dict[str, Any]:
    """The retention settings of the branch, repeated when the ref is set, since setting the ref replaces them."""
    ref = metadata.refs.get(branch)
    kept = {
        "min-snapshots-to-keep": ref.min_snapshots_to_keep if ref else None,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms if ref else None,
        "max-ref-age-ms": ref.max_ref_age_ms if ref else None,
    }
    return {name: value for name, value in kept.items() if value is not None}


def _v3(manifest: object) -> ManifestFileV3:
    assert isinstance(manifest, ManifestFileV3)
    return manifest
