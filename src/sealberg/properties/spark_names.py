"""Options of reads and writes, settings of sessions and of applications, on Spark."""

from __future__ import annotations

from typing import Final

from sealberg.properties.known import (
    DATA_PLANNING,
    DELETE_PLANNING,
    NO_EFFECT,
    OBEYED,
    ORC,
    REFUSED,
    VARIANT,
    VECTORS,
    Known,
)

_ASYNC: Final = "micro-batches are planned when Spark asks for them"
_EXECUTOR: Final = "executors have no cache: each task gets its own files with their keys"
_SPEC: Final = "rows are written with the table's current partition spec and sort order"

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
    Known("path", REFUSED, "a table is read by its name in its catalog: spark.table(name), or load(name)"),
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
    Known("delete-format", NO_EFFECT, VECTORS),
    Known("target-delete-file-size-bytes", NO_EFFECT, VECTORS),
    Known("delete-granularity", NO_EFFECT, VECTORS),
    Known("compression-strategy", NO_EFFECT, ORC),
    Known("shred-variants", NO_EFFECT, VARIANT),
    Known("variant-inference-buffer-size", NO_EFFECT, VARIANT),
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
    Known("spark.sql.iceberg.compression-strategy", NO_EFFECT, ORC),
    Known("spark.sql.iceberg.data-planning-mode", OBEYED, DATA_PLANNING),
    Known("spark.sql.iceberg.delete-planning-mode", OBEYED, DELETE_PLANNING),
    Known("spark.sql.iceberg.planning.preserve-data-grouping", NO_EFFECT, "no grouping is reported, so joins shuffle"),
    Known("spark.sql.iceberg.identifier-fields-rely", NO_EFFECT, "no constraints are reported to Spark"),
    Known("spark.sql.iceberg.executor-cache.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.delete-files.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.timeout", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.max-entry-size", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.max-total-size", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.executor-cache.locality.enabled", NO_EFFECT, _EXECUTOR),
    Known("spark.sql.iceberg.async-micro-batch-planning-enabled", NO_EFFECT, _ASYNC),
    Known("spark.sql.iceberg.shred-variants", NO_EFFECT, VARIANT),
    Known("spark.sql.iceberg.variant-inference-buffer-size", NO_EFFECT, VARIANT),
)

APPLICATION_SETTINGS: Final = (
    Known("spark.sealberg.python", OBEYED, "the Python that a JVM starts for its catalogs", default="python3"),
    Known("spark.sealberg.properties-file", OBEYED, "properties of catalogs, for the Python that a JVM starts"),
    Known(
        "spark.sealberg.programServes", OBEYED, "set by `configure`: the catalogs wait for `install`", default="false"
    ),
    Known("spark.sealberg.allowClearNetwork", OBEYED, "accepts a network of Spark without protection", default="false"),
    Known(
        "spark.sealberg.strict",
        OBEYED,
        "true refuses what acts as a SQL server itself: reflect, java_method, its environment, files by their paths, "
        "catalogs of a session, jars, functions, programs",
        default="false",
    ),
    Known("spark.sealberg.allowClearDisks", OBEYED, "accepts rows in the clear on local disks", default="false"),
    Known(
        "spark.sealberg.allowOpenServer", OBEYED, "accepts a SQL server that asks nobody who they are", default="false"
    ),
)
