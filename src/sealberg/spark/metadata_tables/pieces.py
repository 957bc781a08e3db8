"""A metadata table as pieces: what one reader reads, on the driver or in a task.

    files, entries      a piece is a manifest                   manifests, partitions, snapshots ...   no pieces:
    position_deletes    a piece is a delete file                the driver has or reads all of it
    all_manifests       a piece is the manifest list of a snapshot

    pieces(table, kind, snapshot) ──> [Piece, ...]       each with a guess of its rows
    PieceReader.batches(piece)    ──> Arrow batches      as many rows at a time as ROWS says

A piece carries the key of the file that it names, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import UnsupportedError
from sealberg.files.file_io import EncryptingFileIO, keyed
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3, read_list_file, read_manifest_list
from sealberg.spark.metadata_tables.entry_rows import EntryRows
from sealberg.spark.metadata_tables.kinds import BY_ENTRY, OF_ALL_SNAPSHOTS, contents
from sealberg.spark.metadata_tables.log_rows import log_rows
from sealberg.spark.metadata_tables.manifest_rows import ManifestRows
from sealberg.spark.metadata_tables.partition_rows import partition_rows
from sealberg.spark.metadata_tables.position_deletes import PositionDeletes, counted
from sealberg.spark.metadata_tables.schemas import schema
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

ROWS: Final = 1000  # of a batch: rows of `files` may be wide
LISTS: Final = 16  # manifest lists that are read at a time
LIST_LINE: Final = 50  # bytes of a manifest list for each manifest, at least
UNKNOWN_LENGTH: Final = 64 << 10  # a guess, where nothing says how long a manifest list is
IN_PIECES: Final = (*BY_ENTRY, "position_deletes", "all_manifests")


@dataclass(frozen=True)
class Piece:
    """What one reader reads; one of the three is set.

    Args:
        rows: how many there are, or a little more.
        manifest: for files and entries.
        delete_file: for position_deletes.
        manifest_list: the location, with its key, for all_manifests.
        snapshot_id: whose manifest list it is.
    """

    rows: int
    manifest: ManifestFile | None = field(default=None, repr=False)
    delete_file: DataFileV3 | None = field(default=None, repr=False)
    manifest_list: str | None = field(default=None, repr=False)
    snapshot_id: int | None = None

    @property
    def location(self) -> str:
        if self.manifest is not None:
            return str(self.manifest.manifest_path)
        return str(self.delete_file.file_path if self.delete_file is not None else self.manifest_list)


def pieces(table: Table, kind: str, snapshot: Snapshot | None) -> list[Piece] | None:
    """The pieces of a metadata table, or None if it has none.

    Args:
        snapshot: the one that is read; None for a table without snapshots.
    """
    if kind not in IN_PIECES or (kind == "all_manifests" and not isinstance(table, EncryptedTable)):
        return None
    if kind == "all_manifests":
        return [_list_piece(table.io, each) for each in table.metadata.snapshots]
    if kind == "position_deletes":
        return [Piece(file.record_count, delete_file=file) for file in _delete_files(table, snapshot)]
    found: dict[str, ManifestFile] = {}  # a manifest is read once, however many snapshots refer to it
    chosen = contents(kind)
    snapshots = table.metadata.snapshots if kind in OF_ALL_SNAPSHOTS else [snapshot] if snapshot is not None else []
    for lines in _manifest_lists(table.io, snapshots):
        found.update((str(line.manifest_path), line) for line in lines if line.content in chosen)
    return [Piece(_lines(manifest), manifest=manifest) for manifest in found.values()]


def _manifest_lists(io: FileIO, snapshots: Sequence[Snapshot]) -> Iterator[list[ManifestFile]]:
    """The manifests of each snapshot; some lists are read at a time, and no more are held."""
    pool = ExecutorFactory.get_or_create()
    for start in range(0, len(snapshots), LISTS):
        yield from pool.map(lambda snapshot: snapshot.manifests(io), snapshots[start : start + LISTS])


def whole_rows(table: Table, kind: str, snapshot: Snapshot | None) -> Iterable[dict[str, Any]]:
    """The rows of a table that has no pieces."""
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    if kind == "manifests":
        return ManifestRows(table.metadata).of(manifests)
    if kind == "all_manifests":  # of a table of version 1 or 2
        rows = ManifestRows(table.metadata)
        return (row for each in table.metadata.snapshots for row in rows.of(each.manifests(table.io), each.snapshot_id))
    if kind == "partitions":
        return partition_rows(table.metadata, table.io, manifests)
    return log_rows(table, kind)


def entries(io: FileIO, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """All entries of a manifest, those of deleted files too; they may be shared, so nobody may change them."""
    if isinstance(manifest, ManifestFileV3):
        return manifest.shared_entries(io)
    return manifest.fetch_manifest_entry(io, discard_deleted=False)


def _lines(manifest: ManifestFile) -> int:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    return sum(count or 0 for count in counts)


def _list_piece(io: FileIO, snapshot: Snapshot) -> Piece:
    location, key_id = snapshot.manifest_list, getattr(snapshot, "key_id", None)
    if isinstance(io, EncryptingFileIO) and key_id is not None:
        key = io.open_list_key(key_id)
        rows = (key.file_length or UNKNOWN_LENGTH) // LIST_LINE
        return Piece(rows, manifest_list=keyed(location, key.encode()), snapshot_id=snapshot.snapshot_id)
    if isinstance(io, EncryptingFileIO):
        read_manifest_list(io, location, key_id)  # refuses a plaintext list, unless they are allowed
    return Piece(UNKNOWN_LENGTH // LIST_LINE, manifest_list=location, snapshot_id=snapshot.snapshot_id)


def _delete_files(table: Table, snapshot: Snapshot | None) -> Iterator[DataFileV3]:
    for manifest in snapshot.manifests(table.io) if snapshot is not None else []:
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in entries(table.io, manifest):
            file = entry.data_file
            if entry.status == ManifestEntryStatus.DELETED or file.content != DataFileContent.POSITION_DELETES:
                continue
            if not isinstance(file, DataFileV3):
                raise UnsupportedError(
                    f"{file.file_path!s}: position deletes are read in tables of format version 3 only; "
                    "delete_files lists them"
                )
            yield file


class PieceReader:
    """Reads the pieces of one metadata table.

    Args:
        metadata: the table's; its snapshots are not needed.
        columns: the names of the columns to read.
    """

    def __init__(self, metadata: TableMetadata, io: FileIO, kind: str, columns: Sequence[str]) -> None:
        self._metadata = metadata
        self._io = io
        self._kind = kind
        self._columns = columns

    @cached_property
    def arrow(self) -> pa.Schema:
        whole = schema_to_pyarrow(schema(self._metadata, self._kind), include_field_ids=False)
        return pa.schema([whole.field(name) for name in self._columns])

    def batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        if piece.delete_file is not None:
            yield from self._position_deletes.batches(piece.delete_file)
        elif piece.manifest is not None:
            yield from self.made(self._entry_rows.of(entries(self._io, piece.manifest)))
        elif piece.manifest_list is not None:
            lines = read_list_file(self._io, piece.manifest_list)
            yield from self.made(self._manifest_rows.of(lines, piece.snapshot_id))

    def made(self, rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        left = iter(rows)
        while some := list(islice(left, ROWS)):
            yield pa.RecordBatch.from_pylist(some, self.arrow) if self._columns else counted(len(some))

    @cached_property
    def _entry_rows(self) -> EntryRows:
        return EntryRows(self._metadata, self._kind, self._columns)

    @cached_property
    def _manifest_rows(self) -> ManifestRows:
        return ManifestRows(self._metadata)

    @cached_property
    def _position_deletes(self) -> PositionDeletes:
        return PositionDeletes(self._metadata, self._io, self.arrow)
