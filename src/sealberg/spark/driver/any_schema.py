"""Writes to a table that accepts any schema: which column of the rows goes into which column of the table.

    write.spark.accept-any-schema    Spark does not compare columns; the table's properties ask sealberg to do so
    merge-schema                     columns that the table lacks are added to the table, as a commit of their own
    check-ordering                   true: the rows' columns come in the table's order
    check-nullability                true: a column that may have nulls does not go into a required column

The rules and the words are those of Iceberg's Spark connector. A column that the rows lack gets nulls; a column of a
narrower type is widened. Structs, lists and maps must have the table's own type, because Spark casts structs by
position and not by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import promote
from pyiceberg.types import PrimitiveType

from sealberg.errors import ConfigError
from sealberg.spark.types import iceberg_schema, spark_schema

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType, NestedField

    from sealberg.spark.driver.write_options import WriteOptions
    from sealberg.spark.protocol.codec import Struct


def merge(table: Table, query_schema: Struct, *, case_sensitive: bool) -> None:
    """Add the columns of the query that the table lacks, and widen types where Iceberg allows it.

    A new column is optional, as in Java: the rows that are in the table already have no value for it.
    """
    names = table.schema().column_names
    known = set(names) if case_sensitive else {name.lower() for name in names}
    with table.update_schema(case_sensitive=case_sensitive) as update:
        update.union_by_name(iceberg_schema(_optional(query_schema, known, "", case_sensitive=case_sensitive)))


def _optional(kind: Any, known: set[str], path: str, *, case_sensitive: bool) -> Any:
    """A type of Spark's, whose columns may have nulls unless the table has them already."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = []
        for field in kind["fields"]:
            here = f"{path}{field['name'] if case_sensitive else field['name'].lower()}"
            inner = _optional(field["type"], known, f"{here}.", case_sensitive=case_sensitive)
            fields.append({**field, "type": inner, "nullable": field["nullable"] or here not in known})
        return {**kind, "fields": fields}
    inside = {"elementType": "element.", "keyType": "key.", "valueType": "value."}
    return {
        key: _optional(value, known, path + inside[key], case_sensitive=case_sensitive) if key in inside else value
        for key, value in kind.items()
    }


def positions(
    name: str, schema: Schema, query_schema: Struct, options: WriteOptions, *, case_sensitive: bool
) -> list[int]:
    """For each column of the table, where its values are in a row; -1 for a column that the rows lack."""
    given = iceberg_schema(query_schema)

    def key(column: str) -> str:
        return column if case_sensitive else column.lower()

    known = {key(field.name): field for field in schema.fields}
    if unknown := [field.name for field in given.fields if key(field.name) not in known]:
        raise ConfigError(
            f"Field {', '.join(unknown)} not found in source schema: {name} has {', '.join(schema.column_names)}. "
            f"{_way_out(unknown)}"
        )
    at = {key(field.name): position for position, field in enumerate(given.fields)}
    found = [at.get(key(field.name), -1) for field in schema.fields]
    if options.check_ordering:
        _check_ordering(name, [given.fields[position].name for position in found if position >= 0], given)
    for field, position in zip(schema.fields, found, strict=True):
        _check(
            name, field, given.fields[position] if position >= 0 else None, options, query_schema, spark_schema(schema)
        )
    return found


def _way_out(unknown: list[str]) -> str:
    if all(re.fullmatch(r"col[0-9]+", name) for name in unknown):  # Spark's names for the columns of VALUES
        return "With write.spark.accept-any-schema, columns go by name: name them, INSERT INTO ... (id, ...) VALUES"
    return "The write option merge-schema adds columns"


def _check_ordering(name: str, in_table: list[str], given: Schema) -> None:
    in_rows = [field.name for field in given.fields]
    for mine, theirs in zip(in_rows, in_table, strict=True):
        if mine != theirs:
            raise ConfigError(
                f"Cannot write to {name}: {mine} is out of order, before {theirs}; "
                "the write option check-ordering=false takes columns by name"
            )


def _check(
    name: str,
    field: NestedField,
    found: NestedField | None,
    options: WriteOptions,
    query_schema: Struct,
    table_schema: Struct,
) -> None:
    if found is None:
        if field.required:
            raise ConfigError(f"Cannot write to {name}: {field.name} is required, but is missing")
        if field.write_default is not None:
            raise ConfigError(f"Cannot write to {name}: {field.name} has a default, but is missing: give its values")
        return
    if field.required and not found.required and options.check_nullability:
        raise ConfigError(
            f"Cannot write to {name}: {field.name} should be required, but is optional; "
            "the write option check-nullability=false checks each row instead"
        )
    if not (
        _fits(found.field_type, field.field_type) or _type(query_schema, found.name) == _type(table_schema, field.name)
    ):
        raise ConfigError(
            f"Cannot write to {name}: {field.name} is {field.field_type}, and the rows have {found.field_type}"
        )


def _fits(given: IcebergType, wanted: IcebergType) -> bool:
    if not (isinstance(given, PrimitiveType) and isinstance(wanted, PrimitiveType)):
        return False
    if given == wanted:
        return True
    try:
        return promote(given, wanted) == wanted
    except ResolveError:
        return False


def _type(schema: Struct, name: str) -> Any:
    """The type of a column in Spark's JSON, without comments and nullability."""
    return _bare(next(field["type"] for field in schema["fields"] if field["name"] == name))


def _bare(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return [(field["name"], _bare(field["type"])) for field in kind["fields"]]
    return {key: _bare(value) for key, value in kind.items() if not key.lower().endswith("containsnull")}
