"""A schema of two columns, its rows, and how the tests of scans read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    LongType,
    NestedField,
    StringType,
)

if TYPE_CHECKING:
    from kit.tables.small_tables import SmallTable


def field(number: int, name: str, kind: IcebergType, **more: Any) -> NestedField:
    return NestedField(number, name, kind, required=more.pop("required", False), **more)


LINEAGE = ("_row_id", "_last_updated_sequence_number")
ID = field(1, "id", LongType(), required=True)
SCHEMA = Schema(ID, field(2, "name", StringType()))


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in ids]


def read(small: SmallTable, *arguments: Any, **scan: Any) -> list[dict[str, Any]]:
    found = small.table().scan(*arguments, **scan)
    whole = found.to_arrow()
    assert found.to_arrow_batch_reader().read_all().equals(whole)
    listed: list[dict[str, Any]] = whole.to_pylist()
    return listed


def formats(test: Any) -> Any:
    return pytest.mark.parametrize("make", ["parquet", "avro"])(test)
