"""Columns encoded to Avro: the bytes are those that fastavro writes for the rows."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType, UnknownType, UUIDType

from files.test_avro_columns import Numbers, typed
from kit.examples import examples
from sealberg.errors import ConfigError
from sealberg.files.avro.column_encoder import blocks, encode
from sealberg.files.avro.values import avro_schema, flattened

LONGS = Schema(NestedField(1, "n", LongType(), required=True))


def encoded(rows: list[dict[str, Any]], schema: Schema) -> list[bytes]:
    table = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema))
    made: list[bytes] = encode(
        table.combine_chunks().to_batches()[0].columns, schema.as_struct(), len(rows)
    ).to_pylist()
    return made


def by_fastavro(rows: list[dict[str, Any]], schema: Schema) -> list[bytes]:
    parsed = fastavro.parse_schema(flattened(avro_schema(schema.as_struct())))
    made = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        made.append(out.getvalue())
    return made


@examples(0.8)
@given(st.data())
def test_the_bytes_are_those_of_fastavro(data: st.DataObject) -> None:
    kind, values = data.draw(typed())
    field = {"id": 2, "name": "v", "required": False, "type": Numbers().json(kind)}
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}, field]
    schema = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields})
    found = data.draw(st.lists(st.none() | values, min_size=1, max_size=8))
    rows = [{"id": i, "v": value} for i, value in enumerate(found)]
    assert encoded(rows, schema) == by_fastavro(rows, schema)


@pytest.mark.parametrize("bits", range(0, 57, 7))
def test_numbers_of_every_length_are_encoded(bits: int) -> None:
    numbers = {0, *(sign * (2**bits + step) for sign in (1, -1) for step in (-1, 0, 1)), 2**63 - 1, -(2**63)}
    rows = [{"n": number} for number in sorted(numbers)]
    assert encoded(rows, LONGS) == by_fastavro(rows, LONGS)


def test_a_slice_is_encoded_without_its_neighbours() -> None:
    schema = Schema(NestedField(1, "l", ListType(2, StringType(), element_required=False)))
    rows = [{"l": None if i % 5 == 4 else [f"{i}", None][: i % 3]} for i in range(20)]
    table = pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema))
    piece = table.to_batches()[0].slice(7, 6)
    assert encode(piece.columns, schema.as_struct(), 6).to_pylist() == by_fastavro(rows[7:13], schema)


def test_a_null_in_a_required_column_is_refused_at_any_depth() -> None:
    inner = StructType(NestedField(2, "x", IntegerType(), required=True))
    schema = Schema(NestedField(1, "s", ListType(3, inner, element_required=False)))
    good: list[dict[str, Any]] = [{"s": [{"x": 1}, None]}, {"s": None}]
    assert encoded(good, schema) == by_fastavro(good, schema)
    loose = pa.large_list(pa.struct([pa.field("x", pa.int32())]))
    with pytest.raises(ConfigError, match="required and has a null"):
        encode([pa.array([[{"x": None}]], loose)], schema.as_struct(), 1)


def test_records_without_bytes_have_no_bytes() -> None:
    schema = Schema(NestedField(1, "nothing", UnknownType()))
    assert encode([pa.nulls(3)], schema.as_struct(), 3).to_pylist() == [b"", b"", b""]


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=60), st.integers(1, 40))
def test_blocks_hold_every_record_once_and_end_at_their_size(numbers: list[int], size: int) -> None:
    records = encode([pa.array(numbers, pa.int64())], LONGS.as_struct(), len(numbers))
    cut = blocks(records, size)
    assert sum(rows for rows, _ in cut) == len(numbers)
    assert b"".join(bytes(plain) for _, plain in cut) == b"".join(records.to_pylist())
    assert all(len(plain) >= size for _, plain in cut[:-1])
    at = 0
    for rows, plain in cut[:-1]:
        assert len(plain) - len(records[at + rows - 1].as_py()) < size  # the last record reached the size
        at += rows


def test_a_column_of_uuids_may_be_all_null() -> None:
    storage = pa.array([None, None], pa.binary(16))
    column = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    inside = pa.StructArray.from_arrays([column], fields=[pa.field("u", pa.uuid())], mask=pa.array([True, True]))
    kind = StructType(NestedField(1, "u", UUIDType()), NestedField(2, "s", StructType(NestedField(3, "u", UUIDType()))))
    assert encode([column, inside], kind, 2).to_pylist() == [b"\x00\x00", b"\x00\x00"]
