"""ALTER TABLE: Spark's changes as one commit to the metadata of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, UnsupportedError
from sealberg.properties import check_table_properties
from sealberg.spark.types import iceberg_type

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update.schema import UpdateSchema


RESERVED: Final = {  # statements about the table, in Java's Spark catalog; as properties they would do nothing
    "current-snapshot-id": "table.manage_snapshots().set_current_snapshot(...)",
    "cherry-pick-snapshot-id": "table.manage_snapshots()",
    "sort-order": "table.update_sort_order()",
    "identifier-fields": "table.update_schema().set_identifier_fields(...)",
}


def alter(table: Table, changes: list[dict[str, Any]]) -> None:
    """All changes or none."""
    with table.transaction() as transaction:
        updates = {one["name"]: one["value"] for one in changes if one["do"] == "set-property"}
        # Spark itself says whether IF EXISTS was there; a property that is not set is nothing to remove, as in Java.
        gone = [one["name"] for one in changes if one["do"] == "remove-property"]
        removals = [name for name in gone if name in table.metadata.properties]
        columns = [one for one in changes if one["do"] not in ("set-property", "remove-property")]
        if "location" in updates:
            raise UnsupportedError(f"{'.'.join(table.name())}: changing a table's location is not supported")
        if reserved := next((name for name in updates if name in RESERVED), None):
            raise UnsupportedError(
                f"{'.'.join(table.name())}: {reserved} cannot be set as a property: use {RESERVED[reserved]} in Python"
            )
        check_table_properties(".".join(table.name()), updates)
        if updates:
            transaction.set_properties(updates)
        if removals:
            transaction.remove_properties(*removals)
        if columns:
            with transaction.update_schema() as update:
                for one in columns:
                    _change(update, one, table)


def _change(update: UpdateSchema, one: dict[str, Any], table: Table) -> None:
    path = tuple(one.get("column", ()))
    match one["do"]:
        case "add-column":
            if "default" in one:
                raise UnsupportedError(f"column {'.'.join(path)}: a default is set from Python, with update_schema()")
            update.add_column(path, iceberg_type(one["type"]), one.get("comment"), required=not one["nullable"])
            _move(update, path, one)
        case "rename-column":
            update.rename_column(path, one["name"])
        case "drop-column":
            if not one["if-exists"] or ".".join(path) in table.schema().column_names:
                update.delete_column(path)
        case "widen-column":
            update.update_column(path, field_type=iceberg_type(one["type"]))
        case "set-nullability":
            if not one["nullable"]:
                raise ConfigError(f"column {'.'.join(path)} may have nulls in it, and cannot become required")
            update.make_column_optional(path)
        case "set-comment":
            update.update_column(path, doc=one["comment"])
        case "move-column":
            _move(update, path, one)
        case other:
            raise UnsupportedError(f"ALTER TABLE cannot do this here: {other}")


def _move(update: UpdateSchema, path: tuple[str, ...], one: dict[str, Any]) -> None:
    if one.get("first"):
        update.move_first(path)
    elif "after" in one:
        update.move_after(path, (*path[:-1], one["after"]))
