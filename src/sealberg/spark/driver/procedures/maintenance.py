"""Iceberg's procedures that maintain a table, with its arguments, defaults and result columns; sealberg's jobs do it.

expire_snapshots      old snapshots, the files that only they used, and their keys
remove_orphan_files   what lies in storage and no metadata names
rewrite_data_files    small files and files with deleted rows: binpack, sort, z-order
rewrite_manifests     many small manifests
rewrite_position_delete_files   many small files of deletes
compute_table_stats   numbers of distinct values, as encrypted statistics
compute_partition_stats   numbers of each partition, as encrypted partition statistics
add_files             refused: files of others have no keys

An argument that would change the result and is not supported is an error. An argument that only says how the work is
done, and that has no meaning here, is named in a warning of the log: `unused_arguments`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConfigError, ConflictError, PlaintextFileError
from sealberg.jobs import compact, expire, orphans, partition_stats, stats
from sealberg.jobs import rewrite_manifests as manifests_job
from sealberg.jobs import rewrite_position_delete_files as deletes_job
from sealberg.jobs.selection import shown
from sealberg.spark.driver.procedures.signature import (
    LONGS,
    OPTIONS,
    STRINGS,
    TABLE,
    Procedure,
    columns,
    optional,
    required,
)
from sealberg.spark.driver.procedures.unused_arguments import CONCURRENT_DELETES, STREAMED, deleting, unused
from sealberg.spark.driver.procedures.where import file_filter

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sealberg.spark.driver.procedures.signature import CallContext

Rows = list[tuple[Any, ...]]
EXPIRED: Final = ("data", "position deletes", "equality deletes", "manifest", "manifest list", "statistics")
OLDER_THAN: Final = optional("older_than", "timestamp")
WHERE: Final = optional("where", "string", "a filter; files that cannot hold a matching row stay as they are")


def _moment(call: CallContext, name: str) -> datetime | None:
    micros = call[name]
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


def _refuse(call: CallContext, *names: str) -> None:
    for name in names:
        if call[name] not in (None, False):
            raise ConfigError(
                f"{call.procedure}: the argument {name} is not supported for tables of sealberg; leave it out"
            )


def expire_snapshots(call: CallContext) -> Rows:
    _refuse(call, "clean_expired_metadata")
    unused(call, "stream_results", STREAMED)
    runner = deleting(call)
    plan = expire.plan(
        call.identifier(),
        catalog=call.catalog,
        older_than=_moment(call, "older_than"),
        retain_last=call["retain_last"],
        snapshots=call["snapshot_ids"] or (),
    )
    (done,) = plan.execute(runner=runner).tables
    return [tuple(done.removed.files.get(kind, 0) for kind in EXPIRED)]


def remove_orphan_files(call: CallContext) -> Rows:
    _refuse(call, "location", "file_list_view", "equal_schemes", "equal_authorities", "prefix_mismatch_mode")
    unused(call, "stream_results", STREAMED)
    unused(call, "prefix_listing", "the FileIO of the catalog decides how it lists")
    runner, limit = deleting(call), _moment(call, "older_than")
    age = orphans.AGE if limit is None else datetime.fromtimestamp(time.time(), UTC) - limit
    if age < orphans.LEAST_AGE:
        raise ConfigError(
            f"Cannot remove orphan files with an interval less than {orphans.LEAST_AGE // timedelta(hours=1)} hours. "
            "Executing this procedure with a short interval may corrupt the table if other operations are happening at "
            "the same time. If you are absolutely confident that no concurrent operations will be affected by removing "
            "orphan files with such a short interval, use `sealberg orphans` with --allow-recent."
        )
    plan = orphans.plan(call.identifier(), catalog=call.catalog, older_than=age, runner=runner)
    found = [(file.location,) for file in plan.found.files]
    if not call["dry_run"]:
        plan.execute(runner=runner)
    return found


def rewrite_data_files(call: CallContext) -> Rows:
    strategy, order = (call["strategy"] or "").lower(), call["sort_order"]
    if strategy not in ("", "binpack", "sort"):
        raise ConfigError(f"unsupported strategy: {call['strategy']}. Only binpack or sort is supported")
    if strategy == "binpack" and order:
        raise ConfigError("Must use only one rewriter type (bin-pack, sort, zorder)")
    zorder, wanted = _zorder(order), file_filter(call)
    plan = compact.plan(
        call.identifier(),
        catalog=call.catalog,
        options=call["options"] or {},
        where=None if wanted is None else wanted.rows,
        files=None if wanted is None else wanted.by_transforms,
        sort=False if zorder else order or strategy == "sort",
        zorder=zorder,
        branch=call["branch"] or MAIN_BRANCH,
        manifests=False,
    )
    done = plan.execute(runner=call.runner)
    return [
        (
            done.rewritten_data_files_count,
            done.added_data_files_count,
            done.rewritten_bytes_count,
            done.failed_data_files_count,
            done.removed_delete_files_count,
        )
    ]


def _zorder(order: str | None) -> tuple[str, ...]:
    """The columns of zorder(c1, c2)."""
    text = (order or "").strip()
    if not text.lower().startswith("zorder"):
        return ()
    inner = text[len("zorder") :].strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        raise ConfigError(f"sort_order is {order!r}, expected zorder(c1, c2)")
    return tuple(name.strip().strip("`") for name in inner[1:-1].split(","))


def rewrite_manifests(call: CallContext) -> Rows:
    _refuse(call, "sort_by")
    unused(call, "use_caching", "nothing is cached")
    done = manifests_job.plan(call.identifier(), catalog=call.catalog, spec_id=call["spec_id"]).execute()
    return [(done.rewritten_manifests_count, done.added_manifests_count)]


def rewrite_position_delete_files(call: CallContext) -> Rows:
    table, wanted = call.table(), file_filter(call)
    before = _delete_bytes(table)
    done = deletes_job.plan(
        call.identifier(),
        catalog=call.catalog,
        options=call["options"] or {},
        files=None if wanted is None else wanted.by_partition,
    ).execute(runner=call.runner)
    if done.conflict is not None:
        raise ConflictError(f"rewrite_position_delete_files: nothing was rewritten: {done.conflict}")
    after = _delete_bytes(table.refresh())
    gone, came = sum(before[file] for file in before.keys() - after), sum(after[file] for file in after.keys() - before)
    return [(done.rewritten_delete_files_count, done.added_delete_files_count, gone, came)]


def _delete_bytes(table: Table) -> dict[str, int]:
    files = table.inspect.delete_files()
    return dict(zip(files["file_path"].to_pylist(), files["file_size_in_bytes"].to_pylist(), strict=True))


def compute_table_stats(call: CallContext) -> Rows:
    plan = stats.plan(
        call.identifier(), catalog=call.catalog, columns=call["columns"] or (), snapshot=call["snapshot_id"]
    )
    done = plan.execute(runner=call.runner)
    return [(done.location,)] if done.location is not None else []


def compute_partition_stats(call: CallContext) -> Rows:
    done = partition_stats.plan(call.identifier(), catalog=call.catalog, snapshot=call["snapshot_id"]).execute()
    return [(done.location,)] if done.location is not None else []


def add_files(call: CallContext) -> Rows:
    raise PlaintextFileError(
        f"add_files: the files of {call['source_table']} were written without the keys of "
        f"{shown(call.identifier())}. Insert their rows instead: "
        "INSERT INTO ... SELECT ..., or make a new encrypted table of them with `sealberg encrypt`"
    )


PROCEDURES: Final = (
    Procedure(
        "expire_snapshots",
        "Removes old snapshots, the files that only they used, and their keys",
        (
            TABLE,
            OLDER_THAN,
            optional("retain_last", "integer"),
            CONCURRENT_DELETES,
            optional("stream_results", "boolean", "no effect"),
            optional("snapshot_ids", LONGS),
            optional("clean_expired_metadata", "boolean"),
        ),
        columns(
            deleted_data_files_count_or_null=pa.int64(),
            deleted_position_delete_files_count_or_null=pa.int64(),
            deleted_equality_delete_files_count_or_null=pa.int64(),
            deleted_manifest_files_count_or_null=pa.int64(),
            deleted_manifest_lists_count_or_null=pa.int64(),
            deleted_statistics_files_count_or_null=pa.int64(),
        ),
        expire_snapshots,
    ),
    Procedure(
        "remove_orphan_files",
        "Removes what lies in storage and no metadata names",
        (
            TABLE,
            OLDER_THAN,
            optional("location", "string"),
            optional("dry_run", "boolean"),
            CONCURRENT_DELETES,
            optional("file_list_view", "string"),
            optional("equal_schemes", OPTIONS),
            optional("equal_authorities", OPTIONS),
            optional("prefix_mismatch_mode", "string"),
            optional("prefix_listing", "boolean", "no effect"),
            optional("stream_results", "boolean", "no effect"),
        ),
        columns(orphan_file_location=pa.string()),
        remove_orphan_files,
    ),
    Procedure(
        "rewrite_data_files",
        "Rewrites small files and files with deleted rows, under new keys",
        (
            TABLE,
            optional("strategy", "string", "binpack (default) or sort"),
            optional("sort_order", "string", "id DESC NULLS LAST, or zorder(c1, c2)"),
            optional("options", OPTIONS),
            WHERE,
            optional("branch", "string"),
        ),
        columns(
            rewritten_data_files_count=pa.int32(),
            added_data_files_count=pa.int32(),
            rewritten_bytes_count=pa.int64(),
            failed_data_files_count=pa.int32(),
            removed_delete_files_count=pa.int32(),
        ),
        rewrite_data_files,
    ),
    Procedure(
        "rewrite_manifests",
        "Merges small manifests",
        (
            TABLE,
            optional("use_caching", "boolean", "no effect"),
            optional("spec_id", "integer"),
            optional("sort_by", STRINGS),
        ),
        columns(rewritten_manifests_count=pa.int32(), added_manifests_count=pa.int32()),
        rewrite_manifests,
    ),
    Procedure(
        "rewrite_position_delete_files",
        "Merges deletion vectors and position deletes into few files",
        (TABLE, optional("options", OPTIONS), WHERE),
        columns(
            rewritten_delete_files_count=pa.int32(),
            added_delete_files_count=pa.int32(),
            rewritten_bytes_count=pa.int64(),
            added_bytes_count=pa.int64(),
        ),
        rewrite_position_delete_files,
    ),
    Procedure(
        "compute_table_stats",
        "Counts distinct values of columns, and writes them as encrypted statistics",
        (TABLE, optional("snapshot_id", "long"), optional("columns", STRINGS)),
        columns(statistics_file_or_null=pa.string()),
        compute_table_stats,
    ),
    Procedure(
        "compute_partition_stats",
        "Counts rows, files and deletes of each partition, and writes them as encrypted partition statistics",
        (TABLE, optional("snapshot_id", "long")),
        columns(partition_statistics_file_or_null=pa.string()),
        compute_partition_stats,
    ),
    Procedure(
        "add_files",
        "Refused for encrypted tables: files of others have no keys",
        (
            TABLE,
            required("source_table", "string"),
            optional("partition_filter", OPTIONS),
            optional("check_duplicate_files", "boolean"),
            optional("parallelism", "integer"),
        ),
        columns(added_files_count=pa.int64(), changed_partition_count_or_null=pa.int64()),
        add_files,
    ),
)
