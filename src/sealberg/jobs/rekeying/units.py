"""The files of a branch that get new keys.

    KeyRange    the keys made in the commits with these sequence numbers, by `file_sequence_number` of an entry
    Unit        a data file and its deletion vector, or a deletion vector alone, or an equality delete file

A file gets its key when it is written. `file_sequence_number` says which commit added a file, also after a rewrite of
its manifest, and a file that rekey wrote has the number of the commit of rekey. So a job that was killed finds the
files that are left.

A deletion vector names its data file by location, so it is written anew with every new data file. Position deletes in
Parquet and Avro files, which version 3 no longer allows to be written, name data files by values of their rows;
compaction removes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

from sealberg.errors import UnsupportedError
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry

    from sealberg.metadata.table_metadata import V3TableMetadata


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The first and the last sequence number of the commits whose keys are replaced."""

    first: int
    last: int

    def holds(self, entry: ManifestEntry) -> bool:
        return self.first <= (entry.file_sequence_number or 0) <= self.last

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    @classmethod
    def parse(cls, text: str) -> KeyRange | None:
        first, _, last = text.partition("..")
        return cls(int(first), int(last)) if first.isdigit() and last.isdigit() else None


@dataclass(frozen=True, slots=True)
class Unit:
    """What must be exchanged in one commit.

    Attributes:
        file: a data file or an equality delete file; None if only the deletion vector gets a new key.
        vector: the deletion vector of the data file.
        sequence_number, vector_sequence_number: their data sequence numbers, which stay.
    """

    file: DataFileV3 | None
    vector: DataFileV3 | None = None
    sequence_number: int = 0
    vector_sequence_number: int = 0

    @property
    def name(self) -> str:
        """The data file or equality delete file; of a vector alone, its data file."""
        if self.file is not None:
            return str(self.file.file_path)
        assert self.vector is not None
        return f"vector of {self.vector.referenced_data_file}"

    @property
    def files(self) -> Iterator[DataFileV3]:
        return (file for file in (self.file, self.vector) if file is not None)

    @property
    def stored_bytes(self) -> int:
        """The bytes to read; a deletion vector is a part of its file."""
        whole = self.file.file_size_in_bytes if self.file is not None else 0
        return whole + ((self.vector.content_size_in_bytes or 0) if self.vector is not None else 0)


def units(
    metadata: V3TableMetadata, io: FileIO, branch: str, wanted: Callable[[ManifestEntry], bool]
) -> Iterator[Unit]:
    """The units of a branch with a wanted file, the oldest manifests first."""
    head = metadata.snapshot_by_name(branch)
    manifests = [line for line in head.manifests(io) if isinstance(line, ManifestFileV3)] if head is not None else []
    vectors: dict[str, ManifestEntry] = {}
    equality: list[Unit] = []
    for entry in _live(manifests, io, ManifestContent.DELETES):
        file = _file(entry)
        if file.is_deletion_vector:
            vectors[file.referenced_data_file or ""] = entry
        elif file.content == DataFileContent.EQUALITY_DELETES:
            if wanted(entry):
                equality.append(Unit(file, sequence_number=entry.sequence_number or 0))
        else:
            raise UnsupportedError(
                f"{file.file_path!s} holds position deletes, which name data files by their locations, and rekey gives "
                "data files other locations. Run rewrite_position_delete_files or compact first"
            )
    for entry in _live(reversed(manifests), io, ManifestContent.DATA):
        vector = vectors.pop(str(_file(entry).file_path), None)
        if wanted(entry):
            yield _unit(entry, vector)
        elif vector is not None and wanted(vector):
            yield _unit(None, vector)
    yield from equality
    # Vectors whose data file is gone: harmless, but their keys are old.
    yield from (_unit(None, vector) for vector in vectors.values() if wanted(vector))


def _unit(entry: ManifestEntry | None, vector: ManifestEntry | None) -> Unit:
    return Unit(
        _file(entry) if entry is not None else None,
        _file(vector) if vector is not None else None,
        (entry.sequence_number or 0) if entry is not None else 0,
        (vector.sequence_number or 0) if vector is not None else 0,
    )


def _live(manifests: Iterable[ManifestFileV3], io: FileIO, content: ManifestContent) -> Iterator[ManifestEntry]:
    for manifest in manifests:
        if manifest.content == content:
            for entry in manifest.shared_entries(io):
                if entry.status != ManifestEntryStatus.DELETED:
                    yield entry


def _file(entry: ManifestEntry) -> DataFileV3:
    assert isinstance(entry.data_file, DataFileV3)
    return entry.data_file
