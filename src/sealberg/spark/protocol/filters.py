"""Spark's filters: those that Python understands. Dates are days, timestamps are microseconds."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from sealberg.spark.protocol.codec import Message, Scalar

Comparison = Literal["eq", "eq-null-safe", "lt", "lteq", "gt", "gteq", "starts-with"]


@dataclass(frozen=True)
class TrueFilter(Message):
    TAG: ClassVar[str] = "true"


@dataclass(frozen=True)
class AndFilter(Message):
    TAG: ClassVar[str] = "and"
    left: "Filter"
    right: "Filter"


@dataclass(frozen=True)
class OrFilter(Message):
    TAG: ClassVar[str] = "or"
    left: "Filter"
    right: "Filter"


@dataclass(frozen=True)
class NotFilter(Message):
    TAG: ClassVar[str] = "not"
    child: "Filter"


@dataclass(frozen=True)
class IsNullFilter(Message):
    TAG: ClassVar[str] = "is-null"
    column: str


@dataclass(frozen=True)
class NotNullFilter(Message):
    TAG: ClassVar[str] = "not-null"
    column: str


@dataclass(frozen=True)
class InFilter(Message):
    TAG: ClassVar[str] = "in"
    column: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class CompareFilter(Message):
    TAG: ClassVar[str] = "compare"
    op: Comparison
    column: str
    value: Scalar


@dataclass(frozen=True)
class TransformFilter(Message):
    """A predicate on a transform of the column, such as bucket(16, id) = 3. Only procedures have it.

    Args:
        transform: in Iceberg's words, such as bucket[16] or day.
    """

    TAG: ClassVar[str] = "transform"
    transform: str
    predicate: "Predicate"


Predicate = IsNullFilter | NotNullFilter | InFilter | CompareFilter
Filter = TrueFilter | AndFilter | OrFilter | NotFilter | Predicate | TransformFilter
