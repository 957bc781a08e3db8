"""What every writer needs of a table: its metadata, its storage, its keys, and the locations of new files.

transaction.context ──> RowWriter, RowWork, snapshot builder
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.locations import LocationProvider

    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.table_metadata import V3TableMetadata


@dataclass(frozen=True)
class WriteContext:
    """A table at the moment of a write.

    Args:
        metadata: the table's metadata, with the earlier steps of the same transaction.
        io: opens the files of the table, also those of staged snapshots.
        encryption: makes the keys of new files; None for a table that is not encrypted.
        locations: gives every new file its location.
    """

    metadata: V3TableMetadata
    io: FileIO
    encryption: EncryptionManager | None
    locations: LocationProvider
