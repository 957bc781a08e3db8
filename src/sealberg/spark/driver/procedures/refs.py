"""Procedures behind Iceberg's DDL for branches and tags.

ALTER TABLE ... CREATE | REPLACE BRANCH | TAG    create_ref
ALTER TABLE ... DROP BRANCH | TAG                drop_ref

A ref that is replaced keeps the retention that the statement does not name, as in Iceberg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConfigError
from sealberg.spark.driver.procedures.signature import TABLE, Procedure, columns, optional, required
from sealberg.table.catalog_table import CatalogTable
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef

    from sealberg.spark.driver.procedures.signature import CallContext

NOTHING: Final = columns()
Rows = list[tuple[Any, ...]]


def create_ref(call: CallContext) -> Rows:
    table, kind, name = call.table(), _kind(call), call.required("name")
    ref = table.metadata.refs.get(name)
    if ref is not None and not call["replace"] and call["if_not_exists"]:
        return []
    _check_ref(name, kind, ref, create=call["create"] in (None, True), replace=bool(call["replace"]))
    _check_retention(call)
    snapshot_id = _snapshot_of_ref(call, table, kind, name, exists=ref is not None)
    age = call["max_ref_age_ms"] or (ref.max_ref_age_ms if ref is not None else None)
    manage = table.manage_snapshots()
    if kind == SnapshotRefType.TAG:
        manage.create_tag(snapshot_id, name, age).commit()
        return []
    least = call["min_snapshots_to_keep"] or (ref.min_snapshots_to_keep if ref is not None else None)
    snapshot_age = call["max_snapshot_age_ms"] or (ref.max_snapshot_age_ms if ref is not None else None)
    manage.create_branch(snapshot_id, name, age, snapshot_age, least).commit()
    return []


def _check_retention(call: CallContext) -> None:
    for argument in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep"):
        if call[argument] is not None and call[argument] < 1:
            raise ConfigError(f"{call.procedure}: argument {argument} is {call[argument]}, expected 1 or more")


def _check_ref(name: str, kind: SnapshotRefType, ref: SnapshotRef | None, *, create: bool, replace: bool) -> None:
    if ref is not None and not replace:
        raise ConfigError(f"Ref {name} already exists")
    if ref is None and not create:
        raise ConfigError(f"{kind.capitalize()} does not exist: {name}")
    if ref is not None and ref.snapshot_ref_type != kind:
        raise ConfigError(f"Ref {name} is a {ref.snapshot_ref_type} not a {kind}")


def _snapshot_of_ref(call: CallContext, table: Table, kind: SnapshotRefType, name: str, *, exists: bool) -> int:
    current = table.metadata.current_snapshot()
    snapshot_id: int | None = call["snapshot_id"]
    if snapshot_id is None and current is not None:
        snapshot_id = current.snapshot_id
    if snapshot_id is None and kind == SnapshotRefType.BRANCH and not exists:
        return _empty_branch(table, name)
    if snapshot_id is None:
        raise ConfigError(
            f"Cannot complete create or replace {kind} operation on {'.'.join(table.name())}, main has no snapshot"
        )
    if table.metadata.snapshot_by_id(snapshot_id) is None:
        raise ConfigError(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    return snapshot_id


def _empty_branch(table: Table, name: str) -> int:
    """The snapshot of a new branch of a table that has none: as in Java, an empty one."""
    if not isinstance(table, CatalogTable):
        raise ConfigError(
            f"cannot create branch {name}: {'.'.join(table.name())} has no snapshot and is not of version 3"
        )
    table.transaction_at_once().commit_changes(
        FileChanges(operation=Operation.APPEND, branch=name, first_of_branch=True)
    )
    return table.metadata.refs[name].snapshot_id


def drop_ref(call: CallContext) -> Rows:
    table, kind, name = call.table(), _kind(call), call.required("name")
    ref = table.metadata.refs.get(name)
    if ref is None:
        if call["if_exists"]:
            return []
        raise ConfigError(f"{kind.capitalize()} does not exist: {name}")
    if ref.snapshot_ref_type != kind:
        raise ConfigError(f"Ref {name} is a {ref.snapshot_ref_type} not a {kind}")
    if name == MAIN_BRANCH:
        raise ConfigError("Cannot remove main branch")
    manage = table.manage_snapshots()
    (manage.remove_branch(name) if kind == SnapshotRefType.BRANCH else manage.remove_tag(name)).commit()
    return []


def _kind(call: CallContext) -> SnapshotRefType:
    kind = call.required("kind")
    if kind not in ("branch", "tag"):
        raise ConfigError(f"{call.procedure}: argument kind is {kind!r}, expected branch or tag")
    return SnapshotRefType(kind)


KIND: Final = required("kind", "string", "branch or tag")
NAME: Final = required("name", "string")

PROCEDURES: Final = (
    Procedure(
        "create_ref",
        "Creates or replaces a branch or a tag",
        (
            TABLE,
            KIND,
            NAME,
            optional("create", "boolean"),
            optional("replace", "boolean"),
            optional("if_not_exists", "boolean"),
            optional("snapshot_id", "long", "by default the current snapshot"),
            optional("max_ref_age_ms", "long"),
            optional("min_snapshots_to_keep", "integer", "of a branch"),
            optional("max_snapshot_age_ms", "long", "of a branch"),
        ),
        NOTHING,
        create_ref,
    ),
    Procedure(
        "drop_ref",
        "Drops a branch or a tag",
        (TABLE, KIND, NAME, optional("if_exists", "boolean")),
        NOTHING,
        drop_ref,
    ),
)
