"""The sort order of a rewrite, in the words of SQL."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.types import LongType, NestedField, StructType

from sealberg.errors import ConfigError
from sealberg.jobs.compaction.sorting import parse_order

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "c.d", LongType()),
    NestedField(3, "e`f", LongType()),
    NestedField(4, "a, (b)", LongType()),
    NestedField(5, "s", StructType(NestedField(6, "in", LongType()))),
)


@pytest.mark.parametrize(
    ("text", "ids", "transform"),
    [
        ("`c.d` DESC NULLS LAST", [2], "identity"),
        ("`e``f`, id", [3, 1], "identity"),
        ("`a, (b)`,`id`", [4, 1], "identity"),
        ("bucket(4, `a, (b)`)", [4], "bucket[4]"),
        ("truncate(`c.d`, 3)", [2], "truncate[3]"),
        ("`s`.`in`, s.in", [6, 6], "identity"),
    ],
)
def test_names_in_quotes(text: str, ids: list[int], transform: str) -> None:
    order = parse_order(text, SCHEMA)
    assert [field.source_id for field in order.fields] == ids
    assert str(order.fields[0].transform) == transform
    if "DESC" in text:
        assert (order.fields[0].direction, order.fields[0].null_order) == (SortDirection.DESC, NullOrder.NULLS_LAST)


@pytest.mark.parametrize("text", ["`c.d", "c.d`", "``", "`nope`", "bucket(4, `id)", "`" * 4001, "id) desc"])
def test_what_is_no_order(text: str) -> None:
    with pytest.raises(ConfigError, match="sort order"):
        parse_order(text, SCHEMA)
