"""Properties of tables, and the check of those that a user sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, UnsupportedError
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
from sealberg.properties.values import (
    COUNT,
    DISTRIBUTION,
    FILE_FORMAT,
    FLAG,
    ISOLATION,
    LEVEL,
    METRICS,
    MILLISECONDS,
    MODE,
    NAME_MAPPING,
    PLANNING,
    POSITIVE,
    RETRIES,
    SHARE,
    SIZE,
    WAIT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.properties.values import Kind


JUDGED: Final = ("write.", "read.", "commit.", "history.", "gc.", "encryption.")

_AT_CREATION: Final = "the creator of the table; nobody can change it later"
_EXPIRY: Final = "by `sealberg expire`; table.maintenance.expire_snapshots() says itself which snapshots go"
_LAYOUT: Final = "rows are the same without it"
_ADAPTIVE: Final = "by Spark's writer; Python's warns, and makes filters of one size"

TABLE_PROPERTIES: Final = (
    Known("format-version", OBEYED, "3 for a new table on Spark"),
    Known("write.format.default", OBEYED, "parquet or avro", default="parquet", kind=FILE_FORMAT),
    Known("write.target-file-size-bytes", OBEYED, default="536870912", kind=SIZE),
    Known("write.distribution-mode", OBEYED, "on Spark", kind=DISTRIBUTION),
    Known("write.wap.enabled", OBEYED, "on Spark", default="false", kind=FLAG),
    Known(
        "write.summary.partition-limit",
        OBEYED,
        "summaries show partition values: refused for an encrypted table, and not obeyed where another tool has set it",
        default="0",
        kind=COUNT,
    ),
    Known("write.data.path", OBEYED),
    Known("write.metadata.path", OBEYED),
    Known(
        "write.object-storage.enabled",
        OBEYED,
        "the tasks of one Spark write share a folder",
        default="false",
        kind=FLAG,
    ),
    Known("write.object-storage.partitioned-paths", OBEYED, default="true", kind=FLAG),
    Known("write.manifest.compression-codec", OBEYED, default="gzip"),
    Known("write.metadata.delete-after-commit.enabled", OBEYED, default="false", kind=FLAG),
    Known("write.metadata.previous-versions-max", OBEYED, default="100", kind=LEVEL),
    Known("write.metadata.metrics.default", OBEYED, default="truncate(16)", kind=METRICS),
    Known("write.metadata.metrics.column.", OBEYED, kind=METRICS),
    Known("write.parquet.compression-codec", OBEYED, default="zstd"),
    Known("write.parquet.compression-level", OBEYED, kind=LEVEL),
    Known("write.parquet.row-group-size-bytes", OBEYED, default="134217728", kind=SIZE),
    Known("write.parquet.row-group-limit", OBEYED, "of PyIceberg; by Python's writer", default="1048576", kind=SIZE),
    Known("write.parquet.page-size-bytes", OBEYED, default="1048576", kind=SIZE),
    Known("write.parquet.page-row-limit", OBEYED, default="20000", kind=SIZE),
    Known("write.parquet.dict-size-bytes", OBEYED, default="2097152", kind=SIZE),
    Known("write.parquet.bloom-filter-enabled.column.", OBEYED, default="false", kind=FLAG),
    Known("write.parquet.bloom-filter-fpp.column.", OBEYED, default="0.01", kind=SHARE),
    Known("write.parquet.bloom-filter-ndv.column.", OBEYED, kind=SIZE),
    Known("write.parquet.bloom-filter-max-bytes", OBEYED, default="1048576", kind=SIZE),
    Known("write.parquet.bloom-filter-adaptive-enabled", OBEYED, _ADAPTIVE, default="false", kind=FLAG),
    Known("write.parquet.dict-encoding-enabled.column.", NO_EFFECT, _LAYOUT),
    Known("write.parquet.stats-enabled.column.", NO_EFFECT, _LAYOUT),
    Known("write.parquet.page-version", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-check-min-record-count", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-check-max-record-count", NO_EFFECT, _LAYOUT),
    Known("write.parquet.row-group-size-track-uncompressed", NO_EFFECT, _LAYOUT),
    Known("write.parquet.shred-variants", NO_EFFECT, VARIANT),
    Known("write.parquet.variant-inference-buffer-size", NO_EFFECT, VARIANT),
    Known("write.avro.compression-codec", OBEYED, default="gzip"),
    Known("write.avro.compression-level", OBEYED, kind=LEVEL),
    Known("write.delete.mode", OBEYED, default="copy-on-write", kind=MODE),
    Known("write.update.mode", OBEYED, default="copy-on-write", kind=MODE),
    Known("write.merge.mode", OBEYED, "on Spark", default="copy-on-write", kind=MODE),
    Known("write.delete.isolation-level", OBEYED, default="serializable", kind=ISOLATION),
    Known("write.update.isolation-level", OBEYED, default="serializable", kind=ISOLATION),
    Known("write.merge.isolation-level", OBEYED, "on Spark", default="serializable", kind=ISOLATION),
    Known("write.delete.distribution-mode", OBEYED, "on Spark", kind=DISTRIBUTION),
    Known("write.update.distribution-mode", OBEYED, "on Spark", kind=DISTRIBUTION),
    Known("write.merge.distribution-mode", OBEYED, "on Spark", kind=DISTRIBUTION),
    Known("write.spark.accept-any-schema", OBEYED, "on Spark", default="false", kind=FLAG),
    Known("write.spark.auto-schema-evolution.enabled", OBEYED, "on Spark", kind=FLAG),
    Known("write.spark.fanout.enabled", OBEYED, "on Spark", kind=FLAG),
    Known("write.spark.advisory-partition-size-bytes", OBEYED, "on Spark", kind=SIZE),
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
    Known("write.delete.target-file-size-bytes", NO_EFFECT, VECTORS, kind=SIZE),
    Known("write.delete.avro.", NO_EFFECT, VECTORS),
    Known("write.delete.orc.", NO_EFFECT, VECTORS),
    Known("write.delete.parquet.", NO_EFFECT, VECTORS),
    Known("write.orc.", NO_EFFECT, ORC),
    Known("read.split.target-size", OBEYED, "on Spark", kind=SIZE),
    Known("read.split.open-file-cost", OBEYED, "on Spark", kind=SIZE),
    Known("read.split.adaptive-size.enabled", OBEYED, "on Spark", kind=FLAG),
    Known("read.parquet.vectorization.enabled", OBEYED, "on Spark", kind=FLAG),
    Known("read.parquet.vectorization.batch-size", NO_EFFECT, "spark.sql.parquet.columnarReaderBatchSize is obeyed"),
    Known("read.split.metadata-target-size", NO_EFFECT, "a metadata table is read by the driver"),
    Known("read.split.planning-lookback", NO_EFFECT, "files are packed into tasks as Spark packs them"),
    Known("read.data-planning-mode", OBEYED, f"on Spark; {DATA_PLANNING}", default="auto", kind=PLANNING),
    Known("read.delete-planning-mode", OBEYED, f"on Spark; {DELETE_PLANNING}", default="auto", kind=PLANNING),
    Known("read.orc.", NO_EFFECT, ORC),
    *(
        Known(name, OBEYED, default=default, kind=RETRIES if name.endswith(RETRY[0]) else WAIT)
        for group, defaults in (
            ("retry", ("100", "100", "20000", "600000")),
            ("status-check", ("3", "1000", "60000", "1800000")),
        )
        for name, default in zip((f"commit.{group}.{each}" for each in RETRY), defaults, strict=True)
    ),
    Known("commit.manifest.target-size-bytes", OBEYED, default="8388608", kind=SIZE),
    Known("commit.manifest.min-count-to-merge", OBEYED, default="100", kind=COUNT),
    Known("commit.manifest-merge.enabled", OBEYED, default="true", kind=FLAG),
    Known("commit.max-clock-skew-ms", OBEYED, SKEW, default="600000", kind=MILLISECONDS),
    Known("history.expire.max-snapshot-age-ms", OBEYED, _EXPIRY, default="432000000", kind=MILLISECONDS),
    Known("history.expire.min-snapshots-to-keep", OBEYED, _EXPIRY, default="1", kind=POSITIVE),
    Known("history.expire.max-ref-age-ms", OBEYED, _EXPIRY, kind=MILLISECONDS),
    Known("gc.enabled", OBEYED, default="true", kind=FLAG),
    Known("encryption.key-id", OBEYED, "the table is encrypted under this key of the KMS", set_by=_AT_CREATION),
    Known("encryption.data-key-length", OBEYED, "16, 24 or 32 bytes", default="16", set_by=_AT_CREATION),
    Known(
        "sealberg.create.allow-non-empty-location",
        OBEYED,
        "true: the LOCATION may hold files, and not those of another table; not stored",
        default="false",
        set_by="the creator of the table",
        kind=FLAG,
    ),
    Known("schema.name-mapping.default", OBEYED, kind=NAME_MAPPING),
    Known("identifier-fields.rely", NO_EFFECT, "no constraints are reported to Spark"),
    Known("compatibility.snapshot-id-inheritance.enabled", NO_EFFECT, "of version 1"),
    Known("engine.hive.enabled", OBEYED, HIVE, kind=FLAG),
    Known("engine.hive.lock-enabled", OBEYED, HIVE, default="true", kind=FLAG),
    Known("comment", OBEYED),
)


def check_table_properties(table: str, given: Iterable[str] | Mapping[str, str]) -> None:
    """Refuse names that a user sets on a table and that sealberg would have to ignore, and values that cannot be read.

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
        check_values(given, table)


def check_values(given: Mapping[str, str], table: str | None = None) -> None:
    """Refuse values that the code which reads these properties of a table would refuse."""
    for name, value in given.items():
        kind = _kind(name)
        if kind is not None:
            kind.of(name if table is None else f"{table}: {name}", value)


def value_of(properties: Mapping[str, str], name: str, default: Any) -> Any:
    """A property of a table, read by its kind; `default` if the table does not have it."""
    if name not in properties:
        return default
    kind = _kind(name)
    assert kind is not None, f"{name} has no kind in TABLE_PROPERTIES"
    return kind.of(name, properties[name])


def is_readable(properties: Mapping[str, str], name: str) -> bool:
    """Whether a property has no value, or one that can be read."""
    try:
        value_of(properties, name, None)
    except (ConfigError, UnsupportedError):
        return False
    return True


def readable(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those whose value cannot be read: for commits that repair a table, and must not fail."""
    kept = {}
    for name, value in properties.items():
        try:
            check_values({name: value})
        except (ConfigError, UnsupportedError):
            continue
        kept[name] = value
    return kept


def _kind(name: str) -> Kind | None:
    known = find(TABLE_PROPERTIES, name)
    return None if known is None else known.kind
