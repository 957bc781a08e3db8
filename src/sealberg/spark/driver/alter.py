"""ALTER TABLE: Spark's changes as one commit to the metadata of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError, UnsupportedError
from sealberg.properties.table_names import check_table_properties
from sealberg.spark.driver import refusals
from sealberg.spark.protocol.changes import (
    AddColumn,
    DeleteColumn,
    RemoveProperty,
    RenameColumn,
    SetProperty,
    UnsupportedChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from sealberg.spark.types import iceberg_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update.schema import UpdateSchema

    from sealberg.spark.protocol.changes import ColumnChange, ColumnPosition, TableChange


RESERVED: Final = {  # statements about the table, in Java's Spark catalog; as properties they would do nothing
    "current-snapshot-id": "CALL ....system.set_current_snapshot(...)",
    "cherry-pick-snapshot-id": "CALL ....system.cherrypick_snapshot(...)",
    "sort-order": "ALTER TABLE ... WRITE ORDERED BY ...",
    "identifier-fields": "ALTER TABLE ... SET IDENTIFIER FIELDS ...",
}


def alter(table: Table, changes: Sequence[TableChange]) -> None:
    """All changes or none."""
    with table.transaction() as transaction:
        updates = {change.name: change.value for change in changes if isinstance(change, SetProperty)}
        # Spark itself says whether IF EXISTS was there; a property that is not set is nothing to remove, as in Java.
        unset = [change.name for change in changes if isinstance(change, RemoveProperty)]
        removals = [name for name in unset if name in table.metadata.properties]
        columns = [change for change in changes if not isinstance(change, SetProperty | RemoveProperty)]
        if "location" in updates:
            raise UnsupportedError(f"{'.'.join(table.name())}: changing a table's location is not supported")
        if reserved := next((name for name in updates if name in RESERVED), None):
            name, statement = ".".join(table.name()), RESERVED[reserved]
            raise UnsupportedError(f"{name}: {reserved} cannot be set as a property; the statement is {statement}")
        check_table_properties(".".join(table.name()), updates)
        if updates:
            transaction.set_properties(updates)
        if removals:
            transaction.remove_properties(*removals)
        if columns:
            with refusals.of(table), transaction.update_schema() as update:
                for change in columns:
                    _change(update, change, table)


def _change(update: UpdateSchema, change: ColumnChange, table: Table) -> None:
    match change:
        case UnsupportedChange():
            raise UnsupportedError(f"ALTER TABLE: {change.name} of Spark is not supported")
        case AddColumn():
            if change.default_sql is not None:
                raise UnsupportedError(
                    f"column {'.'.join(change.column)}: DEFAULT is not supported in ALTER TABLE; "
                    "set the default in Python, with table.update_schema()"
                )
            data_type = iceberg_type(change.data_type)
            update.add_column(change.column, data_type, change.comment, required=not change.nullable)
            if change.position is not None:
                _move(update, change.column, change.position)
        case RenameColumn():
            update.rename_column(change.column, change.name)
        case DeleteColumn():
            _check_no_identifier(table, ".".join(change.column))
            if not change.if_exists or ".".join(change.column) in table.schema().column_names:
                update.delete_column(change.column)
        case UpdateColumnType():
            update.update_column(change.column, field_type=iceberg_type(change.data_type))
        case UpdateColumnNullability():
            _set_nullability(update, change, table)
        case UpdateColumnComment():
            update.update_column(change.column, doc=change.comment)
        case UpdateColumnPosition():
            _move(update, change.column, change.position)


def _set_nullability(update: UpdateSchema, change: UpdateColumnNullability, table: Table) -> None:
    column = ".".join(change.column)
    if change.nullable:
        update.make_column_optional(change.column)
    elif not table.schema().find_field(column).required:
        raise ConfigError(f"column {column} cannot become required, because rows of the table may have nulls in it")


def _check_no_identifier(table: Table, column: str) -> None:
    within = [name for name in table.schema().identifier_field_names() if f"{name}.".startswith(f"{column}.")]
    if within:
        raise ConfigError(
            f"column {column} cannot be dropped, because {within[0]} is an identifier field; first "
            f"ALTER TABLE {'.'.join(table.name())} DROP IDENTIFIER FIELDS {within[0]}"
        )


def _move(update: UpdateSchema, column: tuple[str, ...], position: ColumnPosition) -> None:
    if position.after is None:
        update.move_first(column)
    else:
        update.move_after(column, (*column[:-1], position.after))
