"""The metadata of the copy: the snapshots of the source with new manifests, lists and keys.

    source                                   target
    snapshot: id, time, summary              the same id and time; the numbers of its own files; a new list, its key
      manifest list ── manifests             the same manifests in the same order
        entry: status, snapshot, sequence    the same, and the copy of its file
    files without row ids (versions 1, 2)    get row ids in the order of the snapshots, as an upgraded table would

Entries of files that no kept snapshot has are left out. Snapshots of version 1, which have no sequence numbers, are
numbered in their order, and so are their files.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.table.snapshots import Summary

from sealberg.errors import FormatError
from sealberg.jobs.copying.entries import changed_entry, copied_entry
from sealberg.jobs.copying.source import file_of
from sealberg.metadata.manifest_codec import manifest_codec
from sealberg.metadata.manifest_writer import ManifestWriter, write_manifest_list
from sealberg.metadata.partition_types import schema_for
from sealberg.write.snapshot_summary import TOTALS, count_files, without_partitions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyiceberg.io import FileIO

    from sealberg.jobs.copying.file_copy import CopiedFile
    from sealberg.jobs.copying.source import Source, SourceManifest
    from sealberg.jobs.copying.target import Target
    from sealberg.keys.keyring import Keyring
    from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.write.snapshot_builder import Identity

FIRST_ROW_ID = 16


@dataclass
class Mirror:
    """Writes the manifests and lists of the copy.

    Args:
        io: opens and writes the files of the target.
        copies: the copied data and equality delete files, by the location of their source.
        positions: the copied position deletes and vectors, by the identity of their source.
        ring: the keys of the target, with its KEK.
        next_row_id: the first row id that is free in the target.
        row_ids: the row ids that files of the target have already, by the location of their source.
        earlier: the entries of these files, which a folder of files would add again.
        numbers: the sequence numbers of the snapshots that the target has.
    """

    source: Source
    target: Target
    io: FileIO
    copies: Mapping[str, CopiedFile]
    positions: Mapping[Identity, DataFileV3 | None]
    ring: Keyring
    next_row_id: int
    row_ids: dict[str, int] = field(default_factory=dict)
    earlier: dict[str, ManifestEntry] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    _made: dict[str, ManifestFileV3 | None] = field(default_factory=dict)
    _copied: Collection[int] = ()
    _live: dict[str, Counter[str]] = field(default_factory=dict)
    _changes: dict[tuple[str, int], Counter[str]] = field(default_factory=dict)
    _uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        for file in map(file_of, self.source.entries(ManifestContent.DATA)):
            if file.first_row_id is not None:
                self.row_ids[str(file.file_path)] = file.first_row_id

    def snapshots(self, chosen: tuple[V3Snapshot, ...]) -> list[V3Snapshot]:
        """The copies of these snapshots of the source, oldest first."""
        first = max(self.numbers.values(), default=0) + 1
        if self.source.format_version == 1:
            self.numbers.update({snapshot.snapshot_id: first + at for at, snapshot in enumerate(chosen)})
        self._copied = {snapshot.snapshot_id for snapshot in chosen}
        return [self._snapshot(snapshot) for snapshot in chosen]

    def _snapshot(self, snapshot: V3Snapshot) -> V3Snapshot:
        first_row_id = self.next_row_id
        lines = [self._line(path) for path in self.source.lines[snapshot.snapshot_id]]
        number = self.numbers.get(snapshot.snapshot_id, snapshot.sequence_number or 0)
        location = self.target.new_metadata_file(f"snap-{snapshot.snapshot_id}-1-{uuid.uuid4()}.avro")
        key, assigned = write_manifest_list(
            self.io,
            location,
            self.target.new_key(),
            [line for line in lines if line is not None],
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=number,
            first_row_id=first_row_id,
            compression=manifest_codec(self.source.metadata.properties),
        )
        assert assigned == first_row_id, "every data manifest has its row ids already"
        key_id = None
        if self.target.encryption is not None:
            assert key is not None, "the manifest list of an encrypted table is encrypted"
            self.ring, key_id = self.target.encryption.seal_list_key(self.ring, key)
        lineage = (
            {"first_row_id": first_row_id, "added_rows": self.next_row_id - first_row_id}
            if self.source.format_version < 3
            else {}
        )
        place = {"manifest_list": location, "key_id": key_id, "sequence_number": number}
        parent = snapshot.parent_snapshot_id if self._has(snapshot.parent_snapshot_id) else None
        kept = {"parent_snapshot_id": parent, "summary": self._summary(snapshot)}
        return snapshot.model_copy(update={**place, **lineage, **kept})

    def _has(self, snapshot_id: int | None) -> bool:
        return snapshot_id in self._copied or snapshot_id in self.numbers

    def _summary(self, snapshot: V3Snapshot) -> Summary | None:
        """The summary of the source with the numbers of the target: encrypted files are longer."""
        if snapshot.summary is None:
            return None
        live, counted = Counter[str](), Counter[str]()
        for path in self.source.lines[snapshot.snapshot_id]:
            live.update(self._live.get(path, {}))
            counted.update(self._changes.get((path, snapshot.snapshot_id), {}))
        said = dict(snapshot.summary.additional_properties)
        for total, names in TOTALS.items():
            if total in said:
                said[total] = str(live[names[0]])
            for name in names:
                if name in said or (counted[name] and "total-data-files" in said):
                    said[name] = str(counted[name])
        made = Summary(snapshot.summary.operation, **said)
        return made if self.target.encryption is None else without_partitions(made)

    def _line(self, path: str) -> ManifestFileV3 | None:
        if path not in self._made:
            self._made[path] = self._manifest(path, self.source.manifests[path])
        return self._made[path]

    def _manifest(self, path: str, manifest: SourceManifest) -> ManifestFileV3 | None:
        old, metadata = manifest.line, self.source.metadata
        assert old.added_snapshot_id is not None, "a manifest list names the snapshot of every manifest"
        first_row_id = self.next_row_id
        writer = ManifestWriter(
            self.io,
            self.target.new_metadata_file(f"{self._uuid}-m{next(self._numbers)}.avro"),
            self.target.new_key(),
            spec=metadata.specs()[old.partition_spec_id],
            schema=schema_for(metadata, old.partition_spec_id),
            snapshot_id=old.added_snapshot_id,
            content=old.content,
            compression=manifest_codec(metadata.properties),
        )
        for entry in manifest.entries:
            if (file := self._file(entry)) is not None:
                self._count(path, old, file, self._put(writer, old, entry, file))
        if not len(writer):
            return None
        line = writer.close()
        line.sequence_number = self._number(old.added_snapshot_id, old.sequence_number)
        live = [entry.sequence_number for entry in writer.entries if entry.status != ManifestEntryStatus.DELETED]
        numbers = [line.sequence_number if number is None else number for number in live]
        line.min_sequence_number = min(numbers, default=line.sequence_number)
        if line.content == ManifestContent.DATA:
            # As in Java: a new manifest takes row ids for all its rows, also those of files that have theirs already.
            line.first_row_id = old.first_row_id
            if old.first_row_id is None:
                line.first_row_id = first_row_id
                self.next_row_id = first_row_id + (line.added_rows_count or 0) + (line.existing_rows_count or 0)
        return line

    def _count(self, path: str, line: ManifestFileV3, file: DataFileV3, status: ManifestEntryStatus) -> None:
        """What a file of a manifest adds to the numbers of summaries."""
        gone = status == ManifestEntryStatus.DELETED
        if not gone:
            count_files(self._live.setdefault(path, Counter()), (file,), "added")
        if status != ManifestEntryStatus.EXISTING:
            counted = self._changes.setdefault((path, line.added_snapshot_id or 0), Counter())
            count_files(counted, (file,), "removed" if gone else "added")

    def _file(self, entry: ManifestEntry) -> DataFileV3 | None:
        """The file of the target; None if it is not copied."""
        file = file_of(entry)
        if file.identity in self.positions:
            return self.positions[file.identity]
        copy = self.copies.get(str(file.file_path))
        gone = entry.status == ManifestEntryStatus.DELETED
        if copy is None:
            if gone:
                return None
            raise FormatError(f"internal error: {file.file_path!s} is in a snapshot and was not copied")
        made = copied_entry(file, copy)
        return made if gone or file.content.value else changed_entry(made, {FIRST_ROW_ID: self._row_id(file)})

    def _row_id(self, file: DataFileV3) -> int:
        path = str(file.file_path)
        if path not in self.row_ids:
            self.row_ids[path] = self.next_row_id
            self.next_row_id += file.record_count
        return self.row_ids[path]

    def _put(
        self, writer: ManifestWriter, line: ManifestFileV3, entry: ManifestEntry, file: DataFileV3
    ) -> ManifestEntryStatus:
        """Enter a file with the status that it has in the source, and return it."""
        number = self._number(entry.snapshot_id, entry.sequence_number)
        known = self.earlier.get(str(file_of(entry).file_path))
        if known is not None and entry.status == ManifestEntryStatus.ADDED:
            writer.keep(_moved(known, file, known.sequence_number, known.file_sequence_number))
            return ManifestEntryStatus.EXISTING
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == line.added_snapshot_id:
            # As in Java, an added file inherits the sequence number of its manifest, unless it has one of its own.
            inherited = number == self._number(line.added_snapshot_id, line.sequence_number)
            writer.add(file, None if inherited else number)
            return ManifestEntryStatus.ADDED
        moved = _moved(entry, file, number, self._number(entry.snapshot_id, entry.file_sequence_number))
        if entry.status == ManifestEntryStatus.DELETED:
            writer.remove(moved)
            return ManifestEntryStatus.DELETED
        writer.keep(moved)
        return ManifestEntryStatus.EXISTING

    def _number(self, snapshot_id: int | None, number: int | None) -> int:
        """A sequence number of the source; for version 1 that of the snapshot, 0 if the target does not have it."""
        return (number or 0) if self.source.format_version > 1 else self.numbers.get(snapshot_id or 0, 0)


def _moved(entry: ManifestEntry, file: DataFileV3, number: int | None, file_number: int | None) -> ManifestEntry:
    """The entry with another file and other sequence numbers."""
    return ManifestEntry.from_args(
        _table_format_version=3,
        status=entry.status,
        snapshot_id=entry.snapshot_id,
        sequence_number=number,
        file_sequence_number=file_number,
        data_file=file,
    )
