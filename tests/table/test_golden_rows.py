"""Every snapshot of every table that Iceberg Java wrote has the rows that Java read from it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from collections import Counter
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit import golden

if TYPE_CHECKING:
    from pyiceberg.table import Table

LINEAGE = ("_row_id", "_last_updated_sequence_number")
KMS = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}


@cache
def opened(table: str) -> Table:
    newest = sorted((golden.root() / "wh/db.db" / table / "metadata").glob("*metadata.json"))[-1]
    return sealberg.open_table(
        f"file://{newest}",
        KMS,
        expected_key_id="keyA",
        relocate={golden.PREFIX: f"file://{golden.root() / 'wh'}"},
    )


SNAPSHOTS = [
    (table, snapshot["snapshot-id"]) for table in golden.TABLES for snapshot in golden.metadata(table)["snapshots"]
]


def plain(value: Any) -> Any:
    """A value of Arrow in the words of the expected rows."""
    match value:
        case bool() | str() | int() | None:
            return value
        case float():
            if math.isnan(value):
                return "NaN"
            if math.isinf(value):
                return "Infinity" if value > 0 else "-Infinity"
            return Decimal(repr(value))
        case Decimal():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            zone = "" if value.tzinfo is None else "Z"
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + zone
        case dt.date():
            return value.isoformat()
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list():
            if value and all(isinstance(pair, tuple) for pair in value):
                return {str(key): plain(inner) for key, inner in value}
            return [plain(inner) for inner in value]
    raise AssertionError(type(value))


def canonical(value: Any) -> Any:
    """Equal values as equal keys: 1.10 is 1.1, an empty map of Arrow is an empty list."""
    match value:
        case bool() | str() | None:
            return value
        case int() | float() | Decimal():
            return Decimal(value)
        case dict():
            return tuple(sorted((key, canonical(inner)) for key, inner in value.items()))
        case list():
            return tuple(canonical(inner) for inner in value)
    raise AssertionError(type(value))


def counted(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(canonical(row) for row in rows)


def expected_rows(table: str, snapshot_id: int) -> list[dict[str, Any]]:
    lines = (golden.root() / "expected" / table / f"rows-{snapshot_id}.jsonl").read_text().splitlines()
    return [json.loads(line, parse_float=Decimal) for line in lines]


@pytest.mark.parametrize(("table", "snapshot_id"), SNAPSHOTS)
def test_a_snapshot_has_the_rows_that_java_read(table: str, snapshot_id: int) -> None:
    scan = opened(table).scan(snapshot_id=snapshot_id, selected_fields=("*", *LINEAGE))
    found = scan.to_arrow()
    singles = [one.name for one in found.schema if one.type == pa.float32()]
    expected = expected_rows(table, snapshot_id)
    for row in expected:
        row.update({name: as_single(row[name]) for name in singles})
    assert counted([plain(row) for row in found.to_pylist()]) == counted(expected)


def as_single(value: Any) -> Any:
    """A number as Java prints a float, as the float that it stands for."""
    if value is None or isinstance(value, str):
        return value
    return Decimal(repr(struct.unpack("f", struct.pack("f", float(value)))[0]))


@pytest.mark.parametrize(("table", "snapshot_id"), SNAPSHOTS)
def test_a_snapshot_has_as_many_rows_as_java_counted(table: str, snapshot_id: int) -> None:
    scan = opened(table).scan(snapshot_id=snapshot_id)
    assert scan.count() == len(expected_rows(table, snapshot_id))


@pytest.mark.parametrize("table", golden.TABLES)
def test_the_batch_reader_gives_the_same_rows_in_the_same_order(table: str) -> None:
    scan = opened(table).scan(selected_fields=("*", "_file", "_pos", *LINEAGE))
    read, whole = scan.to_arrow_batch_reader().read_all(), scan.to_arrow()
    assert read.schema.equals(whole.schema, check_metadata=True)
    assert repr(read.to_pylist()) == repr(whole.to_pylist())  # as text, for NaN is not equal to itself


@pytest.mark.parametrize("table", golden.TABLES)
def test_row_ids_tell_rows_apart(table: str) -> None:
    ids = opened(table).scan(selected_fields=("_row_id",)).to_arrow()["_row_id"]
    assert ids.null_count == 0
    assert len(ids.unique()) == len(ids)
