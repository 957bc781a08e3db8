"""Procedures behind Iceberg's DDL: the parser of the session extension turns each statement into a call.

ALTER TABLE ... ADD | DROP | REPLACE PARTITION FIELD    add_, drop_, replace_partition_field
ALTER TABLE ... WRITE [LOCALLY] ORDERED BY ...          set_write_order
ALTER TABLE ... SET | DROP IDENTIFIER FIELDS            set_, drop_identifier_fields
ALTER TABLE ... CREATE | REPLACE | DROP BRANCH | TAG    create_ref, drop_ref

A transform is text of SQL, `bucket(16, id)` for instance. Statements have no result, and so have these procedures none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform, parse_transform

from sealberg.errors import ConfigError
from sealberg.spark.driver.partitions import SINGULAR
from sealberg.spark.driver.procedures.signature import (
    STRINGS,
    TABLE,
    Procedure,
    columns,
    optional,
    parse_identifier,
    required,
)
from sealberg.table.catalog_table import CatalogTable
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.transforms import Transform

    from sealberg.spark.driver.procedures.signature import CallContext

NOTHING: Final = columns()
WITH_WIDTH: Final = ("bucket", "truncate")
_CALL: Final = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_ORDER: Final = re.compile(
    r"(?P<term>.*?)(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*", re.IGNORECASE | re.DOTALL
)
Rows = list[tuple[Any, ...]]


class Term(NamedTuple):
    """A column and the transform of it."""

    column: str
    transform: Transform[Any, Any]


def parse_term(text: str, what: str) -> Term:
    """`id`, `days(ts)` or `bucket(16, id)`; as in Iceberg, the width may stand on either side of the column."""
    found = _CALL.fullmatch(text)
    if found is None:
        return Term(".".join(parse_identifier(text.strip(), what)), IdentityTransform())
    name = SINGULAR.get(found[1].lower(), found[1].lower())
    arguments = [argument.strip() for argument in found[2].split(",")]
    widths = [argument for argument in arguments if argument.isdigit()]
    names = [argument for argument in arguments if not argument.isdigit()]
    if len(names) != 1 or len(widths) != (name in WITH_WIDTH):
        raise ConfigError(f"{what} is {text}, expected a column, or a transform such as days(ts) or bucket(16, id)")
    spelled = f"{name}[{widths[0]}]" if widths else name
    try:
        transform = parse_transform(spelled)
    except ValueError:
        transform = None
    if transform is None or str(transform) != spelled:
        raise ConfigError(f"{what} is {text}: unknown transform {found[1]}")
    return Term(".".join(parse_identifier(names[0], what)), transform)


# -- partition fields -----------------------------------------------------------------------------


def add_partition_field(call: CallContext) -> Rows:
    term = _term(call, "transform")
    with call.table().update_spec() as spec:
        spec.add_field(term.column, term.transform, call["name"])
    return []


def drop_partition_field(call: CallContext) -> Rows:
    table = call.table()
    with table.update_spec() as spec:
        spec.remove_field(_field_name(table, call, "transform"))
    return []


def replace_partition_field(call: CallContext) -> Rows:
    table, term = call.table(), _term(call, "with")
    with table.update_spec() as spec:
        spec.remove_field(_field_name(table, call, "transform"))
        spec.add_field(term.column, term.transform, call["name"])
    return []


def _term(call: CallContext, name: str) -> Term:
    return parse_term(call.required(name), f"{call.procedure}: argument {name}")


def _field_name(table: Table, call: CallContext, name: str) -> str:
    """The partition field of this transform; as in Iceberg, a name that is no column is the name of a field."""
    term = _term(call, name)
    schema = table.metadata.schema()
    source = next((field_id for field_id in schema.field_ids if schema.find_column_name(field_id) == term.column), None)
    if source is None and isinstance(term.transform, IdentityTransform):
        return term.column
    for field in table.metadata.spec().fields:
        if field.source_id == source and str(field.transform) == str(term.transform):
            return field.name
    raise ConfigError(f"Cannot find partition field to remove: {call[name]}; the fields are: {table.metadata.spec()}")


# -- order of rows --------------------------------------------------------------------------------


def set_write_order(call: CallContext) -> Rows:
    table, mode = call.table(), call["distribution_mode"]
    if mode not in (None, "none", "hash", "range"):
        raise ConfigError(f"set_write_order: argument distribution_mode is {mode!r}, expected none, hash or range")
    with table.transaction() as change:
        with change.update_sort_order(case_sensitive=False) as order:
            for text in call["order"] or ():
                found = _ORDER.fullmatch(text)
                assert found is not None, "every text matches"
                term = parse_term(found["term"], "set_write_order: argument order")
                descending = (found["direction"] or "").upper() == "DESC"
                last = (found["nulls"] or ("LAST" if descending else "FIRST")).upper() == "LAST"
                add = order.desc if descending else order.asc
                add(term.column, term.transform, NullOrder.NULLS_LAST if last else NullOrder.NULLS_FIRST)
        if mode is not None:
            change.set_properties({"write.distribution-mode": mode})
    return []


# -- identifier fields ----------------------------------------------------------------------------


def set_identifier_fields(call: CallContext) -> Rows:
    table = call.table()
    with table.update_schema() as schema:
        schema.set_identifier_fields(*call.required("fields"))
    return []


def drop_identifier_fields(call: CallContext) -> Rows:
    table = call.table()
    schema = table.metadata.schema()
    names = set(schema.column_names)
    left = {schema.find_column_name(field_id) or "" for field_id in schema.identifier_field_ids}
    for name in call.required("fields"):
        if name not in names:
            raise ConfigError(f"Cannot complete drop identifier fields operation: field {name} not found")
        if name not in left:
            raise ConfigError(f"Cannot complete drop identifier fields operation: {name} is not an identifier field")
        left.remove(name)
    with table.update_schema() as change:
        change.set_identifier_fields(*left)
    return []


# -- branches and tags ----------------------------------------------------------------------------


def create_ref(call: CallContext) -> Rows:
    table, kind, name = call.table(), _kind(call), call.required("name")
    ref = table.metadata.refs.get(name)
    if ref is not None and not call["replace"] and call["if_not_exists"]:
        return []
    _check_ref(name, kind, ref, create=call["create"] in (None, True), replace=bool(call["replace"]))
    _check_retention(call)
    snapshot_id = _snapshot_of_ref(call, table, kind, name)
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


def _snapshot_of_ref(call: CallContext, table: Table, kind: SnapshotRefType, name: str) -> int:
    current = table.metadata.current_snapshot()
    snapshot_id: int | None = call["snapshot_id"]
    if snapshot_id is None and current is not None:
        snapshot_id = current.snapshot_id
    if snapshot_id is None and kind == SnapshotRefType.BRANCH and not call["replace"]:
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


TRANSFORM: Final = required("transform", "string", "a column, or a transform such as bucket(16, id)")
KIND: Final = required("kind", "string", "branch or tag")
NAME: Final = required("name", "string")
FIELDS: Final = required("fields", STRINGS)

PROCEDURES: Final = (
    Procedure(
        "add_partition_field",
        "Adds a field to the partition spec",
        (TABLE, TRANSFORM, optional("name", "string", "of the field")),
        NOTHING,
        add_partition_field,
    ),
    Procedure(
        "drop_partition_field",
        "Removes a field from the partition spec",
        (TABLE, TRANSFORM),
        NOTHING,
        drop_partition_field,
    ),
    Procedure(
        "replace_partition_field",
        "Replaces a field of the partition spec",
        (TABLE, TRANSFORM, required("with", "string", "the new transform"), optional("name", "string")),
        NOTHING,
        replace_partition_field,
    ),
    Procedure(
        "set_write_order",
        "Sets the order and the distribution in which rows are written",
        (TABLE, optional("distribution_mode", "string", "none, hash or range"), optional("order", STRINGS)),
        NOTHING,
        set_write_order,
    ),
    Procedure("set_identifier_fields", "Sets the identifier fields", (TABLE, FIELDS), NOTHING, set_identifier_fields),
    Procedure("drop_identifier_fields", "Removes identifier fields", (TABLE, FIELDS), NOTHING, drop_identifier_fields),
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
