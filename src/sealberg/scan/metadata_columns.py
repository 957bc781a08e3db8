"""Metadata columns: the place of a row and its lineage.

    _file                           the path of the data file
    _pos                            the position of the row in the file, from 0
    _row_id                         stored, or else first_row_id of the file + _pos
    _last_updated_sequence_number   stored, or else the file's data sequence number

The last two are stored only for rows that were rewritten from one file to another; new rows inherit both. Rows of a
file without first_row_id (of a table upgraded from version 2 and not written since) have null for both, as in Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE: Final = NestedField(2147483646, "_file", StringType(), required=True)
POS: Final = NestedField(2147483645, "_pos", LongType(), required=True)
ROW_ID: Final = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED: Final = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)

COLUMNS: Final[Mapping[str, NestedField]] = {field.name: field for field in (FILE, POS, ROW_ID, LAST_UPDATED)}
IDS: Final = frozenset(field.field_id for field in COLUMNS.values())


def project(schema: Schema, selected: Sequence[str], *, case_sensitive: bool = True) -> Schema:
    """The selected columns of a schema, in schema order, followed by the selected metadata columns."""
    own = {name if case_sensitive else name.lower() for name in schema.column_names}
    asked: list[NestedField] = []
    names: list[str] = []
    for name in selected:
        known = COLUMNS.get(name if case_sensitive else name.lower())
        # A column of the table that has the name of a metadata column hides it.
        if known is None or (name if case_sensitive else name.lower()) in own:
            names.append(name)
        elif known not in asked:
            asked.append(known)
    if "*" in names:
        chosen = schema
    elif names or not asked:
        chosen = schema.select(*names, case_sensitive=case_sensitive)
    else:
        chosen = Schema(schema_id=schema.schema_id)
    if not asked:
        return chosen
    return Schema(*chosen.fields, *asked, schema_id=chosen.schema_id)


def row_ids(stored: pa.Array | None, first_row_id: int | None, positions: pa.Array) -> pa.Array:
    """The ids of the rows at these positions."""
    if first_row_id is None:
        return pa.nulls(len(positions), pa.int64()) if stored is None else stored
    inherited = pc.add(positions, pa.scalar(first_row_id, pa.int64()))
    return inherited if stored is None else pc.coalesce(stored, inherited)


def last_updated(
    stored: pa.Array | None, first_row_id: int | None, sequence_number: int | None, count: int
) -> pa.Array:
    """The sequence numbers at which `count` rows were last changed."""
    if first_row_id is None or sequence_number is None:
        return pa.nulls(count, pa.int64()) if stored is None else stored
    inherited = pa.scalar(sequence_number, pa.int64())
    return pa.repeat(inherited, count) if stored is None else pc.coalesce(stored, inherited)
