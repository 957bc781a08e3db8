"""The filter of a job's `where`, checked when the plan is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.expressions.visitors import bind
from pyparsing import ParseBaseException

from sealberg.errors import ConfigError
from sealberg.scan.filter_literals import fitted
from sealberg.write.row_changes import parse

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema


def row_filter(where: str | BooleanExpression, schema: Schema) -> tuple[BooleanExpression, BooleanExpression]:
    """The filter, and the filter bound to the schema."""
    try:
        found = fitted(parsed(where), schema)
        return found, bind(schema, found, case_sensitive=True)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cannot parse the filter {where!s}: {error}") from error


def parsed(where: str | BooleanExpression) -> BooleanExpression:
    """The filter, of any schema."""
    try:
        return parse(where)
    except ParseBaseException as error:  # its own text is the whole grammar
        near = str(where)[error.loc : error.loc + 20]
        raise ConfigError(
            f"cannot parse the filter {where!s} at {near!r}: expected comparisons, IN, LIKE 'a%', IS NULL, AND, OR "
            "and NOT, with strings in single quotes"
        ) from None
    except ValueError as error:
        raise ConfigError(f"cannot parse the filter {where!s}: {error}") from error
