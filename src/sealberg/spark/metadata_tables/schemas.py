"""The columns of metadata tables, as Iceberg Java has them, comments included.

    schema(metadata, "files")         content file_path ... partition<p, id_bucket> ... readable_metrics<id<...>, ...>

A uuid is a string and a fixed is binary, as Spark has them. The field ids are new: nothing is read by them.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestamptzType,
)

from sealberg.metadata.partition_types import refuse_unknown
from sealberg.spark.metadata_tables.kinds import ENTRIES
from sealberg.spark.metadata_tables.unified_partition import partition_fields, spark_kind

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

INT: Final = IntegerType()
LONG: Final = LongType()
TEXT: Final = StringType()
BYTES: Final = BinaryType()
FLAG: Final = BooleanType()
MOMENT: Final = TimestamptzType()

METRICS: Final = (
    ("column_size", "Total size on disk"),
    ("value_count", "Total count, including null and NaN"),
    ("null_value_count", "Null value count"),
    ("nan_value_count", "NaN value count"),
)
BOUNDS: Final = (("lower_bound", "Lower bound"), ("upper_bound", "Upper bound"))


def schema(metadata: TableMetadata, kind: str) -> Schema:  # noqa: PLR0911 (one a table)
    """The columns of a metadata table."""
    build = _Builder(metadata)
    match kind:
        case "snapshots":
            return Schema(*build.snapshots())
        case "history":
            return Schema(*build.history())
        case "refs":
            return Schema(*build.refs())
        case "metadata_log_entries":
            return Schema(*build.metadata_log())
        case "keys":
            return Schema(*build.keys())
        case "manifests":
            return Schema(*build.manifests())
        case "all_manifests":
            return Schema(*build.all_manifests())
        case "partitions":
            return Schema(*build.partitions())
        case "position_deletes":
            return Schema(*build.position_deletes())
    if kind in ENTRIES:
        return Schema(*build.entries())
    return Schema(*build.files(), build.readable_metrics())


def metric_columns(columns: Schema) -> dict[int, str]:
    """The columns that have metrics, by field id: all that are not nested themselves, in the order of their names."""
    names = {
        field_id: columns.find_column_name(field_id) or ""
        for field_id in columns.field_ids
        if isinstance(columns.find_type(field_id), PrimitiveType)
    }
    return dict(sorted(names.items(), key=lambda pair: pair[1]))


class _Builder:
    """Makes columns; each gets the next field id."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._ids = count(1)

    def _field(self, name: str, kind: IcebergType, doc: str | None = None, *, required: bool = False) -> NestedField:
        return NestedField(next(self._ids), name, kind, required=required, doc=doc)

    def _required(self, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
        return self._field(name, kind, doc, required=True)

    def _list(self, kind: IcebergType) -> ListType:
        return ListType(next(self._ids), kind, element_required=True)

    def _map(self, key: IcebergType, value: IcebergType) -> MapType:
        return MapType(next(self._ids), key, next(self._ids), value, value_required=True)

    def _partition(self, doc: str | None = None) -> list[NestedField]:
        """One column, or none for a table that never had a partition field."""
        refuse_unknown(self._metadata)
        fields = partition_fields(self._metadata)
        kind = StructType(*(self._field(field.name, field.kind) for field in fields))
        return [self._required("partition", kind, doc)] if fields else []

    # -- of the table -----------------------------------------------------------------------------

    def snapshots(self) -> list[NestedField]:
        return [
            self._required("committed_at", MOMENT),
            self._required("snapshot_id", LONG),
            self._field("parent_id", LONG),
            self._field("operation", TEXT),
            self._field("manifest_list", TEXT),
            self._field("summary", self._map(TEXT, TEXT)),
        ]

    def history(self) -> list[NestedField]:
        return [
            self._required("made_current_at", MOMENT),
            self._required("snapshot_id", LONG),
            self._field("parent_id", LONG),
            self._required("is_current_ancestor", FLAG),
        ]

    def refs(self) -> list[NestedField]:
        return [
            self._required("name", TEXT),
            self._required("type", TEXT),
            self._required("snapshot_id", LONG),
            self._field("max_reference_age_in_ms", LONG),
            self._field("min_snapshots_to_keep", INT),
            self._field("max_snapshot_age_in_ms", LONG),
        ]

    def metadata_log(self) -> list[NestedField]:
        return [
            self._required("timestamp", MOMENT),
            self._required("file", TEXT),
            self._field("latest_snapshot_id", LONG),
            self._field("latest_schema_id", INT),
            self._field("latest_sequence_number", LONG),
        ]

    def keys(self) -> list[NestedField]:
        """Which Java has not."""
        return [
            self._field("snapshot_id", LONG),
            self._field("key_id", TEXT),
            self._field("kek_id", TEXT),
            self._field("kek_made_at", MOMENT),
            self._field("master_key_id", TEXT),
        ]

    # -- of manifests -----------------------------------------------------------------------------

    def manifests(self, *, of_all: bool = False) -> list[NestedField]:
        """In Java, `all_manifests` lets fields be null that it never has as null, and the other way round."""
        summary = StructType(
            self._required("contains_null", FLAG),
            self._field("contains_nan", FLAG, required=of_all),
            self._field("lower_bound", TEXT),
            self._field("upper_bound", TEXT),
        )
        of_data = ("added_data_files_count", "existing_data_files_count", "deleted_data_files_count")
        of_deletes = ("added_delete_files_count", "existing_delete_files_count", "deleted_delete_files_count")
        return [
            self._required("content", INT),
            self._required("path", TEXT),
            self._required("length", LONG),
            self._field("partition_spec_id", INT, required=not of_all),
            self._field("added_snapshot_id", LONG, required=not of_all),
            *(self._field(name, INT, required=not of_all) for name in of_data),
            *(self._required(name, INT) for name in of_deletes),
            self._field("partition_summaries", self._list(summary), required=not of_all),
        ]

    def all_manifests(self) -> list[NestedField]:
        more = [self._required("reference_snapshot_id", LONG), self._field("key_metadata", BYTES)]
        return [*self.manifests(of_all=True), *more]

    def partitions(self) -> list[NestedField]:
        by = self._partition()
        return [
            *by,
            *([self._required("spec_id", INT)] if by else []),
            self._required("record_count", LONG, "Count of records in data files"),
            self._required("file_count", INT, "Count of data files"),
            self._required("total_data_file_size_in_bytes", LONG, "Total size in bytes of data files"),
            self._required("position_delete_record_count", LONG, "Count of records in position delete files"),
            self._required("position_delete_file_count", INT, "Count of position delete files"),
            self._required("equality_delete_record_count", LONG, "Count of records in equality delete files"),
            self._required("equality_delete_file_count", INT, "Count of equality delete files"),
            self._field("last_updated_at", MOMENT, "Commit time of snapshot that last updated this partition"),
            self._field("last_updated_snapshot_id", LONG, "Id of snapshot that last updated this partition"),
        ]

    # -- of entries -------------------------------------------------------------------------------

    def files(self) -> list[NestedField]:
        whole = "Fully qualified location (URI with FS scheme) of a data file that all deletes reference"
        return [
            self._field("content", INT, "Contents of the file: 0=data, 1=position deletes, 2=equality deletes"),
            self._required("file_path", TEXT, "Location URI with FS scheme"),
            self._required("file_format", TEXT, "File format name: avro, orc, or parquet"),
            self._field("spec_id", INT, "Partition spec ID"),
            *self._partition("Partition data tuple, schema based on the partition spec"),
            self._required("record_count", LONG, "Number of records in the file"),
            self._required("file_size_in_bytes", LONG, "Total file size in bytes"),
            self._field("column_sizes", self._map(INT, LONG), "Map of column id to total size on disk"),
            self._field(
                "value_counts", self._map(INT, LONG), "Map of column id to total count, including null and NaN"
            ),
            self._field("null_value_counts", self._map(INT, LONG), "Map of column id to null value count"),
            self._field(
                "nan_value_counts", self._map(INT, LONG), "Map of column id to number of NaN values in the column"
            ),
            self._field("lower_bounds", self._map(INT, BYTES), "Map of column id to lower bound"),
            self._field("upper_bounds", self._map(INT, BYTES), "Map of column id to upper bound"),
            self._field("key_metadata", BYTES, "Encryption key metadata blob"),
            self._field("split_offsets", self._list(LONG), "Splittable offsets"),
            self._field("equality_ids", self._list(INT), "Equality comparison field IDs"),
            self._field("sort_order_id", INT, "Sort order ID"),
            self._field("first_row_id", LONG, "The first row ID assigned to the first row in the data file"),
            self._field("referenced_data_file", TEXT, whole),
            self._field("content_offset", LONG, "The offset in the file where the content starts"),
            self._field("content_size_in_bytes", LONG, "The length of referenced content stored in the file"),
        ]

    def entries(self) -> list[NestedField]:
        return [
            self._required("status", INT),
            self._field("snapshot_id", LONG),
            self._field("sequence_number", LONG),
            self._field("file_sequence_number", LONG),
            self._required("data_file", StructType(*self.files())),
            self.readable_metrics(),
        ]

    def readable_metrics(self) -> NestedField:
        columns = self._metadata.schema()
        by_column = []
        for field_id, name in metric_columns(columns).items():
            kind = spark_kind(columns.find_type(field_id))
            counts = [self._field(metric, LONG, doc) for metric, doc in METRICS]
            bounds = [self._field(metric, kind, doc) for metric, doc in BOUNDS]
            by_column.append(self._field(name, StructType(*counts, *bounds), f"Metrics for column {name}"))
        return self._field("readable_metrics", StructType(*by_column), "Column metrics in readable form")

    def position_deletes(self) -> list[NestedField]:
        of_vector = [
            self._field("content_offset", LONG, "The offset in the DV where the content starts"),
            self._field("content_size_in_bytes", LONG, "The length in bytes of the DV blob"),
        ]
        row = StructType(*(self._renumbered(field) for field in self._metadata.schema().fields))
        return [
            self._required("file_path", TEXT, "Path of a file in which a deleted row is stored"),
            self._required("pos", LONG, "Ordinal position of a deleted row in the data file"),
            self._field("row", row, "Deleted row values"),
            *self._partition("Partition that position delete row belongs to"),
            self._required("spec_id", INT, "Spec ID used to track the file containing a row"),
            self._required("delete_file_path", TEXT, "Path of the file in which a row is stored"),
            *(of_vector if self._metadata.format_version >= 3 else []),
        ]

    def _renumbered(self, field: NestedField) -> NestedField:
        return self._field(field.name, self._renumbered_type(field.field_type), field.doc, required=field.required)

    def _renumbered_type(self, kind: IcebergType) -> IcebergType:
        match kind:
            case StructType():
                return StructType(*map(self._renumbered, kind.fields))
            case ListType():
                element = self._renumbered_type(kind.element_type)
                return ListType(next(self._ids), element, element_required=kind.element_required)
            case MapType():
                key, value = self._renumbered_type(kind.key_type), self._renumbered_type(kind.value_type)
                return MapType(next(self._ids), key, next(self._ids), value, value_required=kind.value_required)
        return spark_kind(kind)
