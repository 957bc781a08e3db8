"""Procedures behind Iceberg's DDL: the parser of the session extension turns each statement into a call.

ALTER TABLE ... ADD | DROP | REPLACE PARTITION FIELD    add_, drop_, replace_partition_field
ALTER TABLE ... WRITE [LOCALLY] ORDERED BY ...          set_write_order
ALTER TABLE ... SET | DROP IDENTIFIER FIELDS            set_, drop_identifier_fields

A transform is text of SQL, `bucket(16, id)` for instance. Statements have no result, and so have these procedures none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform, VoidTransform, parse_transform

from sealberg.errors import ConfigError
from sealberg.spark.driver.partitions import SINGULAR
from sealberg.spark.driver.procedures.definition_checks import (
    check_identifier_field,
    check_new_partition_field,
    check_transform,
    column,
    refusals,
)
from sealberg.spark.driver.procedures.signature import (
    STRINGS,
    TABLE,
    Procedure,
    columns,
    optional,
    parse_identifier,
    required,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.transforms import Transform

    from sealberg.spark.driver.procedures.signature import CallContext

NOTHING: Final = columns()
WITH_WIDTH: Final = ("bucket", "truncate")
_CALL: Final = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT: Final = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")  # a name in backticks may have a comma
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
    arguments = [argument.strip() for argument in _ARGUMENT.findall(found[2])]
    widths = [argument for argument in arguments if argument.isdigit()]
    names = [argument for argument in arguments if not argument.isdigit()]
    if len(names) != 1 or len(widths) != (name in WITH_WIDTH):
        raise ConfigError(f"{what} is {text}, expected a column, or a transform such as days(ts) or bucket(16, id)")
    spelled = f"{name}[{widths[0]}]" if widths else name
    try:
        transform = parse_transform(spelled)
    except ValueError:
        transform = None
    if transform is None or str(transform) != spelled or isinstance(transform, VoidTransform):
        raise ConfigError(f"{what} is {text}: unknown transform {found[1]}")
    return Term(".".join(parse_identifier(names[0], what)), transform)


# -- partition fields -----------------------------------------------------------------------------


def add_partition_field(call: CallContext) -> Rows:
    table, term = call.table(), _term(call, "transform")
    _check_source(call, table, term)
    with refusals(call.procedure), table.update_spec() as spec:
        spec.add_field(term.column, term.transform, call["name"])
    return []


def drop_partition_field(call: CallContext) -> Rows:
    table = call.table()
    former = _field_name(table, call, "transform")
    with refusals(call.procedure), table.update_spec() as spec:
        spec.remove_field(former)
    return []


def replace_partition_field(call: CallContext) -> Rows:
    table, term = call.table(), _term(call, "with")
    former = _field_name(table, call, "transform")
    _check_source(call, table, term, without=former)
    with refusals(call.procedure), table.update_spec() as spec:
        spec.remove_field(former)
        spec.add_field(term.column, term.transform, call["name"])
    return []


def _check_source(call: CallContext, table: Table, term: Term, without: str = "") -> None:
    field = column(call.procedure, table.metadata.schema(), term.column)
    check_transform(call.procedure, field, term.transform)
    check_new_partition_field(call.procedure, table.metadata.spec(), field, term.transform, without)


def _term(call: CallContext, name: str) -> Term:
    return parse_term(call.required(name), f"{call.procedure}: argument {name}")


def _field_name(table: Table, call: CallContext, name: str) -> str:
    """The partition field of this transform; as in Iceberg, a name that is no column is the name of a field."""
    term = _term(call, name)
    schema = table.metadata.schema()
    source = next((field_id for field_id in schema.field_ids if schema.find_column_name(field_id) == term.column), None)
    named = {field.name for field in table.metadata.spec().fields}
    if source is None and isinstance(term.transform, IdentityTransform) and term.column in named:
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
    schema = table.metadata.schema()
    with refusals(call.procedure), table.transaction() as change:
        with change.update_sort_order(case_sensitive=call.case_sensitive) as order:
            for text in call["order"] or ():
                found = _ORDER.fullmatch(text)
                assert found is not None, "every text matches"
                term = parse_term(found["term"], "set_write_order: argument order")
                field = column(call.procedure, schema, term.column, case_sensitive=call.case_sensitive)
                check_transform(call.procedure, field, term.transform)
                descending = (found["direction"] or "").upper() == "DESC"
                last = (found["nulls"] or ("LAST" if descending else "FIRST")).upper() == "LAST"
                add = order.desc if descending else order.asc
                add(term.column, term.transform, NullOrder.NULLS_LAST if last else NullOrder.NULLS_FIRST)
        if mode is not None:
            change.set_properties({"write.distribution-mode": mode})
    return []


# -- identifier fields ----------------------------------------------------------------------------


def set_identifier_fields(call: CallContext) -> Rows:
    table, names = call.table(), call.required("fields")
    for name in names:
        check_identifier_field(call.procedure, table.metadata.schema(), name)
    with refusals(call.procedure), table.update_schema() as schema:
        schema.set_identifier_fields(*names)
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


TRANSFORM: Final = required("transform", "string", "a column, or a transform such as bucket(16, id)")
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
)
