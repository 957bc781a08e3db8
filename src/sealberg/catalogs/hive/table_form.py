"""A table in the Hive Metastore as Iceberg Java writes it: columns, location, and parameters for tools that read Hive.

uuid, snapshot-count, current-snapshot-id, -timestamp-ms, -summary    facts for tools that do not read the metadata
current-schema, default-partition-spec, default-sort-order            as JSON, if they are not too long
numFiles, numRows, totalSize                                          Hive's own statistics
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from hive_metastore.ttypes import Table as HiveTable
from pyiceberg.catalog import EXTERNAL_TABLE
from pyiceberg.catalog.hive import HIVE_PRIMITIVE_TYPES, SchemaToHiveConverter
from pyiceberg.schema import visit
from pyiceberg.types import DecimalType, PrimitiveType

from sealberg.catalogs.table_parameters import moved
from sealberg.errors import UnsupportedError
from sealberg.metadata import java_json
from sealberg.metadata.schema_json import schema_json, sort_order_json, spec_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.catalogs.base import Name
    from sealberg.catalogs.metastore import Version
    from sealberg.metadata.table_metadata import V3TableMetadata

LONGEST: Final = 32_672  # of a parameter; Java's default, which every database behind a metastore can hold
OWNER: Final = "hive.metastore.table.owner"
TRANSLATED: Final = {"gc.enabled": "external.table.purge"}
ENGINE: Final = "engine.hive.enabled"
HANDLER: Final = "storage_handler"
FORMATS: Final = {
    False: (
        "org.apache.hadoop.mapred.FileInputFormat",
        "org.apache.hadoop.mapred.FileOutputFormat",
        "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    ),
    True: (
        "org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
        "org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
        "org.apache.iceberg.mr.hive.HiveIcebergSerDe",
    ),
}
OF_VERSION: Final = (
    "current-snapshot-id",
    "current-snapshot-timestamp-ms",
    "current-snapshot-summary",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
    "COLUMN_STATS_ACCURATE",
)
STATISTICS: Final = {"numFiles": "total-data-files", "numRows": "total-records", "totalSize": "total-files-size"}


class ToHive(SchemaToHiveConverter):
    """PyIceberg's converter, which raises KeyError for a type that Hive does not have."""

    def primitive(self, primitive: PrimitiveType) -> str:
        if not isinstance(primitive, DecimalType) and type(primitive) not in HIVE_PRIMITIVE_TYPES:
            raise UnsupportedError(
                f"the Hive Metastore has no type for {primitive}; use another type or another catalog"
            )
        return super().primitive(primitive)


def storage(metadata: V3TableMetadata, *, hive2: bool, before: Any = None) -> Any:
    """The location and the columns of a table; refuses types and names that Hive does not have.

    Args:
        metadata: the new metadata.
        hive2: whether the metastore has version 2.
        before: the storage descriptor in the metastore; its formats stay unless the table sets engine.hive.enabled.
    """
    names = [field.name for field in metadata.schema().fields]
    if again := [name for name in names if name.lower() in {other.lower() for other in names if other != name}]:
        raise UnsupportedError(
            f"the Hive Metastore has no columns whose names differ in case only: {', '.join(again)}; use another name "
            "or another catalog"
        )
    columns = [
        FieldSchema(field.name, visit(field.field_type, ToHive(hive2)), field.doc) for field in metadata.schema().fields
    ]
    engine = metadata.properties.get(ENGINE)
    if before is not None and engine is None:
        before.cols, before.location = columns, metadata.location
        return before
    reader, writer, rows = FORMATS[str(engine).lower() == "true"]
    return StorageDescriptor(
        cols=columns,
        location=metadata.location,
        inputFormat=reader,
        outputFormat=writer,
        serdeInfo=SerDeInfo(serializationLib=rows, parameters={}),
    )


def new_table(name: Name, version: Version, *, owner: str, hive2: bool) -> HiveTable:
    now = int(time.time())
    return HiveTable(
        dbName=name[0],
        tableName=name[1],
        owner=version.metadata.properties.get(OWNER, owner),
        createTime=now,
        lastAccessTime=now,
        retention=2**31 - 1,
        sd=storage(version.metadata, hive2=hive2),
        partitionKeys=[],
        tableType=EXTERNAL_TABLE,
        parameters={"EXTERNAL": "TRUE", **parameters_after({}, version)},
    )


def parameters_after(
    before: Mapping[str, str], version: Version, *, old: str | None = None, gone: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The parameters of a table after a commit, in Java's form."""
    stale = {*OF_VERSION, OWNER, *TRANSLATED, *(TRANSLATED[key] for key in gone & TRANSLATED.keys())}
    after = moved(before, version, old=old, gone=gone)
    translated = {
        hive: version.metadata.properties[ours]
        for ours, hive in TRANSLATED.items()
        if ours in version.metadata.properties
    }
    engine = version.metadata.properties.get(ENGINE)
    if engine is not None:
        stale.add(HANDLER)
        translated |= {HANDLER: "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler"} if engine == "true" else {}
    kept = {key: value for key, value in after.items() if key not in stale}
    return {**kept, **translated, **_facts(version.metadata)}


def _facts(metadata: V3TableMetadata) -> dict[str, str]:
    head = metadata.current_snapshot()
    out = {"uuid": str(metadata.table_uuid), "snapshot-count": str(len(metadata.snapshots))}
    out["DO_NOT_UPDATE_STATS"] = "true"
    values: dict[str, Any] = {"current-schema": schema_json(metadata.schema())}
    if not metadata.spec().is_unpartitioned():
        values["default-partition-spec"] = spec_json(metadata.spec())
    if not metadata.sort_order().is_unsorted:
        values["default-sort-order"] = sort_order_json(metadata.sort_order())
    if head is not None:
        summary = head.summary.additional_properties if head.summary else {}
        out |= {
            "current-snapshot-id": str(head.snapshot_id),
            "current-snapshot-timestamp-ms": str(head.timestamp_ms),
            **{hive: summary[ours] for hive, ours in STATISTICS.items() if ours in summary},
        }
        values["current-snapshot-summary"] = summary
    encoded = {key: java_json.dumps(value) for key, value in values.items()}
    return out | {key: text for key, text in encoded.items() if len(text) <= LONGEST}
