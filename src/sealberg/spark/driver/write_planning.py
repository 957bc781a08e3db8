"""WritePlan: what the tasks of a write must know. No key is among it: each task makes the keys of its own files.

columns and their ids, partitions, folder     from the metadata of the table
distribution, clustering, order               how Spark brings rows to the tasks
format and sizes of files                     properties of the table, and options of the write
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import VoidTransform

from sealberg.errors import UnsupportedError
from sealberg.files.avro import data_file as avro
from sealberg.files.locations import Location
from sealberg.files.parquet import writer as parquet_write
from sealberg.files.parquet.bloom_filters import BloomFilters
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.properties.table_names import value_of
from sealberg.spark.driver.descriptions import column_path, quoted, transform
from sealberg.spark.driver.storage import storage
from sealberg.spark.protocol.writes import (
    AvroOptions,
    BloomFilterOptions,
    ParquetOptions,
    PartitionPath,
    SortField,
    WritePlan,
)
from sealberg.spark.types import parquet_ids, parquet_kinds, spark_schema
from sealberg.spark.worker.payload import AvroWritePayload, python_program
from sealberg.table.base import new_places
from sealberg.write.row_changes import MERGE_ON_READ

if TYPE_CHECKING:
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.spark.driver.write_options import WriteOptions
    from sealberg.spark.protocol.writes import Command, Distribution, WriteRequest
    from sealberg.table.transaction import EncryptedTransaction

DISTRIBUTION: Final = "write.distribution-mode"
FANOUT: Final = "write.spark.fanout.enabled"
ADVISORY_SIZE: Final = "write.spark.advisory-partition-size-bytes"
CODECS: Final = {"none": "uncompressed", "lz4": "lz4_raw"}  # Parquet's names where PyIceberg has another


def write_plan(
    change: EncryptedTransaction,
    write: WriteRequest,
    options: WriteOptions,
    column_positions: tuple[int, ...] | None,
) -> WritePlan:
    metadata = options.on(change.table_metadata)
    properties, schema, spec = metadata.properties, metadata.schema(), metadata.spec()
    encryption = change.sealed.encryption
    folder = new_places(change.target).new_data_location("x").removesuffix("/x")
    Location.parse(folder, "the folder of the table's data files")  # before the first task writes there
    in_order = write.mode != MERGE_ON_READ and options.in_table_order
    size = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES
    distribution, clustered, order = _shape(metadata, write.command, options)
    shuffled = write.command != "delete" and options.in_table_order
    return WritePlan(
        spark_schema(schema),
        parquet_ids(schema),
        parquet_kinds(schema),
        tuple(PartitionPath(*transform(field), column_path(schema, field.source_id)) for field in spec.fields),
        distribution,
        clustered,
        order,
        folder,
        storage(change.io, folder),
        key_length=encryption.settings.key_length if encryption else 0,
        target_file_size=value_of(properties, size, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT),
        schema_id=schema.schema_id,
        spec_id=spec.spec_id,
        sort_order_id=metadata.default_sort_order_id if in_order else 0,
        parquet=_parquet_options(metadata),
        avro=_avro_options(metadata),
        advisory_partition_size=value_of(properties, ADVISORY_SIZE, None) if shuffled else None,
        column_positions=column_positions,
    )


# -- how rows come to the tasks ------------------------------------------------------------------------


def _shape(
    metadata: V3TableMetadata, command: Command | None, options: WriteOptions
) -> tuple[Distribution, bool, tuple[SortField, ...]]:
    """How Spark distributes rows to the tasks that write them, whether by partition, and in which order.

    A DELETE needs no shuffle: under copy-on-write, one task reads and writes a file, in the order of its rows; under
    merge-on-read, no rows are written. Every other write follows the table.
    """
    if command == "delete" or not options.in_table_order:
        return "none", False, ()
    distribution = _distribution(metadata, command)
    if command == "update" and f"write.{command}.distribution-mode" not in metadata.properties:
        distribution = "none"
    clustered = not value_of(metadata.properties, FANOUT, False)
    return distribution, clustered, _order(metadata)


def _distribution(metadata: V3TableMetadata, command: Command | None) -> Distribution:
    """Java's rule: the property; without it, range for a sorted table and hash for a partitioned table."""
    name = f"write.{command}.distribution-mode" if command else DISTRIBUTION
    mode = value_of(metadata.properties, name if name in metadata.properties else DISTRIBUTION, None)
    partitioned = any(not isinstance(field.transform, VoidTransform) for field in metadata.spec().fields)
    match mode:
        case None:
            if _order(metadata):
                return "range"
            return "hash" if partitioned else "none"
        case "none":
            return "none"
        case "hash":
            return "hash" if partitioned else "none"
    return "range" if partitioned or _order(metadata) else "none"


def _order(metadata: V3TableMetadata) -> tuple[SortField, ...]:
    return tuple(
        SortField(
            *transform(field),
            quoted(metadata.schema(), field.source_id),
            descending=field.direction == SortDirection.DESC,
            nulls_first=field.null_order == NullOrder.NULLS_FIRST,
        )
        for field in metadata.sort_order().fields
        if not isinstance(field.transform, VoidTransform)
    )


# -- how files are written -----------------------------------------------------------------------------


def _format(metadata: V3TableMetadata) -> str:
    form: str = value_of(metadata.properties, TableProperties.WRITE_FILE_FORMAT, "parquet")
    return form


def _avro_options(metadata: V3TableMetadata) -> AvroOptions | None:
    if _format(metadata) != "avro":
        return None
    if KEY_ID_PROPERTY not in metadata.properties:
        raise UnsupportedError("Avro data files are written for encrypted tables only")
    payload = AvroWritePayload(metadata.schema(), avro.write_options(metadata.properties))
    return AvroOptions(python_program(), payload.pickled())


def _parquet_options(metadata: V3TableMetadata) -> ParquetOptions | None:
    if _format(metadata) != "parquet":
        return None
    options = parquet_write.write_options(metadata.properties)
    blooms = BloomFilters.of(metadata.properties, metadata.schema())
    return ParquetOptions(
        CODECS.get(options["compression"], options["compression"]),
        options["row_group_bytes"],
        options["data_page_size"],
        options["dictionary_pagesize_limit"],
        options["max_rows_per_page"],
        blooms.max_bytes,
        blooms.adaptive,
        {path: BloomFilterOptions(bloom.fpp, bloom.ndv) for path, bloom in blooms.columns.items()},
        options["compression_level"],
    )
