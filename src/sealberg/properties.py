"""Every option, setting and property of Spark, Iceberg 1.12 and PyIceberg 0.12, and what sealberg does with it.

    OBEYED      has its effect; a value that it cannot have is an error
    REFUSED     an error by name; the reason says what to use instead
    NO_EFFECT   accepted, because the rows are the same without it; the reason says why

    READ_OPTIONS  WRITE_OPTIONS  SESSION_SETTINGS  APPLICATION_SETTINGS  TABLE_PROPERTIES  CATALOG_PROPERTIES
    TABLES      all five, each with the people who may set its names

docs/properties.md is made from these tables: `python -m sealberg.properties > docs/properties.md`.

A name that ends in a dot is a prefix. A name that is in none of these tables is an error that lists the known names,
with one exception: a property of a table outside JUDGED is the user's own, as Iceberg allows. tests/test_properties.py
goes over every entry, and compares the tables with the names that PyIceberg and the Java sources define.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fate(StrEnum):
    OBEYED = "obeyed"
    REFUSED = "refused"
    NO_EFFECT = "no effect"


class Known(NamedTuple):
    """One name.

    Args:
        reason: may be empty if the name is obeyed as Iceberg documents it.
        default: the value that counts if nobody sets the name; None if the name then has no effect, or Spark, Iceberg
            or the store decides.
        set_by: who may set the name, if not everybody who may set names of the same table.
    """

    name: str
    fate: Fate
    reason: str = ""
    default: str | None = None
    set_by: str | None = None

    def covers(self, name: str) -> bool:
        return name == self.name or (self.name.endswith(".") and name.startswith(self.name))


OBEYED, REFUSED, NO_EFFECT = Fate.OBEYED, Fate.REFUSED, Fate.NO_EFFECT
JUDGED: Final = ("write.", "read.", "commit.", "history.", "gc.", "encryption.")

_ORC: Final = "sealberg neither reads nor writes ORC files"
_VARIANT: Final = "sealberg has no variant columns"
_ASYNC: Final = "micro-batches are planned when Spark asks for them"
_PLANNING: Final = "auto, local or distributed: whether the driver reads {} or Spark's tasks do, with their keys"
_DATA: Final = _PLANNING.format("manifests of data files")
_DELETES: Final = _PLANNING.format("manifests of delete files")
MODES: Final = ("auto", "local", "distributed")
PLANNING_MODES: Final = ("read.data-planning-mode", "read.delete-planning-mode")
_EXECUTOR: Final = "executors have no cache: each task gets its own files with their keys"
_VECTORS: Final = "rows are deleted by deletion vectors in Puffin files, the only form of version 3"
_RETRY: Final = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
_NO: Final = "false"
_SKEW: Final = "how far the clock may be behind the last change of a table; the catalog's value goes first"
_AT_CREATION: Final = "the creator of the table; nobody can change it later"
_SPEC: Final = "rows are written with the table's current partition spec and sort order"


class NameTable(NamedTuple):
    """The names of one kind."""

    title: str
    who: str
    set_by: str
    names: tuple[Known, ...]


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


def find(table: tuple[Known, ...], name: str) -> Known | None:
    return next((one for one in table if one.covers(name)), None)


READ_OPTIONS: Final = (
    Known("branch", OBEYED),
    Known("tag", OBEYED),
    Known("snapshot-id", OBEYED),
    Known("as-of-timestamp", OBEYED),
    Known("start-snapshot-id", OBEYED),
    Known("end-snapshot-id", OBEYED),
    Known("versionasof", OBEYED, "by Spark itself"),
    Known("timestampasof", OBEYED, "by Spark itself"),
    Known("split-size", OBEYED),
    Known("file-open-cost", OBEYED),
    Known("vectorization-enabled", OBEYED, "false hands rows to Spark one by one"),
    Known("aggregate-push-down-enabled", OBEYED),
    Known("locality", OBEYED),
    Known("stream-from-timestamp", OBEYED),
    Known("streaming-skip-delete-snapshots", OBEYED),
    Known("streaming-skip-overwrite-snapshots", OBEYED),
    Known("streaming-max-files-per-micro-batch", OBEYED),
    Known("streaming-max-rows-per-micro-batch", OBEYED),
    Known("streaming-max-bytes-per-micro-batch", OBEYED, "of sealberg's own"),
    Known("batch-size", REFUSED, "Spark's reader takes it from spark.sql.parquet.columnarReaderBatchSize"),
    Known("start-timestamp", REFUSED, "of changelog scans; start-snapshot-id and end-snapshot-id read appended rows"),
    Known("end-timestamp", REFUSED, "of changelog scans; start-snapshot-id and end-snapshot-id read appended rows"),
    Known("path", REFUSED, "a table is read by the name of its catalog: spark.table(...)"),
    Known("lookback", NO_EFFECT, "files are packed into tasks as Spark packs them, without a lookback"),
    Known("async-micro-batch-planning-enabled", NO_EFFECT, _ASYNC),
    Known("streaming-snapshot-polling-interval-ms", NO_EFFECT, _ASYNC),
    Known("async-queue-preload-file-limit", NO_EFFECT, _ASYNC),
    Known("async-queue-preload-row-limit", NO_EFFECT, _ASYNC),
)

WRITE_OPTIONS: Final = (
    Known("write-format", OBEYED),
    Known("target-file-size-bytes", OBEYED),
    Known("compression-codec", OBEYED),
    Known("compression-level", OBEYED),
    Known("distribution-mode", OBEYED),
    Known("advisory-partition-size", OBEYED),
    Known("fanout-enabled", OBEYED, "true: rows are not sorted by partition, and several files are open at a time"),
    Known("use-table-distribution-and-ordering", OBEYED),
    Known("branch", OBEYED),
    Known("isolation-level", OBEYED),
    Known("validate-from-snapshot-id", OBEYED),
    Known("overwrite-mode", OBEYED),
    Known("merge-schema", OBEYED, "for tables with write.spark.accept-any-schema: Spark refuses new columns otherwise"),
    Known("mergeschema", OBEYED, "Spark's name of merge-schema"),
    Known("check-nullability", OBEYED, "for tables with write.spark.accept-any-schema: Spark checks the others"),
    Known("check-ordering", OBEYED, "for tables with write.spark.accept-any-schema: Spark orders by name otherwise"),
    Known("snapshot-property.", OBEYED),
    Known("path", OBEYED, "the location of a table that the write makes; another path than the table's is an error"),
    Known("output-spec-id", REFUSED, _SPEC),
    Known("output-sort-order-id", REFUSED, _SPEC),
    Known("delete-format", NO_EFFECT, _VECTORS),
    Known("target-delete-file-size-bytes", NO_EFFECT, _VECTORS),
    Known("delete-granularity", NO_EFFECT, _VECTORS),
    Known("compression-strategy", NO_EFFECT, _ORC),
    Known("shred-variants", NO_EFFECT, _VARIANT),
    Known("variant-inference-buffer-size", NO_EFFECT, _VARIANT),
    Known("use-merge-append-for-streaming", NO_EFFECT, "every append merges manifests as the table's properties say"),
)

SESSION_SETTINGS: Final = (
    Known("spark.wap.id", OBEYED),
    Known("spark.wap.branch", OBEYED),
    Known("spark.sql.iceberg.vectorization.enabled", OBEYED),
    Known("spark.sql.iceberg.check-nullability", OBEYED),
    Known("spark.sql.iceberg.check-ordering", OBEYED),
    Known("spark.sql.iceberg.merge-schema", OBEYED),
    Known("spark.sql.iceberg.aggregate-push-down.enabled", OBEYED),
    Known("spark.sql.iceberg.distribution-mode", OBEYED),
    Known("spark.sql.iceberg.compression-codec", OBEYED),
    Known("spark.sql.iceberg.compression-level", OBEYED),
    Known("spark.sql.iceberg.advisory-partition-size", OBEYED),
    Known("spark.sql.iceberg.locality.enabled", OBEYED),
    Known("spark.sql.iceberg.report-column-stats", OBEYED, "with spark.sql.cbo.enabled", default="true"),
    Known("spark.sql.iceberg.read.split-size", OBEYED),
    Known("spark.sql.iceberg.read.adaptive-split-size.enabled", OBEYED),
    Known("spark.sql.iceberg.read.adaptive-split-size.parallelism", OBEYED),
    Known("spark.sql.iceberg.snapshot-property.", OBEYED),
    Known("spark.sql.iceberg.compression-strategy", NO_EFFECT, _ORC),
    Known("spark.sql.iceberg.data-planning-mode", OBEYED, _DATA),
    Known("spark.sql.iceberg.delete-planning-mode", OBEYED, _DELETES),
    Known("spark.sql.iceberg.planning.preserve-data-grouping", NO_EFFECT, "no grouping is reported, so joins shuffle"),
    Known("spark.sql.iceberg.identifier-fields-rely", NO_EFFECT, "no constraints are reported to Spark"),
    Known("spark.sql.iceberg.executor-cache.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.delete-files.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.timeout", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.max-entry-size", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.max-total-size", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.locality.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.async-micro-batch-planning-enabled", NO_EFFECT, _ASYNC),
    Known("spark.sql.iceberg.shred-variants", NO_EFFECT, _VARIANT),
    Known("spark.sql.iceberg.variant-inference-buffer-size", NO_EFFECT, _VARIANT),
)

APPLICATION_SETTINGS: Final = (
    Known("spark.sealberg.python", OBEYED, "the Python that a JVM starts for its catalogs", default="python3"),
    Known("spark.sealberg.properties-file", OBEYED, "properties of catalogs, for the Python that a JVM starts"),
    Known("spark.sealberg.programServes", OBEYED, "set by `configure`: the catalogs wait for `install`", default=_NO),
    Known("spark.sealberg.allowClearNetwork", OBEYED, "accepts a network of Spark without protection", default=_NO),
    Known("spark.sealberg.allowOpenServer", OBEYED, "accepts a SQL server that asks nobody who they are", default=_NO),
)

_EXPIRY: Final = "by `sealberg expire`; table.maintenance.expire_snapshots() says itself which snapshots go"
_HIVE: Final = "of Hive catalogs"
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
    Known("write.parquet.shred-variants", NO_EFFECT, _VARIANT),
    Known("write.parquet.variant-inference-buffer-size", NO_EFFECT, _VARIANT),
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
    Known("write.delete.format.default", NO_EFFECT, _VECTORS),
    Known("write.delete.granularity", NO_EFFECT, _VECTORS),
    Known("write.delete.target-file-size-bytes", NO_EFFECT, _VECTORS),
    Known("write.delete.avro.", NO_EFFECT, _VECTORS),
    Known("write.delete.orc.", NO_EFFECT, _VECTORS),
    Known("write.delete.parquet.", NO_EFFECT, _VECTORS),
    Known("write.orc.", NO_EFFECT, _ORC),
    Known("read.split.target-size", OBEYED, "on Spark"),
    Known("read.split.open-file-cost", OBEYED, "on Spark"),
    Known("read.split.adaptive-size.enabled", OBEYED, "on Spark"),
    Known("read.parquet.vectorization.enabled", OBEYED, "on Spark"),
    Known("read.parquet.vectorization.batch-size", NO_EFFECT, "spark.sql.parquet.columnarReaderBatchSize is obeyed"),
    Known("read.split.metadata-target-size", NO_EFFECT, "a metadata table is read by the driver"),
    Known("read.split.planning-lookback", NO_EFFECT, "files are packed into tasks as Spark packs them"),
    Known("read.data-planning-mode", OBEYED, f"on Spark; {_DATA}", default="auto"),
    Known("read.delete-planning-mode", OBEYED, f"on Spark; {_DELETES}", default="auto"),
    Known("read.orc.", NO_EFFECT, _ORC),
    *(
        Known(f"commit.{group}.{name}", OBEYED, default=default)
        for group, defaults in (
            ("retry", ("100", "100", "20000", "600000")),
            ("status-check", ("3", "1000", "60000", "1800000")),
        )
        for name, default in zip(_RETRY, defaults, strict=True)
    ),
    Known("commit.manifest.target-size-bytes", OBEYED, default="8388608"),
    Known("commit.manifest.min-count-to-merge", OBEYED, default="100"),
    Known("commit.manifest-merge.enabled", OBEYED, default="true"),
    Known("commit.max-clock-skew-ms", OBEYED, _SKEW, default="600000"),
    Known("history.expire.max-snapshot-age-ms", OBEYED, _EXPIRY, default="432000000"),
    Known("history.expire.min-snapshots-to-keep", OBEYED, _EXPIRY, default="1"),
    Known("history.expire.max-ref-age-ms", OBEYED, _EXPIRY),
    Known("gc.enabled", OBEYED, default="true"),
    Known("encryption.key-id", OBEYED, "the table is encrypted under this key of the KMS", set_by=_AT_CREATION),
    Known("encryption.data-key-length", OBEYED, "16, 24 or 32 bytes", default="16", set_by=_AT_CREATION),
    Known("schema.name-mapping.default", OBEYED),
    Known("identifier-fields.rely", NO_EFFECT, "no constraints are reported to Spark"),
    Known("compatibility.snapshot-id-inheritance.enabled", NO_EFFECT, "of version 1"),
    Known("engine.hive.enabled", OBEYED, _HIVE),
    Known("engine.hive.lock-enabled", OBEYED, _HIVE, default="true"),
    Known("comment", OBEYED),
)

_JAVA_CLASS: Final = "a Java class; sealberg's catalogs are PyIceberg's: type, and py-io-impl for storage"

CATALOG_PROPERTIES: Final = (
    Known("type", OBEYED),
    Known("uri", OBEYED),
    Known("warehouse", OBEYED),
    Known("default-namespace", OBEYED, "on Spark"),
    Known("py-catalog-impl", OBEYED),
    Known("py-io-impl", OBEYED),
    Known("encryption.kms-type", OBEYED, "aws, azure, gcp, keystore, memory, pkcs11 or vault"),
    Known("encryption.kms-impl", OBEYED, "a class of your own, module:Class; instead of encryption.kms-type"),
    Known("encryption.kms.", OBEYED, "of the KMS client, which refuses unknown names; docs/kms.md lists them"),
    Known("encryption.required", OBEYED, "true, or namespaces: plaintext tables are refused there", default="false"),
    Known("encryption.default-key-id", OBEYED, "the key of new tables that name none"),
    Known("encryption.default-key-id.", OBEYED, "the same for a namespace"),
    Known("encryption.expected-key-id.", OBEYED, "the key that a table must have; any other is refused"),
    Known("encryption.kek-cache-ttl-s", OBEYED, "how long an unwrapped KEK stays in memory", default="3600"),
    Known("encryption.kek-lifespan-days", OBEYED, "how long a KEK seals new keys, at most 730", default="730"),
    Known("encryption.allow-plaintext-files", OBEYED, "for manifests that Java wrote in plaintext", default=_NO),
    Known("encryption.allow-missing-length", OBEYED, "for key metadata without a file length", default=_NO),
    Known("sealberg.storage.locations", OBEYED, "other stores in which files of tables may be"),
    Known("sealberg.metadata.max-bytes", OBEYED, "the largest table metadata that are read", default="268435456"),
    Known("sealberg.rest.storage-endpoints", OBEYED, "endpoints that a REST server may name for storage"),
    Known("commit.max-clock-skew-ms", OBEYED, _SKEW, default="600000"),
    *(
        Known(f"sql.retry.{name}", OBEYED, "of SQL catalogs", default=default)
        for name, default in zip(_RETRY, ("1000", "100", "1000", "30000"), strict=True)
    ),
    Known("kms.", OBEYED, "of AWS KMS, as in Iceberg Java"),
    Known("azure.keyvault.url", OBEYED, "of Azure Key Vault, as in Iceberg Java"),
    Known("iceberg.engine.hive.lock-enabled", OBEYED, _HIVE, default="true"),
    *(
        Known(prefix, OBEYED)
        for prefix in ("s3.", "adls.", "gcs.", "hdfs.", "hf.", "client.", "glue.", "dynamodb.", "hive.")
    ),
    Known("rest.", OBEYED),
    Known("rest-page-size", OBEYED),
    Known("rest-metrics-reporting-enabled", OBEYED),
    Known("prefix", OBEYED),
    Known("scope", OBEYED),
    Known("audience", OBEYED),
    Known("resource", OBEYED),
    Known("oauth2-server-uri", OBEYED),
    Known("ssl.", OBEYED),
    Known("snapshot-loading-mode", OBEYED),
    Known("scan-planning-mode", OBEYED),
    Known("namespace-separator", OBEYED),
    Known("view-endpoints-supported", OBEYED),
    Known("table-name", OBEYED, "of DynamoDB"),
    Known("init_catalog_tables", OBEYED, "of SQL catalogs"),
    Known("echo", OBEYED, "of SQL catalogs"),
    Known("pool_pre_ping", OBEYED, "of SQL catalogs"),
    Known("lock-check-min-wait-time", OBEYED, _HIVE, default="0.05"),
    Known("lock-check-max-wait-time", OBEYED, _HIVE, default="1"),
    Known("lock-check-retries", OBEYED, _HIVE),
    Known("table-default.", OBEYED),
    Known("table-override.", OBEYED),
    Known("catalog-impl", REFUSED, _JAVA_CLASS),
    Known("io-impl", REFUSED, _JAVA_CLASS),
    Known("lock-impl", REFUSED, _JAVA_CLASS),
    Known("metrics-reporter-impl", REFUSED, _JAVA_CLASS),
    Known("view-default.", REFUSED, "sealberg has no views"),
    Known("view-override.", REFUSED, "sealberg has no views"),
    Known("unique-table-location", REFUSED, "locations come from PyIceberg: give LOCATION at CREATE TABLE"),
    Known("cache-enabled", NO_EFFECT, "a statement loads its tables anew, so that it sees what others have committed"),
    Known("cache.", NO_EFFECT, "a statement loads its tables anew, so that it sees what others have committed"),
    Known("io.manifest.", NO_EFFECT, "decoded manifests are kept in memory by sealberg itself"),
    Known("clients", NO_EFFECT, "of the pools of Iceberg Java"),
    Known("client-pool-cache-keys", NO_EFFECT, "of the pools of Iceberg Java"),
    Known("auth.session-timeout-ms", NO_EFFECT, "of the sessions of Iceberg Java"),
    Known("lock.", NO_EFFECT, "of the lock managers of Iceberg Java"),
    Known("app-id", NO_EFFECT, "a label in the logs of Iceberg Java"),
    Known("app-name", NO_EFFECT, "a label in the logs of Iceberg Java"),
    Known("user", NO_EFFECT, "a label in the logs of Iceberg Java"),
)

TABLES: Final = (
    NameTable(
        "Properties of a catalog",
        "the configuration",
        "the configuration of the program: `.pyiceberg.yaml`, `PYICEBERG_CATALOG__*`, arguments of `load_catalog`, "
        "`spark.sql.catalog.NAME.*` (no secrets there). A table, a namespace or a server cannot set them",
        CATALOG_PROPERTIES,
    ),
    NameTable(
        "Properties of a table",
        "whoever may alter the table",
        "whoever may create or alter the table: `properties=` in Python, `TBLPROPERTIES` in SQL. Names outside "
        f"{', '.join(f'`{group}*`' for group in JUDGED)} that are not listed are your own, and kept",
        TABLE_PROPERTIES,
    ),
    NameTable("Options of a read on Spark", "the query", "the query: `spark.read.option(...)`", READ_OPTIONS),
    NameTable(
        "Options of a write on Spark", "the write", "the write: `frame.write.option(...)`, `writeTo`", WRITE_OPTIONS
    ),
    NameTable(
        "Settings of a Spark session",
        "the session",
        "the session: `spark.conf.set(...)`, `SET name=value`",
        SESSION_SETTINGS,
    ),
    NameTable(
        "Settings of a Spark application",
        "whoever starts Spark",
        "whoever starts Spark: `--conf`, `spark-defaults.conf`, the builder of a session",
        APPLICATION_SETTINGS,
    ),
)


def page() -> str:
    """docs/properties.md"""
    lines = [
        "# Properties and options",
        "",
        "<!-- Made from src/sealberg/properties.py: python -m sealberg.properties > docs/properties.md -->",
        "",
        "Every name that sealberg, PyIceberg 0.12, Iceberg 1.12 and its Spark connector know, and what becomes of it:",
        "",
        "* **obeyed**: the name has the effect that Iceberg documents, or the note explains; a wrong value is an error",
        "* **refused**: setting the name is an error; the note says what to use instead",
        "* **no effect**: the name is accepted, because the rows are the same without it; the note says why",
        "",
        "On Spark, any other name is an error that lists the known ones. In Python, other properties of a catalog go",
        "to PyIceberg. `NAME.*` is every name with that beginning. Where no default is given, it is Iceberg's.",
    ]
    for table in TABLES:
        lines += ["", f"## {table.title}", "", f"Set by {table.set_by}.", ""]
        lines += ["| name | default | who may set it | what happens |", "|---|---|---|---|"]
        for known in sorted(table.names):
            name = f"{known.name}*" if known.name.endswith(".") else known.name
            default = "" if known.default is None else f"`{known.default}`"
            happens = f"**{known.fate}**" + (f": {known.reason}" if known.reason else "")
            setter = "nobody" if known.fate == REFUSED else known.set_by or table.who
            lines.append(f"| `{name}` | {default} | {setter} | {happens} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
