"""What an entry claims of columns, by itself: no file is needed to see that it cannot be true.

ids       every column that has counts or bounds exists, or has existed
bounds    have the length of their type, are no NaN, and the lower is not above the upper
counts    no more nulls or NaNs than values
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.schema import index_by_id
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from sealberg.jobs.checks.bounds import comparable
from sealberg.jobs.checks.outcome import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.types import IcebergType

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata

LENGTHS: Final[tuple[tuple[type[PrimitiveType], int], ...]] = (
    (BooleanType, 1),
    (IntegerType, 4),
    (DateType, 4),
    (FloatType, 4),
    (LongType, 8),
    (DoubleType, 8),
    (TimeType, 8),
    (TimestampType, 8),
    (TimestamptzType, 8),
    (TimestampNanoType, 8),
    (TimestamptzNanoType, 8),
    (UUIDType, 16),
)
RESERVED: Final = (1 << 31) - 201  # ids from here on are columns of Iceberg itself, such as _row_id


@dataclass(frozen=True, slots=True)
class Columns:
    """All columns that a table has had, by id.

    Attributes:
        types: the types of each, as schemas have it; a column can be widened.
        last_id: the highest id that was ever given: a schema that nothing needs may have been removed.
    """

    types: Mapping[int, tuple[IcebergType, ...]]
    last_id: int

    @classmethod
    def of(cls, metadata: V3TableMetadata) -> Columns:
        types: dict[int, tuple[IcebergType, ...]] = {}
        for schema in metadata.schemas:
            for field_id, field in index_by_id(schema).items():
                known = types.get(field_id, ())
                if field.field_type not in known:
                    types[field_id] = (*known, field.field_type)
        return cls(types, metadata.last_column_id)

    def has(self, field_id: int) -> bool:
        return 0 < field_id <= self.last_id or field_id in self.types or field_id >= RESERVED


def check_claims(file: DataFileV3, columns: Columns) -> Iterator[Problem]:
    """Claims of an entry that cannot be true."""
    for what, counts in _counts(file).items():
        if unknown := sorted(field_id for field_id in counts if not columns.has(field_id)):
            yield Problem("count", f"the manifest claims {what} of the column {unknown[0]}, which does not exist")
    values = file.value_counts or {}
    for what, inner in (("nulls", file.null_value_counts or {}), ("NaN values", file.nan_value_counts or {})):
        for field_id, number in inner.items():
            if number < 0 or (field_id in values and number > values[field_id]):
                yield Problem("count", f"the manifest claims {number} {what} for field {field_id}, more than values")
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    for which, bounds in (("lower", lower), ("upper", upper)):
        for field_id, bound in bounds.items():
            if (text := _bound(columns, field_id, bound)) is not None:
                yield Problem("bounds", f"the {which} bound of the column {field_id} {text}")
    for field_id in lower.keys() & upper.keys():
        for kind in columns.types.get(field_id, ())[:1]:
            low, high = comparable(kind, lower[field_id]), comparable(kind, upper[field_id])
            if low is not None and high is not None and type(low) is type(high) and low > high:
                yield Problem("bounds", f"the lower bound of the column {field_id} is above its upper bound")


def _counts(file: DataFileV3) -> dict[str, Mapping[int, int]]:
    return {
        "stored bytes": file.column_sizes or {},
        "values": file.value_counts or {},
        "nulls": file.null_value_counts or {},
        "NaN values": file.nan_value_counts or {},
    }


def _bound(columns: Columns, field_id: int, bound: bytes) -> str | None:
    if not columns.has(field_id):
        return "is of a column that does not exist"
    kinds = columns.types.get(field_id)
    if kinds is None:
        return None  # dropped, and so is its schema
    if not any(_fits(kind, bound) for kind in kinds):
        return f"has {len(bound)} bytes, which no value of the type {kinds[-1]} has"
    if any(isinstance(kind, FloatType | DoubleType) for kind in kinds) and len(bound) in (4, 8):
        (number,) = struct.unpack("<f" if len(bound) == 4 else "<d", bound)
        if math.isnan(number):
            return "is NaN, which bounds nothing"
    return None


def _fits(kind: IcebergType, bound: bytes) -> bool:
    """Whether the bytes can be a bound of the type; other types have values of any length."""
    if isinstance(kind, StringType):
        try:
            bound.decode()
        except UnicodeDecodeError:
            return False
        return True
    if isinstance(kind, FixedType):
        return len(bound) <= len(kind)
    length = next((length for known, length in LENGTHS if isinstance(kind, known)), None)
    return length is None or len(bound) == length
