"""The rows of `files` and `entries`: one for each line of a manifest, with partitions and bounds as values.

    EntryRows(metadata, kind, columns).of(entries)  ->  {"content": 0, "file_path": ..., "partition": {"p": "a"}, ...}

`key_metadata` is there and always null: it holds the key of the file. Only the asked columns are made.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.types import DoubleType, LongType, PrimitiveType, UUIDType

from sealberg.errors import FormatError
from sealberg.spark.metadata_tables.kinds import ENTRIES
from sealberg.spark.metadata_tables.schemas import metric_columns
from sealberg.spark.metadata_tables.unified_partition import partition_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record
    from pyiceberg.types import IcebergType

    from sealberg.spark.metadata_tables.unified_partition import UnifiedField

Row = dict[str, Any]
COUNTS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
MAPS: Final = (*COUNTS, "lower_bounds", "upper_bounds")
LISTS: Final = ("split_offsets", "equality_ids")
OF_VERSION_3: Final = ("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")


class Partitions:
    """Partition values of files as values of the unified struct, whichever spec a file was written by."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.fields: list[UnifiedField] = partition_fields(metadata)
        self._places: dict[int, dict[int, int]] = {
            spec_id: {field.field_id: at for at, field in enumerate(spec.fields)}
            for spec_id, spec in metadata.specs().items()
        }

    def of(self, file: DataFile) -> Row | None:
        """None for a table that never had a partition field."""
        if self.fields and file.spec_id not in self._places:
            raise FormatError(
                f"{file.file_path!s}: the file uses partition spec {file.spec_id}, which is not in the table metadata"
            )
        return self.shown(file.spec_id, file.partition)

    def shown(self, spec_id: int, values: Record | Sequence[Any]) -> Row | None:
        """The same for the partition values of a file of this spec."""
        if not self.fields:
            return None
        places = self._places[spec_id]
        return {
            field.name: _shown(values[places[field.field_id]], field) if field.field_id in places else None
            for field in self.fields
        }


class EntryRows:
    """Makes rows of one metadata table.

    Args:
        columns: the names of the columns that are asked for.
    """

    def __init__(self, metadata: TableMetadata, kind: str, columns: Collection[str]) -> None:
        self._entries = kind in ENTRIES
        self._partitions = Partitions(metadata)
        self._metrics = _Metrics(metadata) if "readable_metrics" in columns else None

    def of(self, entries: Iterable[ManifestEntry]) -> Iterator[Row]:
        for entry in entries:
            if self._entries:
                yield self._metered(_entry(entry, self._file(entry.data_file)), entry.data_file)
            elif entry.status != ManifestEntryStatus.DELETED:
                yield self._metered(self._file(entry.data_file), entry.data_file)

    def _metered(self, row: Row, file: DataFile) -> Row:
        if self._metrics is not None:
            row["readable_metrics"] = self._metrics.of(file)
        return row

    def _file(self, file: DataFile) -> Row:
        row: Row = {
            "content": int(file.content),
            "file_path": str(file.file_path),
            "file_format": file.file_format.value,
            "spec_id": file.spec_id,
            "partition": self._partitions.of(file),
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "key_metadata": None,
            "sort_order_id": file.sort_order_id,
        }
        row.update((name, _pairs(getattr(file, name))) for name in MAPS)
        row.update((name, None if (found := getattr(file, name)) is None else list(found)) for name in LISTS)
        row.update((name, getattr(file, name, None)) for name in OF_VERSION_3)
        return row


def _entry(entry: ManifestEntry, file: Row) -> Row:
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": file,
    }


def _pairs(found: Mapping[int, Any] | None) -> list[tuple[int, Any]] | None:
    return None if found is None else sorted(found.items())


class _Metrics:
    """The metrics of a file by the names of columns, with bounds as values."""

    def __init__(self, metadata: TableMetadata) -> None:
        columns = metadata.schema()
        self._columns = [
            (field_id, name, columns.find_type(field_id)) for field_id, name in metric_columns(columns).items()
        ]

    def of(self, file: DataFile) -> Row:
        maps: list[Mapping[int, Any]] = [getattr(file, name) or {} for name in MAPS]
        sizes, counts, nulls, nans, lower, upper = maps
        return {
            name: {
                "column_size": sizes.get(field_id),
                "value_count": counts.get(field_id),
                "null_value_count": nulls.get(field_id),
                "nan_value_count": nans.get(field_id),
                "lower_bound": bound(lower.get(field_id), kind),
                "upper_bound": bound(upper.get(field_id), kind),
            }
            for field_id, name, kind in self._columns
        }


def bound(stored: bytes | None, kind: IcebergType) -> Any:
    """A bound as a value; a column that was widened has bounds of its old type in old files."""
    if stored is None or not isinstance(kind, PrimitiveType):
        return None
    if len(stored) == 4 and isinstance(kind, LongType):
        return struct.unpack("<i", stored)[0]
    if len(stored) == 4 and isinstance(kind, DoubleType):
        return struct.unpack("<f", stored)[0]
    if isinstance(kind, UUIDType):
        return str(UUID(bytes=bytes(stored)))
    try:
        return from_bytes(kind, stored)
    except struct.error:  # a date that became a timestamp
        return None


def _shown(value: Any, field: UnifiedField) -> Any:
    """A partition value as the column has it: a uuid is 16 bytes in a manifest."""
    return str(UUID(bytes=value)) if field.is_uuid and isinstance(value, bytes) else value
