"""What is copied: the snapshots of a table, their manifests, and the files in them.

    table ──read_source(history)──> Source ── snapshots, oldest first
                                           ── manifests: each once, with all entries
                                           ── files: data and equality deletes   positions: position deletes, vectors

Tables of versions 1 and 2 are read as version 3, as after an upgrade. Entries have the sequence numbers and row ids
that they inherit from their manifest. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus

from sealberg.errors import UnsupportedError
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.version_upgrade import as_version_3

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

    from sealberg.metadata.table_metadata import V3Snapshot

COPIED_FORMATS = (FileFormat.PARQUET, FileFormat.AVRO, FileFormat.PUFFIN)


@dataclass(frozen=True)
class SourceManifest:
    """A line of a manifest list, and the entries of the manifest with deleted ones."""

    line: ManifestFileV3
    entries: tuple[ManifestEntry, ...] = field(repr=False)

    @property
    def live(self) -> Iterator[ManifestEntry]:
        return (entry for entry in self.entries if entry.status != ManifestEntryStatus.DELETED)


@dataclass(frozen=True)
class Source:
    """A table as it was at one moment.

    Attributes:
        name: for messages.
        identity: tells this table from others of the same name.
        format_version: of the table, before it was read as version 3.
        snapshots: those to copy, oldest first.
        lines: for each snapshot, the paths of its manifests, in order.
        manifests: by path.
        is_folder: not a table, so its snapshots are made up.
    """

    name: str
    identity: str
    format_version: int
    metadata: V3TableMetadata = field(repr=False)
    io: FileIO = field(repr=False)
    snapshots: tuple[V3Snapshot, ...] = field(repr=False)
    lines: Mapping[int, tuple[str, ...]] = field(repr=False)
    manifests: Mapping[str, SourceManifest] = field(repr=False)
    is_folder: bool = False

    def entries(self, content: ManifestContent) -> Iterator[ManifestEntry]:
        """The live entries of all manifests with this content; a file may occur in several."""
        for manifest in self.manifests.values():
            if manifest.line.content == content:
                yield from manifest.live

    @cached_property
    def files(self) -> dict[str, DataFileV3]:
        """Data files and equality delete files by location, each once."""
        found = {str(file.file_path): file for file in map(file_of, self.entries(ManifestContent.DATA))}
        for file in map(file_of, self.entries(ManifestContent.DELETES)):
            if file.content == DataFileContent.EQUALITY_DELETES:
                found[str(file.file_path)] = file
        return found

    @cached_property
    def positions(self) -> list[DataFileV3]:
        """Position delete files and deletion vectors, each once: they name data files by location."""
        found = {
            file.identity: file
            for file in map(file_of, self.entries(ManifestContent.DELETES))
            if file.content == DataFileContent.POSITION_DELETES
        }
        return list(found.values())

    @property
    def stored_bytes(self) -> int:
        return sum(int(file.file_size_in_bytes or 0) for file in self.files.values())

    def check_formats(self) -> None:
        """Refuse files of a format that cannot be encrypted."""
        for file in (*self.files.values(), *self.positions):
            if file.file_format not in COPIED_FORMATS:
                raise UnsupportedError(
                    f"{self.name} has files of format {file.file_format.value}, for example {file.file_path!s}; "
                    "encrypted tables have Parquet and Avro files only. Rewrite the table as Parquet first: set "
                    "write.format.default=parquet and run rewrite_data_files of Iceberg with rewrite-all=true"
                )


def read_source(table: Table, known: frozenset[int], *, history: bool) -> Source:
    """The current snapshot of a table, or all its snapshots.

    Args:
        known: snapshots that a copy has already. If there are any, all snapshots since then are copied, also without
            history: each has a range of row ids that the next one continues.
    """
    given: Any = table.metadata
    metadata = given if isinstance(given, V3TableMetadata) else as_version_3(given)
    chosen = _since(metadata, known)
    kept = [snapshot for snapshot in metadata.snapshots if history or snapshot.snapshot_id in chosen]
    lines: dict[int, tuple[str, ...]] = {}
    manifests: dict[str, SourceManifest] = {}
    for snapshot in kept:
        found = [line for line in snapshot.manifests(table.io) if isinstance(line, ManifestFileV3)]
        lines[snapshot.snapshot_id] = tuple(str(line.manifest_path) for line in found)
        for line in found:
            if str(line.manifest_path) not in manifests:
                manifests[str(line.manifest_path)] = _manifest(line, table.io)
    name = ".".join(table.name())
    identity = str(metadata.table_uuid)
    return Source(name, identity, int(given.format_version), metadata, table.io, tuple(kept), lines, manifests)


def _since(metadata: V3TableMetadata, known: frozenset[int]) -> set[int]:
    """The current snapshot and its ancestors that are not known, as far back as there are known ones."""
    chosen: set[int] = set()
    at = metadata.current_snapshot()
    while at is not None and at.snapshot_id not in known:
        chosen.add(at.snapshot_id)
        if not known:
            break
        at = metadata.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    return chosen or ({at.snapshot_id} if at is not None else set())


def _manifest(line: ManifestFileV3, io: FileIO) -> SourceManifest:
    entries = line.fetch_manifest_entry(io, discard_deleted=False)
    line[3] = ManifestContent(line.content)  # manifests of version 1 have no content, which reads as a number
    for entry in entries:
        entry.data_file[0] = DataFileContent(entry.data_file.content)
    return SourceManifest(line, tuple(entries))


def file_of(entry: ManifestEntry) -> DataFileV3:
    file = entry.data_file
    assert isinstance(file, DataFileV3)
    return file
