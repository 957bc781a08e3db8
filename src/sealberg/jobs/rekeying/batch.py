"""The files of one commit: copied under new keys, then exchanged for the old ones.

    units ──tasks──> runner ──> new files ──> one commit: replace, sequence numbers and row ids kept
                                  └─ another process has removed a file, or deleted rows of it meanwhile:
                                     vectors are written anew, removed files are left out, and the commit is repeated

A copy stays right whatever others commit, because a data file never changes. So a conflict costs the deletion vectors
of the batch, and no data file is copied twice.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import FileFormat
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConflictError, KeyNotFoundError, PlaintextFileError, UnsupportedError
from sealberg.files.file_io import ALLOW_PLAINTEXT, EncryptingFileIO
from sealberg.jobs.rekeying.tasks import RekeyTask, VectorMove, rekey_file
from sealberg.jobs.rekeying.units import Unit, units
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.manifest import DataFileV3
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import discard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sealberg.jobs.rekeying.tasks import Rekeyed
    from sealberg.jobs.runner import Runner
    from sealberg.table.catalog_table import CatalogTable

ATTEMPTS: Final = 20
COLUMN_SIZES, SPLIT_OFFSETS, REFERENCED, OFFSET, SIZE = 6, 13, 17, 18, 19  # fields of a data file


@dataclass(frozen=True)
class Committed:
    """What a commit has exchanged."""

    files: int
    stored_bytes: int
    conflicts: int
    gone: int  # files that others removed before the commit


@dataclass
class Copies:
    """The new file of each old one, shared by the branches of a table; and those that a commit names already."""

    files: dict[str, DataFileV3] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    decoded: int = 0  # files whose rows were decoded and written again


@dataclass
class Batch:
    """Copies the files of some units, and commits them.

    Args:
        table: loaded; refreshed by commits and conflicts.
        properties: for the summary of the snapshot.
        done: called with the stored length of each file.
    """

    table: CatalogTable
    branch: str
    runner: Runner
    copies: Copies
    properties: Mapping[str, str]
    done: Callable[[int], None]
    _numbers: Iterator[int] = field(default_factory=count)
    _uuid: uuid.UUID = field(default_factory=uuid.uuid4)

    def run(self, chosen: list[Unit]) -> Committed:
        first, left = len(chosen), chosen
        self._copy(chosen)
        for conflicts in range(ATTEMPTS):
            vectors = self._vectors(left)
            try:
                self._commit(left, vectors)
            except (ValidationException, CommitFailedException) as error:
                discard(self.table.inner, {str(file.file_path) for file in vectors.values()})
                conflict = error
            else:
                self._discard_unused(chosen, left)
                return Committed(len(left), sum(unit.stored_bytes for unit in left), conflicts, first - len(left))
            self.table.refresh()
            left = self._still_there(left)
            if not left:
                self._discard_unused(chosen, left)
                return Committed(0, 0, conflicts + 1, first)
        self._discard_unused(chosen, [])
        raise ConflictError(
            f"other processes have changed the files of a batch {ATTEMPTS} times before it was committed. Run the job "
            f"again: it goes on with the files that are left ({conflict})"
        ) from conflict

    # -- new files ----------------------------------------------------------------------------

    def _copy(self, chosen: Iterable[Unit]) -> None:
        """Copy the data files and equality deletes that have no copy yet."""
        todo = {str(unit.file.file_path): unit.file for unit in chosen if unit.file is not None}
        todo = {path: file for path, file in todo.items() if path not in self.copies.files}
        made: list[str] = []
        try:
            for file in self.runner.run(rekey_file, (self._task(file) for file in todo.values())):
                made.append(file.target)
                self.copies.files[file.source] = _copied(todo[file.source], file)
                self.copies.decoded += file.decoded
                self.done(file.stored_length)
        except BaseException:
            discard(self.table.inner, made)
            raise

    def _task(self, file: DataFileV3) -> RekeyTask:
        kind = file.file_format
        if kind not in (FileFormat.PARQUET, FileFormat.AVRO):
            raise UnsupportedError(f"{file.file_path!s} has the format {kind.name}, expected PARQUET or AVRO")
        if file.key_metadata is None and not self._io.allow_plaintext:
            raise PlaintextFileError(
                f"{file.file_path!s} has no key in an encrypted table; with {ALLOW_PLAINTEXT}=true rekey encrypts it"
            )
        name = f"{next(self._numbers):05}-0-{self._uuid}.{kind.value.lower()}"
        return RekeyTask(
            "parquet" if kind == FileFormat.PARQUET else "ags1",
            storage_only(self._io.inner),
            str(file.file_path),
            self._place(file, name),
            file.key_metadata,
            self._new_key(),
            file.file_size_in_bytes,
            allow_missing_length=self._io.allow_missing_length,
            record_count=file.record_count,
        )

    def _vectors(self, chosen: Iterable[Unit]) -> dict[str, DataFileV3]:
        """The new deletion vectors, by the location of the data file that they belonged to."""
        old = {unit.vector.referenced_data_file or "": unit.vector for unit in chosen if unit.vector is not None}
        by_puffin: dict[str, list[DataFileV3]] = {}
        for vector in old.values():
            by_puffin.setdefault(str(vector.file_path), []).append(vector)
        made: dict[str, DataFileV3] = {}
        try:
            for file in self.runner.run(rekey_file, (self._vector_task(group) for group in by_puffin.values())):
                for path, (offset, length) in file.places.items():
                    vector = old[path].at(file.target, file.stored_length, file.key_metadata)
                    vector[REFERENCED], vector[OFFSET], vector[SIZE] = self._now(path), offset, length
                    made[path] = vector
        except BaseException:
            discard(self.table.inner, {str(vector.file_path) for vector in made.values()})
            raise
        return made

    def _vector_task(self, group: list[DataFileV3]) -> RekeyTask:
        file = group[0]
        if file.key_metadata is None:
            raise KeyNotFoundError(
                f"{file.file_path!s}: the deletion vectors of this file cannot be read, because the table keeps no key "
                "for it; roll back to a snapshot from before them"
            )
        moves = tuple(
            VectorMove(
                path, self._now(path), each.content_offset or 0, each.content_size_in_bytes or 0, each.record_count
            )
            for each in group
            if (path := each.referenced_data_file) is not None
        )
        place = self.table.new_places().new_data_location(f"00000-0-{uuid.uuid4()}-deletes.puffin")
        return RekeyTask(
            "vectors",
            storage_only(self._io.inner),
            str(file.file_path),
            place,
            file.key_metadata,
            self._new_key(),
            file.file_size_in_bytes,
            moves,
            self._io.allow_missing_length,
        )

    def _now(self, path: str) -> str:
        """Where the data file is after the commit."""
        copy = self.copies.files.get(path)
        return path if copy is None else str(copy.file_path)

    def _new_key(self) -> bytes:
        assert self.table.encryption is not None
        return self.table.encryption.new_file_key().encode()

    def _place(self, file: DataFileV3, name: str) -> str:
        metadata = self.table.metadata
        spec = metadata.specs()[file.spec_id]
        partition: Any = (
            None if spec.is_unpartitioned() else _Partition(spec.partition_to_path(file.partition, metadata.schema()))
        )
        return self.table.new_places().new_data_location(name, partition)

    @property
    def _io(self) -> EncryptingFileIO:
        assert isinstance(self.table.io, EncryptingFileIO)
        return self.table.io

    # -- commit -------------------------------------------------------------------------------

    def _commit(self, chosen: list[Unit], vectors: Mapping[str, DataFileV3]) -> None:
        added, added_deletes = list[DataFileV3](), list[DataFileV3]()
        removed, removed_deletes = list[DataFileV3](), list[DataFileV3]()
        kept: dict[Any, int] = {}
        for unit in chosen:
            if unit.file is not None:
                copy = self.copies.files[str(unit.file.file_path)]
                kept[copy.identity] = unit.sequence_number
                is_data = unit.file.content.name == "DATA"
                (added if is_data else added_deletes).append(copy)
                (removed if is_data else removed_deletes).append(unit.file)
            if unit.vector is not None:
                vector = vectors[unit.vector.referenced_data_file or ""]
                kept[vector.identity] = unit.vector_sequence_number
                added_deletes.append(vector)
                removed_deletes.append(unit.vector)
        change = self.table.transaction()
        with change:
            change.commit_changes(
                FileChanges(
                    added=tuple(added),
                    added_deletes=tuple(added_deletes),
                    removed=tuple(removed),
                    removed_deletes=tuple(removed_deletes),
                    operation=Operation.REPLACE,
                    branch=self.branch,
                    properties=self.properties,
                    keep_sequence_numbers=kept,
                    foreign=True,  # the batch owns its copies: after a conflict it commits them again
                )
            )

    def _still_there(self, chosen: Iterable[Unit]) -> list[Unit]:
        """The units as the table has them now; what others have removed or given a new key is left out."""
        files = {str(unit.file.file_path) for unit in chosen if unit.file is not None}
        alone = {str(unit.vector.file_path) for unit in chosen if unit.file is None and unit.vector is not None}
        wanted = files | alone
        now = units(
            self.table.metadata, self.table.io, self.branch, lambda entry: str(entry.data_file.file_path) in wanted
        )
        return [unit for unit in now if unit.file is None or str(unit.file.file_path) in files]

    def _discard_unused(self, chosen: Iterable[Unit], left: Iterable[Unit]) -> None:
        """Delete the copies of files that others removed, unless another branch has them."""
        self.copies.committed |= {unit.name for unit in left}
        unused = [unit.name for unit in chosen if unit.file is not None and unit.name not in self.copies.committed]
        copies = [self.copies.files.pop(path) for path in unused if path in self.copies.files]
        discard(self.table.inner, [str(file.file_path) for file in copies])


def _copied(old: DataFileV3, new: Rekeyed) -> DataFileV3:
    copy = old.at(new.target, new.stored_length, new.key_metadata)
    if new.column_sizes is not None:
        copy[COLUMN_SIZES] = dict(new.column_sizes)
    if new.split_offsets is not None:
        copy[SPLIT_OFFSETS] = list(new.split_offsets)
    return copy


@dataclass(frozen=True)
class _Partition:
    """As much of PyIceberg's PartitionKey as a location provider uses."""

    path: str

    def to_path(self) -> str:
        return self.path
