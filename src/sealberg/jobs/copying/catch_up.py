"""Brings a finished copy up to date: the snapshots that its source got since are added to it.

    source: s1 s2 s3 s4        target: s1 s2   ──one commit──>   s1 s2 s3 s4      (without history: s2 s4)

The new snapshots have new manifests and lists; files that the copy has already are not copied again. The commit
requires that the target still has the snapshot that it was found with, so a writer of the target is not overruled. A
target with snapshots of its own is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from sealberg.errors import ConflictError, UnsupportedError
from sealberg.jobs.copying.comparison import compare_positions, compare_snapshots
from sealberg.jobs.copying.mirror import Mirror
from sealberg.jobs.copying.position_copies import PositionCopies
from sealberg.jobs.copying.target import Target, digest_in, digest_of
from sealberg.jobs.copying.work_table import as_copied
from sealberg.metadata.updates import key_updates
from sealberg.table.catalog_table import CatalogTable
from sealberg.write.commit_outcome import CommitAttempt
from sealberg.write.snapshot_builder import retention
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from sealberg.jobs.copying.copier import Copier
    from sealberg.jobs.copying.file_copy import CopiedFile
    from sealberg.jobs.copying.source import Source
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3Snapshot


def catch_up(copier: Copier) -> int:
    """Add what is missing; returns the number of new snapshots."""
    table = copier.catalog.load_table(copier.target)
    assert isinstance(table, CatalogTable), "a table of version 3"
    known = frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    source = copier.read(known)
    missing = tuple(snapshot for snapshot in source.snapshots if snapshot.snapshot_id not in known)
    _check_follows(table, source)
    if not missing and not _refs(table, source):
        return 0
    source.check_formats()
    _check_schemas(table, source)
    target = Target(table.inner, table.encryption, table.new_places())
    with StagedFiles(table.inner) as staged:
        return _CatchUp(copier, table, source, target, staged).run(missing)


class _CatchUp:
    def __init__(
        self, copier: Copier, table: CatalogTable, source: Source, target: Target, staged: StagedFiles
    ) -> None:
        self.copier, self.table, self.source = copier, table, source
        self.target = _Recording(target, staged)
        self.row_ids: dict[str, int] = {}
        self.earlier: dict[str, ManifestEntry] = {}

    def run(self, missing: tuple[V3Snapshot, ...]) -> int:
        metadata = self.table.metadata
        copies = self._known()
        self.copier.copy_files(self.source, self.target, copies)
        moved = {path: copy.target for path, copy in copies.items()}
        positions = PositionCopies(self.source, self.target, moved).copy_all()
        mirror = Mirror(
            self.source,
            self.target,
            self.table.io,
            copies,
            positions,
            metadata.encryption_keys,
            metadata.next_row_id,
            self.row_ids,
            self.earlier,
            {snapshot.snapshot_id: snapshot.sequence_number or 0 for snapshot in metadata.snapshots},
        )
        snapshots = _with_row_ids(mirror.snapshots(missing), self.source, metadata.next_row_id)
        updates = (
            *key_updates(mirror.ring.diff(metadata.encryption_keys)),
            *(AddSnapshotUpdate(snapshot=snapshot) for snapshot in snapshots),
            *_refs(self.table, self.source),
        )
        after = metadata.model_copy(update={"encryption_keys": mirror.ring})
        io = self.table.io_for(after)
        compare_snapshots(self.source, snapshots, io)
        compare_positions(positions, io)
        self.table.commit(updates, self._requirements(), CommitAttempt())
        return len(missing)

    def _known(self) -> dict[str, CopiedFile]:
        """The copies that the target has, and their row ids."""
        wanted = {digest_of(path): path for path in self.source.files}
        found: dict[str, CopiedFile] = {}
        for snapshot in self.table.metadata.snapshots:
            for manifest in snapshot.manifests(self.table.io):
                for entry in manifest.fetch_manifest_entry(self.table.io):
                    file: DataFileV3 | Any = entry.data_file
                    path = wanted.get(digest_in(file.file_path))
                    if path is not None:
                        found[path] = as_copied(path, file)
                        self.earlier[path] = entry
                        if file.first_row_id is not None:
                            self.row_ids[path] = file.first_row_id
        return found

    def _requirements(self) -> tuple[TableRequirement, ...]:
        current = self.table.metadata.current_snapshot_id
        wanted = {"ref": MAIN_BRANCH, "snapshot-id": current}
        return AssertRefSnapshotId.model_validate(wanted), AssertTableUUID(uuid=self.table.metadata.table_uuid)


class _Recording(Target):
    """A target whose new files are deleted if the commit fails."""

    def __init__(self, target: Target, staged: StagedFiles) -> None:
        super().__init__(target.storage, target.encryption, target.locations, target.run)
        object.__setattr__(self, "_staged", staged)

    def new_file(self, source: str, ending: str) -> Any:
        place, key = super().new_file(source, ending)
        self._staged.add(place)  # type: ignore[attr-defined]
        return place, key

    def new_metadata_file(self, name: str) -> str:
        place = super().new_metadata_file(name)
        self._staged.add(place)  # type: ignore[attr-defined]
        return place


def _check_follows(table: CatalogTable, source: Source) -> None:
    """Refuse a copy that has rows of its own: they would vanish from its main branch."""
    current = table.metadata.current_snapshot()
    if current is None:
        return
    if source.is_folder:
        digests = {digest_of(path) for path in source.files}
        entries = (entry for line in current.manifests(table.io) for entry in line.fetch_manifest_entry(table.io))
        follows = all(digest_in(entry.data_file.file_path) in digests for entry in entries)
    else:
        follows = current.snapshot_id in {snapshot.snapshot_id for snapshot in source.metadata.snapshots}
    if not follows:
        raise ConflictError(
            f"{'.'.join(table.name())} cannot be brought up to date: its current snapshot {current.snapshot_id} is not "
            f"one of {source.name}. Somebody has written to the copy, or the source has lost what the copy has"
        )


def _check_schemas(table: CatalogTable, source: Source) -> None:
    ours, theirs = table.metadata, source.metadata
    pairs = (
        ("schema", {schema.schema_id for schema in ours.schemas}, {schema.schema_id for schema in theirs.schemas}),
        ("partition spec", set(ours.specs()), set(theirs.specs())),
    )
    for what, known, wanted in pairs:
        if wanted - known:
            raise UnsupportedError(
                f"{source.name} has a new {what} since it was copied into {'.'.join(table.name())}, and a finished "
                "copy takes over new snapshots only. Drop the copy and encrypt the table again"
            )


def _refs(table: CatalogTable, source: Source) -> list[TableUpdate]:
    """Where branches and tags of the source are now; without history, only its main branch."""
    whole = not source.is_folder and len(source.snapshots) == len(source.metadata.snapshots)
    kept = {MAIN_BRANCH: None, **(source.metadata.refs if whole else {})}
    wanted = {name: ref for name, ref in source.metadata.refs.items() if name in kept}
    found = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    return [
        SetSnapshotRefUpdate.model_validate(
            {
                "ref-name": name,
                "type": ref.snapshot_ref_type,
                "snapshot-id": ref.snapshot_id,
                **retention(source.metadata, name),
            }
        )
        for name, ref in wanted.items()
        if found.get(name) != ref.snapshot_id
    ]


def _with_row_ids(snapshots: list[V3Snapshot], source: Source, next_row_id: int) -> list[V3Snapshot]:
    """The snapshots with ranges of row ids that leave no gap, also where a snapshot between them is not copied."""
    if source.format_version < 3:
        return snapshots
    made = []
    for snapshot in snapshots:
        stop = max((snapshot.first_row_id or 0) + (snapshot.added_rows or 0), next_row_id)
        made.append(snapshot.model_copy(update={"first_row_id": next_row_id, "added_rows": stop - next_row_id}))
        next_row_id = stop
    return made
