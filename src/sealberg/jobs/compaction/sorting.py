"""The order of rows in new files: the table's sort order, an order that the user gives, or a z-order.

    "day desc nulls last, bucket(16, id)"   ──parse_order──> SortOrder
    rows, SortOrder                         ──sorted_rows──> the rows in that order
    "zorder" of (a, b)                      ──> zorder.py

Nulls come first or last as the order says. NaN is greater than every other number, as in Java; Arrow alone would put
NaN at the end in both directions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyiceberg.types import PrimitiveType

from sealberg.errors import ConfigError
from sealberg.jobs.compaction.zorder import check_zorder_type, z_values
from sealberg.write.partition_split import transformed_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema

_NAME: Final = r"(?:`[^`]*`|[^()`])"  # a letter, or a part in quotes: `a``b` is two such parts
_FIELD: Final = re.compile(
    rf"(?P<term>{_NAME}+?|\w+\s*\({_NAME}*\))(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.I
)
_TRANSFORM: Final = re.compile(r"(?P<name>\w+)\s*\((?P<arguments>.*)\)", re.S)
_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`")
_PARAMETER: Final = {"bucket": "bucket", "truncate": "truncate"}
_PLAIN: Final = {
    "year": "year",
    "years": "year",
    "month": "month",
    "months": "month",
    "day": "day",
    "days": "day",
    "hour": "hour",
    "hours": "hour",
}


@dataclass(frozen=True)
class Layout:
    """How rows are ordered in new files.

    Attributes:
        order: sort by this order.
        zorder: or by the interleaved bits of these columns.
        order_id: the id of the order among the orders of the table; 0 if it has none.
    """

    order: SortOrder | None = None
    zorder: tuple[int, ...] = ()
    order_id: int = 0

    @property
    def is_sorted(self) -> bool:
        return self.order is not None or bool(self.zorder)

    @property
    def first_column(self) -> int | None:
        """The field id of the column by which rows are ordered first, if its bounds order files."""
        return self.order.fields[0].source_id if self.order is not None else None

    def sorted_rows(self, rows: pa.Table, schema: Schema) -> pa.Table:
        if self.order is not None:
            return rows.take(_indices(rows, self.order, schema))
        columns = [
            transformed_column(SortField(field_id, IdentityTransform()), schema, rows) for field_id in self.zorder
        ]
        return rows.take(pc.sort_indices(z_values(columns)))


UNSORTED: Final = Layout()


def zorder_of(columns: Sequence[str], schema: Schema) -> Layout:
    """The z-order of these columns."""
    if len(set(columns)) != len(columns):
        raise ConfigError(f"zorder has a column twice: {', '.join(columns)}")
    ids = []
    for name in columns:
        field_id = _column(name, schema, "zorder")
        check_zorder_type(name, schema.find_type(field_id))
        ids.append(field_id)
    return Layout(zorder=tuple(ids))


def parse_order(text: str, schema: Schema) -> SortOrder:
    """An order in the words of Java's rewrite_data_files: `id DESC NULLS LAST, bucket(8, name)`."""
    return SortOrder(*(_parse_field(part, text, schema) for part in _parts(text)))


def _parts(text: str) -> Iterator[str]:
    """The fields, split at commas outside of parentheses and quotes."""
    depth, start, quoted = 0, 0, False
    for at, letter in enumerate(text):
        quoted ^= letter == "`"
        depth += 0 if quoted else {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0 and not quoted:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _parse_field(part: str, text: str, schema: Schema) -> SortField:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise ConfigError(
            f"cannot parse the sort order {text!r} at {part!r}, expected COLUMN [ASC | DESC] [NULLS FIRST | NULLS LAST]"
        )
    name, transform = _term(found["term"].strip(), text)
    direction = SortDirection((found["direction"] or "asc").lower())
    nulls = found["nulls"]
    order = None if nulls is None else NullOrder.NULLS_FIRST if nulls.lower() == "first" else NullOrder.NULLS_LAST
    name = _QUOTED.sub(lambda quoted: quoted[1].replace("``", "`"), name)  # as SQL has odd names
    field_id = _column(name, schema, "the sort order")
    source = schema.find_type(field_id)
    if not transform.can_transform(source):
        raise ConfigError(f"the sort order {text!r} cannot use {transform} of {name}, which is a {source}")
    return SortField(field_id, transform, direction, order)


def _term(term: str, text: str) -> tuple[str, Transform[object, object]]:
    call = _TRANSFORM.fullmatch(term)
    if call is None:
        return term, IdentityTransform()
    name, arguments = call["name"].lower(), list(_parts(call["arguments"]))
    if name in _PLAIN and len(arguments) == 1:
        return arguments[0], parse_transform(_PLAIN[name])
    if name in _PARAMETER and len(arguments) == 2 and (number := [a for a in arguments if a.isdigit()]):
        column = next(a for a in arguments if a != number[0])
        return column, parse_transform(f"{_PARAMETER[name]}[{number[0]}]")
    raise ConfigError(
        f"the sort order {text!r} has {term!r}, expected a column, bucket(N, COLUMN), truncate(N, COLUMN), "
        "years(COLUMN), months(COLUMN), days(COLUMN) or hours(COLUMN)"
    )


def _column(name: str, schema: Schema, where: str) -> int:
    try:
        field = schema.find_field(name)
    except ValueError:
        known = ", ".join(schema.column_names)
        raise ConfigError(f"{where} names the column {name!r}, which the table does not have; it has {known}") from None
    if not isinstance(field.field_type, PrimitiveType):
        raise ConfigError(f"{where} names the column {name!r} of type {field.field_type}, expected a primitive type")
    return field.field_id


def _indices(rows: pa.Table, order: SortOrder, schema: Schema) -> pa.Array:
    keys: list[tuple[str, str]] = []
    columns: list[pa.ChunkedArray] = []

    def add(column: pa.ChunkedArray, ascending: bool) -> None:
        keys.append((str(len(columns)), "ascending" if ascending else "descending"))
        columns.append(column)

    for field in order.fields:
        values = transformed_column(field, schema, rows)
        ascending = field.direction == SortDirection.ASC
        if values.null_count:
            add(values.is_null(), ascending=field.null_order == NullOrder.NULLS_LAST)
        if pa.types.is_floating(values.type):
            add(pc.is_nan(values).fill_null(False), ascending)
        add(values, ascending)
    table = pa.Table.from_arrays(columns, [name for name, _ in keys])
    return pc.sort_indices(table, sort_keys=keys)
