"""The fields of a manifest entry by field id, and entries that were decoded as objects turned into columns.

    0 status   1 snapshot_id   3 sequence_number   4 file_sequence_number   2 data_file: 100 file_path, 102 ...

Names are those of ManifestColumns. `decode_objects` serves manifests whose schema polars cannot decode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.manifest import ManifestEntry

STATUS, FILE, PATH, PARTITION, RECORD_COUNT, SIZE, KEY_METADATA, CONTENT = 0, 2, 100, 102, 103, 104, 131, 134
REQUIRED: Final = {STATUS: "status", CONTENT: "content", 103: "record_count", 104: "file_size_in_bytes"}
NUMBERS: Final = {
    **REQUIRED,
    1: "snapshot_id",
    3: "sequence_number",
    4: "file_sequence_number",
    140: "sort_order_id",
    142: "first_row_id",
    144: "content_offset",
    145: "content_size_in_bytes",
}
TEXTS: Final = {100: "file_path", 101: "file_format", 143: "referenced_data_file"}
COUNTS: Final = {108: "column_sizes", 109: "value_count", 110: "null_value_count", 137: "nan_value_count"}
BOUNDS: Final = {125: "lower_bound", 128: "upper_bound"}
SMALL_TYPES: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
LISTS: Final = {132: "split_offsets", 135: "equality_ids"}

# Where an entry and its file have these fields, as PyIceberg's records.
_OF_ENTRY: Final = {0: 0, 1: 1, 3: 2, 4: 3}
_OF_FILE: Final = {134: 0, 103: 4, 104: 5, 131: 12, 132: 13, 135: 14, 140: 15, 142: 16, 143: 17, 144: 18, 145: 19}
_MAPS: Final = {108: 6, 109: 7, 110: 8, 137: 9, 125: 10, 128: 11}


@dataclass(frozen=True)
class DecodedColumns:
    """Arrow columns as they are stored: by field id, and those of partition fields by theirs."""

    count: int
    fields: Mapping[int, pa.Array] = field(repr=False)
    partition: Mapping[int, pa.Array] = field(repr=False)

    def numbers(self, field_id: int) -> pa.Int64Array:
        values = self.fields.get(field_id)
        if values is None:
            if field_id == CONTENT:  # manifests of version 1 name data files only
                return pa.repeat(pa.scalar(0, pa.int64()), self.count)
            if field_id in REQUIRED:
                raise FormatError(f"a manifest lacks the field {REQUIRED[field_id]}")
            return pa.nulls(self.count, pa.int64())
        if field_id in REQUIRED and values.null_count:
            raise FormatError(f"a manifest entry has no {REQUIRED[field_id]}")
        return _as(values, pa.int64())

    def statuses(self) -> pa.Int64Array:
        return _checked(self.numbers(STATUS), ManifestEntryStatus, "status")

    def contents(self) -> pa.Int64Array:
        return _checked(self.numbers(CONTENT), DataFileContent, "content")

    def texts(self, field_id: int, *, required: bool = False) -> pa.BinaryArray:
        values = self.fields.get(field_id)
        if required and (values is None or values.null_count):
            raise FormatError(f"a manifest entry has no {TEXTS[field_id]}")
        if values is not None and not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            raise FormatError(f"{TEXTS[field_id]} in a manifest is not a string")
        return pa.nulls(self.count, pa.binary()) if values is None else _as(values, pa.binary())

    def keys(self) -> pa.BinaryArray:
        return _as(self.fields.get(KEY_METADATA, pa.nulls(self.count)), pa.binary())


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _checked(values: pa.Int64Array, kind: type[ManifestEntryStatus | DataFileContent], name: str) -> pa.Int64Array:
    known = {int(each) for each in kind}
    for each in values.unique().to_pylist():
        if each not in known:
            raise FormatError(f"a manifest entry has the {name} {each}, expected one of {sorted(known)}")
    return values


def decode_objects(avro_schema: dict[str, Any], entries: Sequence[ManifestEntry]) -> DecodedColumns:
    """The columns of entries that do not have their inherited fields yet."""
    files = [entry.data_file for entry in entries]
    found = {number: pa.array([entry[at] for entry in entries], pa.int64()) for number, at in _OF_ENTRY.items()}
    for number, at in _OF_FILE.items():
        found[number] = pa.array([file[at] for file in files], _kind(number))
    for number, at in _MAPS.items():
        pairs = pa.list_(pa.struct([("key", pa.int64()), ("value", _kind(number))]))
        found[number] = pa.array([None if file[at] is None else list(file[at].items()) for file in files], pairs)
    found[100] = pa.array([str(file.file_path) for file in files], pa.string())
    found[101] = pa.array([file.file_format.value for file in files], pa.string())
    return DecodedColumns(len(entries), found, dict(_partition(avro_schema, entries)))


def _kind(number: int) -> pa.DataType:
    if number in TEXTS:
        return pa.string()
    if number in BOUNDS or number == KEY_METADATA:
        return pa.binary()
    return pa.list_(pa.int64()) if number in LISTS else pa.int64()


def _partition(avro_schema: dict[str, Any], entries: Sequence[ManifestEntry]) -> list[tuple[int, pa.Array]]:
    file = AvroSchemaConversion().avro_to_iceberg(avro_schema).find_type(FILE)
    assert isinstance(file, StructType)
    struct = next(each.field_type for each in file.fields if each.field_id == PARTITION)
    assert isinstance(struct, StructType)
    made = []
    for at, each in enumerate(struct.fields):
        values = [_plain(entry.data_file.partition[at]) for entry in entries]
        made.append((each.field_id, _typed(values, schema_to_pyarrow(each.field_type))))
    return made


def _plain(value: Any) -> Any:
    return value.bytes if isinstance(value, UUID) else value


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Dates and times are numbers here."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.array(values, pa.int64()).view(kind)
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return pa.array(values, kind).cast(SMALL_TYPES.get(kind, kind))
