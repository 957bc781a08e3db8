"""Properties of tables, and the check of those that a user sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError
from sealberg.properties.known import (
    DATA_PLANNING,
    DELETE_PLANNING,
    HIVE,
    NO_EFFECT,
    OBEYED,
    ORC,
    REFUSED,
    RETRY,
    SKEW,
    VARIANT,
    VECTORS,
    Known,
    find,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

JUDGED: Final = ("write.", "read.", "commit.", "history.", "gc.", "encryption.")
MODES: Final = ("auto", "local", "distributed")
PLANNING_MODES: Final = ("read.data-planning-mode", "read.delete-planning-mode")

_AT_CREATION: Final = "the creator of the table; nobody can change it later"
_EXPIRY: Final = "by `sealberg expire`; table.maintenance.expire_snapshots() says itself which snapshots go"
_LAYOUT: Final = "rows are the same without it"
_BLOOM: Final = "pyarrow writes no filters into encrypted files, with a warning; Spark's writer does"

TABLE_PROPERTIES: Final = (
    Known("format-version", OBEYED, "3 for a new table on Spark"),
    Known("write.format.default", OBEYED, "parquet or avro", default="parquet"),
    Known("write.target-file-size-bytes", OBEYED, default="536870912"),
    Known("write.distribution-mode", OBEYED, "on Spark"),
    Known("write.wap.enabled", OBEYED, "on Spark", default="false"),
    Known("write.summary.partition-limit", OBEYED, default="0"),
    Known("write.data.path", OBEYED),
    Known("write.metadata.path", OBEYED),
    Known("write.object-storage.enabled", OBEYED, "the tasks of one Spark write share a folder", default="false"),
    Known("write.object-storage.partitioned-paths", OBEYED, default="true"),
    Known("write.manifest.compression-codec", OBEYED, default="gzip"),
    Known("write.metadata.delete-after-commit.enabled", OBEYED, default="false"),
    Known("write.metadata.previous-versions-max", OBEYED, default="100"),
    Known("write.metadata.metrics.default", OBEYED, default="truncate(16)"),
    Known("write.metadata.metrics.column.", OBEYED),
    Known("write.parquet.compression-codec", OBEYED, default="zstd"),
    Known("write.parquet.compression-level", OBEYED),
    Known("write.parquet.row-group-size-bytes", OBEYED, default="134217728"),
    Known("write.parquet.row-group-limit", OBEYED, "of PyIceberg; by Python's writer", default="1048576"),
    Known("write.parquet.page-size-bytes", OBEYED, default="1048576"),
    Known("write.parquet.page-row-limit", OBEYED, default="20000"),
    Known("write.parquet.dict-size-bytes", OBEYED, default="2097152"),
    Known("write.parquet.bloom-filter-enabled.column.", OBEYED, _BLOOM, default="false"),
    Known("write.parquet.bloom-filter-fpp.column.", OBEYED, _BLOOM, default="0.01"),
    Known("write.parquet.bloom-filter-ndv.column.", OBEYED, _BLOOM),
    Known("write.parquet.bloom-filter-max-bytes", OBEYED, _BLOOM, default="1048576"),
    Known("write.parquet.bloom-filter-adaptive-enabled", OBEYED, _BLOOM, default="false"),
    Known("write.parquet.dict-encoding-enabled.column.", NO_EFFECT, _LAYOUT),
    Known("write.parquet.stats-enabled.column.", NO_EFFECT, _LAYOUT),
    Known("write.parquet.page-version", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-check-min-record-count", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-check-max-record-count", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-size-track-uncompressed", NO_EFFECT, _LAYOUT),
    Known("write.parquet.shred-variants", NO_EFFECT, VARIANT),
    Known("write.parquet.variant-inference-buffer-size", NO_EFFECT, VARIANT),
    Known("write.avro.compression-codec", OBEYED, default="gzip"),
    Known("write.avro.compression-level", OBEYED),
    Known("write.delete.mode", OBEYED, default="copy-on-write"),
    Known("write.update.mode", OBEYED, default="copy-on-write"),
    Known("write.merge.mode", OBEYED, "on Spark", default="copy-on-write"),
    Known("write.delete.isolation-level", OBEYED, default="serializable"),
    Known("write.update.isolation-level", OBEYED, default="serializable"),
    Known("write.merge.isolation-level", OBEYED, "on Spark", default="serializable"),
    Known("write.delete.distribution-mode", OBEYED, "on Spark"),
    Known("write.update.distribution-mode", OBEYED, "on Spark"),
    Known("write.merge.distribution-mode", OBEYED, "on Spark"),
    Known("write.spark.accept-any-schema", OBEYED, "on Spark", default="false"),
    Known("write.spark.auto-schema-evolution.enabled", OBEYED, "on Spark"),
    Known("write.spark.fanout.enabled", OBEYED, "on Spark"),
    Known("write.spark.advisory-partition-size-bytes", OBEYED, "on Spark"),
    Known("write.py-location-provider.impl", REFUSED, "code is named by the catalog's properties, not by a table's"),
    Known("write.location-provider.impl", REFUSED, "a Java class; sealberg would place files elsewhere"),
    Known("write.object-storage.path", REFUSED, "Iceberg's old name of write.data.path"),
    Known("write.folder-storage.path", REFUSED, "Iceberg's old name of write.data.path"),
    Known("write.upsert.enabled", REFUSED, "of Flink: each writer would decide by itself which rows are replaced"),
    Known("write.metadata.compression-codec", NO_EFFECT, "metadata.json is written as plain text; gzip is read"),
    Known("write.metadata.metrics.max-inferred-column-defaults", NO_EFFECT, "all columns get metrics, as in PyIceberg"),
    Known("write.manifest.compression-level", NO_EFFECT, "manifests are compressed at the codec's own level"),
    Known("write.delete.format.default", NO_EFFECT, VECTORS),
    Known("write.delete.granularity", NO_EFFECT, VECTORS),
    Known("write.delete.target-file-size-bytes", NO_EFFECT, VECTORS),
    Known("write.delete.avro.", NO_EFFECT, VECTORS),
    Known("write.delete.orc.", NO_EFFECT, VECTORS),
    Known("write.delete.parquet.", NO_EFFECT, VECTORS),
    Known("write.orc.", NO_EFFECT, ORC),
    Known("read.split.target-size", OBEYED, "on Spark"),
    Known("read.split.open-file-cost", OBEYED, "on Spark"),
    Known("read.split.adaptive-size.enabled", OBEYED, "on Spark"),
    Known("read.parquet.vectorization.enabled", OBEYED, "on Spark"),
    Known("read.parquet.vectorization.batch-size", NO_EFFECT, "spark.sql.parquet.columnarReaderBatchSize is obeyed"),
    Known("read.split.metadata-target-size", NO_EFFECT, "a metadata table is read by the driver"),
    Known("read.split.planning-lookback", NO_EFFECT, "files are packed into tasks as Spark packs them"),
    Known("read.data-planning-mode", OBEYED, f"on Spark; {DATA_PLANNING}", default="auto"),
    Known("read.delete-planning-mode", OBEYED, f"on Spark; {DELETE_PLANNING}", default="auto"),
    Known("read.orc.", NO_EFFECT, ORC),
    *(
        Known(f"commit.{group}.{name}", OBEYED, default=default)
        for group, defaults in (
            ("retry", ("100", "100", "20000", "600000")),
            ("status-check", ("3", "1000", "60000", "1800000")),
        )
        for name, default in zip(RETRY, defaults, strict=True)
    ),
    Known("commit.manifest.target-size-bytes", OBEYED, default="8388608"),
    Known("commit.manifest.min-count-to-merge", OBEYED, default="100"),
    Known("commit.manifest-merge.enabled", OBEYED, default="true"),
    Known("commit.max-clock-skew-ms", OBEYED, SKEW, default="600000"),
    Known("history.expire.max-snapshot-age-ms", OBEYED, _EXPIRY, default="432000000"),
    Known("history.expire.min-snapshots-to-keep", OBEYED, _EXPIRY, default="1"),
    Known("history.expire.max-ref-age-ms", OBEYED, _EXPIRY),
    Known("gc.enabled", OBEYED, default="true"),
    Known("encryption.key-id", OBEYED, "the table is encrypted under this key of the KMS", set_by=_AT_CREATION),
    Known("encryption.data-key-length", OBEYED, "16, 24 or 32 bytes", default="16", set_by=_AT_CREATION),
    Known("schema.name-mapping.default", OBEYED),
    Known("identifier-fields.rely", NO_EFFECT, "no constraints are reported to Spark"),
    Known("compatibility.snapshot-id-inheritance.enabled", NO_EFFECT, "of version 1"),
    Known("engine.hive.enabled", OBEYED, HIVE),
    Known("engine.hive.lock-enabled", OBEYED, HIVE, default="true"),
    Known("comment", OBEYED),
)


def check_table_properties(table: str, given: Iterable[str] | Mapping[str, str]) -> None:
    """Refuse names that a user sets on a table, and that sealberg would have to ignore.

    Only names in JUDGED are known to be Iceberg's; every other name is the user's own. Tables that others made keep
    what they have: this looks at what a statement sets.
    """
    for name in given:
        known = find(TABLE_PROPERTIES, name)
        if known is not None and known.fate == REFUSED:
            raise ConfigError(f"{table}: the table property {name} is not supported: {known.reason}")
        if known is None and name.startswith(JUDGED):
            group = name.split(".", maxsplit=1)[0] + "."
            names = ", ".join(one.name for one in TABLE_PROPERTIES if one.name.startswith(group))
            raise ConfigError(f"{table}: unknown table property {name}; known names of {group}* are {names}")
        if isinstance(given, Mapping):
            check_value(table, name, given[name])


def check_value(table: str, name: str, value: str) -> None:
    """Refuse a value that a name of PLANNING_MODES cannot have."""
    if name in PLANNING_MODES and str(value).lower() not in MODES:
        raise ConfigError(f"{table}: {name} is {', '.join(MODES[:-1])} or {MODES[-1]}, not {value}")
