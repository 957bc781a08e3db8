"""What a filter means in every schema that a table has had.

    name = 'Ann'    now the field 5; the field 2 until it was dropped, or renamed
    ──> name = 'Ann' OR the field 2 = 'Ann', over the columns of now and the field 2

Files and older snapshots have columns that the table no longer has, or has under other names. Time travel shows them by
their names of then. So a name in the filter means every field that ever had it.

A comparison that is true of what is not there (`IS NULL`, `!=`) would match the rows of all files that lack a former
field; with such a filter, a name of several fields is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    Or,
    Reference,
    SetPredicate,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal, literal
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, LongType, StringType, UUIDType

from sealberg.errors import ConfigError
from sealberg.jobs.row_filter import parsed, row_filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

    from sealberg.metadata.table_metadata import V3TableMetadata

POSITIVE: Final = (EqualTo, In, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, StartsWith)
_EQUAL: Final[type[LiteralPredicate]] = EqualTo  # whose own signature names its arguments otherwise
MOST: Final = 64  # readings of one filter


@dataclass(frozen=True)
class Wanted:
    """The rows of a filter, by every field that its names ever meant.

    Attributes:
        schema: the columns of now, and former ones under names that no column has.
        row_filter: unbound, over these columns.
        bound: the same, bound.
        fields: the ids of each name that meant several fields, or means none now.
    """

    schema: Schema = field(repr=False)
    row_filter: BooleanExpression = field(repr=False)
    bound: BooleanExpression = field(repr=False)
    fields: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def wanted(where: str | BooleanExpression, metadata: V3TableMetadata) -> Wanted:
    """What the filter means in this table.

    Raises:
        ConfigError: it is no filter of this table, or a name of it meant several fields that cannot be searched.
    """
    now = metadata.schema()
    expression = parsed(where)
    names = dict.fromkeys(map(_name, _predicates(expression)))
    ids = {name: _ids(name, metadata) for name in names}
    several = {name: found for name, found in ids.items() if found and found != (_id(now, name),)}
    if not several:
        return Wanted(now, *row_filter(where, now))
    if not all(isinstance(each, POSITIVE) for each in _predicates(expression)) or _has_not(expression):
        raise ConfigError(
            _refusal(where, several, "only =, IN, <, <=, >, >= and LIKE 'a%' are searched in all of them")
        )
    columns = _Columns(metadata)
    choices = [[columns.name_of(name, each) for each in ids[name] or (None,)] for name in names]
    readings = list(product(*choices))
    if len(readings) > MOST:
        raise ConfigError(_refusal(where, several, f"these are more than {MOST} readings of the filter"))
    if any(name is None for names_ in readings for name in names_):
        raise ConfigError(_refusal(where, several, "a field of a struct that is still there cannot be searched"))
    try:
        renamed = [_renamed(expression, dict(zip(names, each, strict=True)), columns.schema) for each in readings]
        either = _either(renamed)
        return Wanted(columns.schema, *row_filter(either, columns.schema), several)
    except (ConfigError, TypeError) as error:
        raise ConfigError(_refusal(where, several, f"not all have a type that fits: {error}")) from error


def _refusal(where: object, several: Mapping[str, Sequence[int]], reason: str) -> str:
    named = "; ".join(f"{name} has been the fields {', '.join(map(str, ids))}" for name, ids in several.items())
    return (
        f"the filter {where!s} means several things in the snapshots and files of this table: {named}, and {reason}. "
        "Name the rows by another column"
    )


class _Columns:
    """The columns of now, and former ones as they are needed."""

    def __init__(self, metadata: V3TableMetadata) -> None:
        self._schemas = [metadata.schema(), *reversed(metadata.schemas)]
        self._now = metadata.schema()
        self._more: dict[int, NestedField] = {}

    @property
    def schema(self) -> Schema:
        return Schema(*self._now.fields, *self._more.values(), schema_id=self._now.schema_id)

    def name_of(self, name: str, field_id: int | None) -> str | None:
        """The name of a field among the columns; None if it was a part of a struct that is still there without it."""
        if field_id is None:
            return name  # which binds to nothing: the error comes from there
        known = self.schema
        if field_id in known.field_ids:
            return known.find_column_name(field_id)
        former = next(each for each in self._schemas if field_id in each.field_ids)
        top = next(each for each in former.fields if field_id in _ids_below(each))
        if top.field_id in known.field_ids:
            return None
        alias = f"former-field-{top.field_id}"
        while alias in known.column_names:
            alias += "-"
        self._more[top.field_id] = top.model_copy(update={"name": alias, "required": False})
        rest = (former.find_column_name(field_id) or name).removeprefix(top.name)
        return f"{alias}{rest}"


def columns_of(where: str | BooleanExpression) -> tuple[str, ...]:
    """The names in a filter."""
    return tuple(dict.fromkeys(map(_name, _predicates(parsed(where)))))


def has_had(metadata: TableMetadata, name: str) -> bool:
    """Whether the table has, or had, a column of this name."""
    return any(_id(schema, name) is not None for schema in metadata.schemas)


def equals(column: str, text: str, metadata: V3TableMetadata) -> BooleanExpression | None:
    """The filter for a value in the types that a column has had; None if no row can have it."""
    now, ids = metadata.schema(), _ids(column, metadata)
    kinds = [_type_of(each, metadata) for each in ids]
    values = [converted(literal(text), kind, exact=True) for kind in kinds]
    if not any(values):
        return None
    value = values[0] if ids == (_id(now, column),) else None
    return _EQUAL(Reference(column), value or literal(text))


def _type_of(field_id: int, metadata: V3TableMetadata) -> IcebergType:
    schemas = (metadata.schema(), *reversed(metadata.schemas))
    return next(each.find_type(field_id) for each in schemas if field_id in each.field_ids)


def _ids_below(column: NestedField) -> frozenset[int]:
    return frozenset(Schema(column).field_ids)


def _ids(name: str, metadata: V3TableMetadata) -> tuple[int, ...]:
    """Every field that had the name; the one of now first."""
    found = (_id(schema, name) for schema in (metadata.schema(), *reversed(metadata.schemas)))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _id(schema: Schema, name: str) -> int | None:
    try:
        return schema.find_field(name).field_id
    except ValueError:
        return None


def _predicates(expression: BooleanExpression) -> Iterator[UnboundPredicate]:
    if isinstance(expression, And | Or):
        yield from _predicates(expression.left)
        yield from _predicates(expression.right)
    elif isinstance(expression, Not):
        yield from _predicates(expression.child)
    elif isinstance(expression, UnboundPredicate):
        yield expression


def _has_not(expression: BooleanExpression) -> bool:
    if isinstance(expression, And | Or):
        return _has_not(expression.left) or _has_not(expression.right)
    return isinstance(expression, Not)


def _name(predicate: UnboundPredicate) -> str:
    term = predicate.term
    assert isinstance(term, Reference)
    return term.name


def _renamed(expression: BooleanExpression, names: Mapping[str, str | None], schema: Schema) -> BooleanExpression:
    """The filter over other columns, with values of their types; TypeError if a value has none."""
    if isinstance(expression, And | Or):
        return type(expression)(_renamed(expression.left, names, schema), _renamed(expression.right, names, schema))
    assert isinstance(expression, LiteralPredicate | SetPredicate), "what else is a predicate was refused"
    name = str(names[_name(expression)])
    kind = schema.find_type(name) if name in schema.column_names else None
    given = [expression.literal] if isinstance(expression, LiteralPredicate) else list(expression.literals)
    exact = isinstance(expression, EqualTo | In)
    values = [each for each in (converted(value, kind, exact=exact) for value in given) if each is not None]
    if not values:
        return AlwaysFalse()  # no row of this column has such a value
    if isinstance(expression, LiteralPredicate):
        return type(expression)(Reference(name), values[0])
    return type(expression)(Reference(name), set(values))


def converted(value: Literal[Any], kind: IcebergType | None, *, exact: bool) -> Literal[Any] | None:
    """The value in the type of a column; None if no row of the column can have it; TypeError if that is not known.

    A number is also looked for as a text, and a text as a number: a column that took another's name has often been its
    other form.
    """
    found = value.value
    if isinstance(kind, StringType) and isinstance(found, int | float | Decimal | UUID) and exact:
        return literal(str(found))
    if isinstance(found, str) and isinstance(kind, IntegerType | LongType | DecimalType | UUIDType) and exact:
        return _read(found, kind)
    try:
        if kind is not None:
            value.to(kind)
    except ValueError as error:
        raise TypeError(str(error)) from error
    return value


def _read(text: str, kind: IcebergType) -> Literal[Any] | None:
    """A text as a number or a UUID; None if it is none that the type has."""
    try:
        if isinstance(kind, UUIDType):
            return literal(UUID(text))
        number = Decimal(text)
        if isinstance(kind, DecimalType):
            scaled = number.quantize(Decimal(1).scaleb(-kind.scale))
            return literal(scaled) if scaled == number else None
        return literal(int(number)) if number == int(number) else None
    except (ValueError, OverflowError, InvalidOperation):
        return None


def _either(readings: Sequence[BooleanExpression]) -> BooleanExpression:
    found = readings[0]
    for reading in readings[1:]:
        found = Or(found, reading)
    return found
