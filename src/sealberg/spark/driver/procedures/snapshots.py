"""Procedures that move branches to other snapshots, with Iceberg's names, arguments, result columns and messages.

rollback_to_snapshot  rollback_to_timestamp  set_current_snapshot   main, by a snapshot, a time or a ref
cherrypick_snapshot   publish_changes                               a staged snapshot to main
fast_forward                                                        a branch to the head of another
ancestors_of                                                        the history of a snapshot
register_table                                                      a metadata file as a new table
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.table.snapshots import ancestors_of as ancestors

from sealberg.errors import ConfigError
from sealberg.spark.driver import refusals
from sealberg.spark.driver.procedures.signature import TABLE, Procedure, columns, optional, required

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.spark.driver.procedures.signature import CallContext

Rows = list[tuple[Any, ...]]
MOVED: Final = columns(previous_snapshot_id=pa.int64(), current_snapshot_id=pa.int64())
PICKED: Final = columns(source_snapshot_id=pa.int64(), current_snapshot_id=pa.int64())


def _current(table: Table) -> int | None:
    found = table.metadata.current_snapshot()
    return None if found is None else found.snapshot_id


def _snapshot(table: Table, snapshot_id: int) -> Snapshot:
    found = table.metadata.snapshot_by_id(snapshot_id)
    if found is None:
        raise ConfigError(f"Cannot find snapshot {snapshot_id} in table {'.'.join(table.name())}")
    return found


def rollback_to_snapshot(call: CallContext) -> Rows:
    table, snapshot_id = call.table(), call.required("snapshot_id")
    before = _current(table)
    with refusals.of(table):
        table.manage_snapshots().rollback_to_snapshot(snapshot_id).commit()
    return [(before, snapshot_id)]


def rollback_to_timestamp(call: CallContext) -> Rows:
    table, timestamp_us = call.table(), call.required("timestamp")
    before = _current(table)
    with refusals.of(table):
        table.manage_snapshots().rollback_to_timestamp(timestamp_us // 1000).commit()
    return [(before, _current(table.refresh()))]


def set_current_snapshot(call: CallContext) -> Rows:
    snapshot_id, ref = call["snapshot_id"], call["ref"]
    if (snapshot_id is None) == (ref is None):
        raise ConfigError("set_current_snapshot: expected exactly one of the arguments snapshot_id and ref")
    table = call.table()
    before = _current(table)
    with refusals.of(table):
        table.manage_snapshots().set_current_snapshot(snapshot_id, ref).commit()
    return [(before, _current(table.refresh()))]


def cherrypick_snapshot(call: CallContext) -> Rows:
    table, snapshot_id = _of_version_3(call), call.required("snapshot_id")
    table.manage_snapshots().cherrypick(snapshot_id).commit()
    return [(snapshot_id, _current(table.refresh()))]


def publish_changes(call: CallContext) -> Rows:
    table, wap_id = _of_version_3(call), call.required("wap_id")
    staged = [
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary["wap.id"] == wap_id
    ]
    table.manage_snapshots().publish_changes(wap_id).commit()
    return [(staged[0], _current(table.refresh()))]


def _of_version_3(call: CallContext) -> Any:
    """The table, if it is of version 3: PyIceberg can do this with no table of version 1 or 2."""
    table = call.table()
    if table.metadata.format_version < 3:
        raise ConfigError(
            f"{call.procedure}: table {'.'.join(table.name())} has format version {table.metadata.format_version}, "
            "expected 3; upgrade the table, or use Iceberg's own connector"
        )
    return table


def fast_forward(call: CallContext) -> Rows:
    table, branch, to = _of_version_3(call), call.required("branch"), call.required("to")
    before = table.metadata.refs.get(branch)
    table.manage_snapshots().fast_forward(branch, to).commit()
    now = table.refresh().metadata.refs[branch]
    return [(branch, before.snapshot_id if before is not None else None, now.snapshot_id)]


def ancestors_of(call: CallContext) -> Rows:
    table, snapshot_id = call.table(), call["snapshot_id"]
    start = table.metadata.current_snapshot() if snapshot_id is None else _snapshot(table, snapshot_id)
    if start is None:
        return []
    return [(each.snapshot_id, each.timestamp_ms) for each in ancestors(start, table.metadata)]


def register_table(call: CallContext) -> Rows:
    made = call.catalog.register_table(call.identifier(), call.required("metadata_file"))
    snapshot = made.metadata.current_snapshot()
    summary = snapshot.summary if snapshot is not None else None

    def total(name: str) -> int | None:
        found = summary[name] if summary is not None else None
        return None if found is None else int(found)

    return [(_current(made), total("total-records"), total("total-data-files"))]


PROCEDURES: Final = (
    Procedure(
        "rollback_to_snapshot",
        "Rolls main back to a snapshot of its history",
        (TABLE, required("snapshot_id", "long")),
        MOVED,
        rollback_to_snapshot,
    ),
    Procedure(
        "rollback_to_timestamp",
        "Rolls main back to the snapshot of a time",
        (TABLE, required("timestamp", "timestamp")),
        MOVED,
        rollback_to_timestamp,
    ),
    Procedure(
        "set_current_snapshot",
        "Makes a snapshot or the snapshot of a ref the current one, also one outside of the history of main",
        (TABLE, optional("snapshot_id", "long"), optional("ref", "string")),
        columns(previous_snapshot_id_or_null=pa.int64(), current_snapshot_id=pa.int64()),
        set_current_snapshot,
    ),
    Procedure(
        "cherrypick_snapshot",
        "Applies the changes of a snapshot to main",
        (TABLE, required("snapshot_id", "long")),
        PICKED,
        cherrypick_snapshot,
    ),
    Procedure(
        "publish_changes",
        "Applies the changes that were staged with a spark.wap.id to main",
        (TABLE, required("wap_id", "string")),
        PICKED,
        publish_changes,
    ),
    Procedure(
        "fast_forward",
        "Moves a branch forward to the head of another ref",
        (TABLE, required("branch", "string"), required("to", "string")),
        columns(branch_updated=pa.string(), previous_ref_or_null=pa.int64(), updated_ref=pa.int64()),
        fast_forward,
    ),
    Procedure(
        "ancestors_of",
        "Lists a snapshot, by default the current one, and its ancestors",
        (TABLE, optional("snapshot_id", "long")),
        columns(snapshot_id_or_null=pa.int64(), timestamp_or_null=pa.int64()),
        ancestors_of,
    ),
    Procedure(
        "register_table",
        "Creates a table from a metadata file",
        (TABLE, required("metadata_file", "string")),
        columns(
            current_snapshot_id_or_null=pa.int64(),
            total_records_count_or_null=pa.int64(),
            total_data_files_count_or_null=pa.int64(),
        ),
        register_table,
    ),
)
