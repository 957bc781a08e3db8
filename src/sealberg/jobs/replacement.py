"""The metadata of the table that takes the place of another one, under another master key.

    source                                     replacement
    metadata.json: keys under the old master   metadata.json: one new KEK under the new master, a key per list
      manifest list, old key       ──decoded──>  manifest list, new key: the same lines, other locations and keys
        manifest, old key          ──resealed─>    manifest, new key: the same bytes
          data file, its key       ──────────────────> the same file, the same key

Snapshot ids, sequence numbers, row ids, times, schemas, specs, refs and properties stay. The table UUID is new, so a
writer that loaded the source cannot commit to the replacement. Older metadata files are not in its log: they hold the
keys of the source.

An earlier, unfinished replacement is used again: its snapshots are those of the source, line by line, so only the
snapshots that came since are written.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.table.update import RemoveSnapshotsUpdate

from sealberg.catalogs.base import EncryptedCatalog
from sealberg.errors import FormatError, PlaintextFileError
from sealberg.files.file_io import ALLOW_PLAINTEXT, EncryptingFileIO
from sealberg.files.reseal import ResealTask, reseal
from sealberg.jobs.task_io import storage_only
from sealberg.keys.keyring import Keyring
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata import clock
from sealberg.metadata.invariants import VERSION_PROPERTY, check_keys
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_codec import manifest_codec
from sealberg.metadata.manifest_writer import write_manifest_list
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.updates import applied
from sealberg.table.purge import GC_ENABLED
from sealberg.write.snapshot_summary import without_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.table.snapshots import Snapshot

    from sealberg.files.reseal import Resealed
    from sealberg.jobs.runner import Runner
    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.write.staged_files import StagedFiles

# Properties of a replacement: until it has taken the place of its source, and until the source is dropped.
SOURCE_UUID: Final = "sealberg.change-master.source-uuid"
SOURCE_GC: Final = "sealberg.change-master.gc-enabled"  # the source's gc.enabled; empty if it had none


def needed_snapshots(metadata: V3TableMetadata, *, history: bool) -> list[V3Snapshot]:
    """All snapshots, or the current one and those of branches and tags."""
    named = {metadata.current_snapshot_id, *(ref.snapshot_id for ref in metadata.refs.values())}
    return [snapshot for snapshot in metadata.snapshots if history or snapshot.snapshot_id in named]


@dataclass
class Replacement:
    """Writes the manifests and lists of a replacement, and makes its metadata.

    Args:
        source: the table as it is now.
        encryption: makes keys under the new master key.
        earlier: an unfinished replacement of the same source.
        staged: gets every file that is written.
        done: called with the stored length of each manifest.
    """

    source: CatalogTable
    encryption: EncryptionManager
    earlier: CatalogTable | None
    history: bool
    staged: StagedFiles
    done: Callable[[int], None]
    manifests_written: int = 0
    lists_written: int = 0
    _uuid: uuid.UUID = field(default_factory=uuid.uuid4)  # in the names of its manifests

    def build(self, runner: Runner) -> V3TableMetadata:
        source, earlier = self.source.metadata, self.earlier.metadata if self.earlier else None
        needed = needed_snapshots(source, history=self.history)
        known = {each.snapshot_id: each for each in earlier.snapshots} if earlier else {}
        fresh = [snapshot for snapshot in needed if snapshot.snapshot_id not in known]
        lines = {snapshot.snapshot_id: self._lines(self.source, snapshot) for snapshot in fresh}
        moved = self._moved(known.values()) if fresh else {}
        moved |= self._resealed(
            {str(line.manifest_path): line for each in lines.values() for line in each}, moved, runner
        )
        ring = earlier.encryption_keys if earlier else Keyring().with_keys(self.encryption.new_kek())
        snapshots: list[V3Snapshot] = []
        for snapshot in needed:
            if snapshot.snapshot_id in known:
                snapshots.append(known[snapshot.snapshot_id])
                continue
            ring, made = self._list(
                ring, snapshot, [moved[str(line.manifest_path)] for line in lines[snapshot.snapshot_id]]
            )
            snapshots.append(made)
        return self._metadata(snapshots, ring)

    # -- manifests ----------------------------------------------------------------------------

    @staticmethod
    def _lines(table: CatalogTable, snapshot: Snapshot) -> list[ManifestFileV3]:
        lines = snapshot.manifests(table.io)
        return [line for line in lines if isinstance(line, ManifestFileV3)]

    def _moved(self, known: Iterable[V3Snapshot]) -> dict[str, ManifestFileV3]:
        """From the manifests of the source to those of the earlier replacement, whose lists have the same order."""
        moved: dict[str, ManifestFileV3] = {}
        assert self.earlier is not None or not known
        for snapshot in known:
            old = self.source.metadata.snapshot_by_id(snapshot.snapshot_id)
            if old is None or self.earlier is None:
                continue  # expired since
            for before, after in zip(self._lines(self.source, old), self._lines(self.earlier, snapshot), strict=True):
                moved[str(before.manifest_path)] = after
        return moved

    def _resealed(
        self, wanted: dict[str, ManifestFileV3], moved: dict[str, ManifestFileV3], runner: Runner
    ) -> dict[str, ManifestFileV3]:
        todo = {path: line for path, line in wanted.items() if path not in moved}
        made: dict[str, ManifestFileV3] = {}
        for file in runner.run(reseal, self._tasks(todo.values())):
            made[file.location] = self._at(todo[file.location], file)
            self.manifests_written += 1
            self.done(file.stored_length)
        return made

    def _tasks(self, lines: Iterable[ManifestFileV3]) -> Iterator[ResealTask]:
        io = self.source.io
        assert isinstance(io, EncryptingFileIO)
        storage = storage_only(io.inner)
        for number, line in enumerate(lines):
            if line.key_metadata is None and not io.allow_plaintext:
                raise PlaintextFileError(
                    f"{line.manifest_path!s} has no key: a manifest of an encrypted table is plaintext; "
                    f"{ALLOW_PLAINTEXT}=true reads such files, and the new table gets an encrypted one"
                )
            target = self._place(f"{self._uuid}-m{number}.avro")
            key = self.encryption.new_file_key().encode()
            yield ResealTask(storage, str(line.manifest_path), line.key_metadata, target, key, io.allow_missing_length)

    @staticmethod
    def _at(line: ManifestFileV3, file: Resealed) -> ManifestFileV3:
        return line.at(file.target, file.stored_length, file.key_metadata)

    # -- lists, metadata ----------------------------------------------------------------------

    def _list(self, ring: Keyring, snapshot: V3Snapshot, lines: list[ManifestFileV3]) -> tuple[Keyring, V3Snapshot]:
        first_row_id = snapshot.first_row_id or 0
        location = self._place(f"snap-{snapshot.snapshot_id}-1-{uuid.uuid4()}.avro")
        key, next_row_id = write_manifest_list(
            self.source.io,
            location,
            self.encryption.new_file_key(),
            lines,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            first_row_id=first_row_id,
            compression=manifest_codec(self.source.metadata.properties),
        )
        if next_row_id != first_row_id:
            raise FormatError(
                f"the manifest list of snapshot {snapshot.snapshot_id} has manifests without row ids, so the rows "
                "would get other ids; expected the row ids of version 3"
            )
        assert key is not None, "the manifest list of an encrypted table is encrypted"
        ring, key_id = self.encryption.seal_list_key(ring, key)
        self.lists_written += 1
        return ring, snapshot.model_copy(
            update={"manifest_list": location, "key_id": key_id, "summary": without_partitions(snapshot.summary)}
        )

    def _place(self, name: str) -> str:
        location = self.source.new_places().new_metadata_location(name)
        self.staged.add(location)
        return location

    def _metadata(self, snapshots: list[V3Snapshot], ring: Keyring) -> V3TableMetadata:
        source = self.source.metadata
        kept = {snapshot.snapshot_id for snapshot in snapshots}
        gone = [each.snapshot_id for each in source.snapshots if each.snapshot_id not in kept]
        removal = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),) if gone else ()
        left = applied(source, removal)
        assert isinstance(left, V3TableMetadata)
        skew = clock.max_skew_ms(self.source.catalog.properties, source.properties)
        made = left.model_copy(
            update={
                "table_uuid": self.earlier.metadata.table_uuid if self.earlier else uuid.uuid4(),
                "snapshots": snapshots,
                "encryption_keys": _with_keys_of(ring, snapshots),
                "properties": self._properties(),
                "metadata_log": [],
                # Statistics files are sealed under keys of the source, or not at all.
                "statistics": [],
                "partition_statistics": [],
                "last_updated_ms": clock.next_ms(source, skew),
            }
        )
        check_keys(made)
        return made

    def _properties(self) -> dict[str, str]:
        source = self.source.metadata
        wanted = {**source.properties, KEY_ID_PROPERTY: self.encryption.settings.master_key_id}
        if isinstance(self.source.catalog, EncryptedCatalog):
            wanted = self.source.catalog.policy.bound(self.source.name(), wanted)
        return {
            **{name: value for name, value in wanted.items() if name != VERSION_PROPERTY},
            GC_ENABLED: "false",  # a purge or an expiry would delete data files that the source uses too
            SOURCE_UUID: str(source.table_uuid),
            SOURCE_GC: source.properties.get(GC_ENABLED, ""),
        }


def _with_keys_of(ring: Keyring, snapshots: Iterable[V3Snapshot]) -> Keyring:
    """The ring without the keys of lists that no snapshot has any more."""
    needed = {snapshot.key_id for snapshot in snapshots}
    return ring.without([each.key_id for each in ring if each.timestamp is None and each.key_id not in needed])
