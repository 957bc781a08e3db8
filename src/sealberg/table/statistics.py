"""Statistics files of an encrypted table: committed with their keys, read with their keys, removed with their keys.

    StatisticsChange            a finished statistics file ──commit──> its key in encryption-keys, an entry
    EncryptedUpdateStatistics   PyIceberg's `update_statistics()`: removes files, and refuses files without a key
    read_sketches               a snapshot's Puffin file ──> the blobs of its footer, with numbers of distinct values
    read_partition_statistics   a snapshot's partition statistics file ──> an Arrow table, a row for each partition

The key of a statistics file has the discipline of a manifest list's key: a KEK of the newest metadata seals it, one
commit carries the key and the file, and every retry seals the key again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import ValidationException
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    RemoveStatisticsUpdate,
    SetPartitionStatisticsUpdate,
    SetStatisticsUpdate,
)
from pyiceberg.table.update.statistics import UpdateStatistics

from sealberg.errors import PlaintextFileError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.file_io import EncryptedInputFile, keyed, naming
from sealberg.files.puffin.container import read_footer
from sealberg.metadata.statistics import STATISTICS_PATH, V3StatisticsFile, statistics_files, statistics_key_id
from sealberg.metadata.updates import key_updates

if TYPE_CHECKING:
    from pyiceberg.table.statistics import StatisticsFile
    from pyiceberg.table.update import TableUpdate

    from sealberg.files.file_io import EncryptingFileIO
    from sealberg.files.puffin.container import Footer
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.statistics import AnyStatisticsFile
    from sealberg.metadata.table_metadata import V3TableMetadata


@dataclass(frozen=True)
class StatisticsChange:
    """A finished statistics file that a commit adds to the table, in place of the file that its snapshot has.

    Args:
        file: as the metadata will describe it.
        key: the key of the file, with the file's length.
        replaced: after the commit, the locations of the files that this file replaced.
    """

    file: AnyStatisticsFile
    key: KeyMetadata = field(repr=False)
    replaced: list[str] = field(default_factory=list, compare=False)

    def on(self, metadata: V3TableMetadata, encryption: EncryptionManager) -> tuple[TableUpdate, ...]:
        """The updates that add the key and the file to these metadata."""
        number, path = self.file.snapshot_id, self.file.statistics_path
        if metadata.snapshot_by_id(number) is None:
            raise ValidationException(
                f"cannot add statistics of snapshot {number}: another process has expired the snapshot meanwhile"
            )
        same_kind = (file for file in statistics_files(metadata) if type(file) is type(self.file))
        before_paths = [file.statistics_path for file in same_kind if file.snapshot_id == number]
        self.replaced[:] = [each for each in before_paths if each != path]
        before = metadata.encryption_keys
        ring, _ = encryption.seal_list_key(before, self.key, {STATISTICS_PATH: path})
        file = self.file
        adding: Any = (
            SetStatisticsUpdate.model_validate({"statistics": file})
            if isinstance(file, V3StatisticsFile)
            else SetPartitionStatisticsUpdate.model_validate({"partition-statistics": file})
        )
        return (*key_updates(ring.diff(before)), adding)

    def landed(self, metadata: V3TableMetadata) -> bool:
        """Whether these metadata name the file."""
        return self.file.statistics_path in {file.statistics_path for file in statistics_files(metadata)}


class EncryptedUpdateStatistics(UpdateStatistics):
    """PyIceberg's UpdateStatistics on an encrypted table."""

    def set_statistics(self, statistics_file: StatisticsFile) -> UpdateStatistics:
        raise PlaintextFileError(
            f"cannot set the statistics file {statistics_file.statistics_path} of an encrypted table: the file was "
            "written without a key of the table; sealberg.jobs.stats.plan(table) writes encrypted statistics"
        )

    def remove_statistics(self, snapshot_id: int) -> UpdateStatistics:
        self._updates += (RemoveStatisticsUpdate.model_validate({"snapshot-id": snapshot_id}),)
        return self

    def remove_partition_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Remove the partition statistics of a snapshot; PyIceberg has no such method."""
        self._updates += (RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": snapshot_id}),)
        return self


def open_key(metadata: V3TableMetadata, io: EncryptingFileIO, file: AnyStatisticsFile) -> KeyMetadata | None:
    """The key of a statistics file, or None if the metadata name no key for the file."""
    key_id = statistics_key_id(metadata.encryption_keys, file)
    return None if key_id is None else io.open_list_key(key_id)


def read_sketches(metadata: V3TableMetadata, io: EncryptingFileIO, snapshot_id: int) -> Footer | None:
    """The footer of the Puffin file of a snapshot; None if the snapshot has no encrypted statistics.

    Raises:
        IntegrityError: the file or its key was altered.
    """
    for file in metadata.statistics:
        if file.snapshot_id == snapshot_id and (key := open_key(metadata, io, file)) is not None:
            stored = io.new_input(keyed(file.statistics_path, key.encode()))
            assert isinstance(stored, EncryptedInputFile), "a location with a key is an AGS1 file"
            with naming(file.statistics_path), stored.open() as stream:
                return read_footer(stream)
    return None


def read_partition_statistics(metadata: V3TableMetadata, io: EncryptingFileIO, snapshot_id: int) -> pa.Table | None:
    """The rows of the partition statistics file of a snapshot; None if the snapshot has no encrypted one.

    Raises:
        IntegrityError: the file or its key was altered.
    """
    for file in metadata.partition_statistics:
        if file.snapshot_id == snapshot_id and (key := open_key(metadata, io, file)) is not None:
            stored = io.inner.new_input(file.statistics_path)
            with naming(file.statistics_path), Ags1Reader(stored.open(), key) as stream:
                return pq.read_table(pa.BufferReader(stream.read()))
    return None
