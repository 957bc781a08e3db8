"""Avro blocks decoded by columns: the same as by rows, whatever the bytes are."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.examples import examples
from kit.tables import tables
from sealberg.errors import FormatError, SealbergError
from sealberg.files.avro import container, data_file
from sealberg.files.avro.column_decoder import ColumnDecoder
from sealberg.files.avro.container import Block, Header, framed
from sealberg.files.avro.data_file import BlockDecoder
from sealberg.files.avro.values import avro_schema, columns, flattened

ID = {"name": "id", "type": "long", "field-id": 1}
SYNC = b"0123456789abcdef"
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "table", "fields": list(fields)}


def decoder(schema: Schema) -> BlockDecoder:
    return BlockDecoder(Header(avro_schema(schema.as_struct()), "null", SYNC, 0, {}), schema)


# -- equal to rows ------------------------------------------------------------------------------

PRIMITIVES: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "double": ("double", st.floats(allow_nan=False)),
    "string": ("string", st.text(max_size=9)),
    "binary": ("bytes", st.binary(max_size=9)),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    """A type of Iceberg as JSON, and a strategy for its values."""
    kind = draw(st.sampled_from([*PRIMITIVES, "list", "map", "struct"] if depth else [*PRIMITIVES]))
    if kind in PRIMITIVES:
        return {"type": kind}, PRIMITIVES[kind][1]
    inner, values = draw(typed(depth - 1))
    if kind == "list":
        return {"type": "list", "element": inner}, st.lists(st.none() | values, max_size=3)
    if kind == "map":
        return {"type": "map", "value": inner}, st.dictionaries(st.text(max_size=3), st.none() | values, max_size=3)
    return {"type": "struct", "field": inner}, st.fixed_dictionaries({"x": st.none() | values})


class Numbers:
    def __init__(self) -> None:
        self.last = 10

    def json(self, kind: dict[str, Any]) -> Any:
        self.last += 2
        first, second = self.last - 1, self.last
        match kind["type"]:
            case "list":
                element = self.json(kind["element"])
                return {"type": "list", "element-id": first, "element-required": False, "element": element}
            case "map":
                value = self.json(kind["value"])
                ids = {"key-id": first, "value-id": second, "value-required": False}
                return {"type": "map", "key": "string", "value": value, **ids}
            case "struct":
                inner = {"id": first, "name": "x", "required": False, "type": self.json(kind["field"])}
                return {"type": "struct", "fields": [inner]}
        return kind["type"]


@examples(0.6)
@given(st.data())
def test_columns_are_what_rows_would_be(data: st.DataObject) -> None:
    kind, values = data.draw(typed())
    field = {"id": 2, "name": "v", "required": False, "type": Numbers().json(kind)}
    schema = Schema.model_validate(
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}, field]}
    )
    given_rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=8))
    written = flattened(avro_schema(schema.as_struct()))
    out = io.BytesIO()
    rows = [{"id": i, "v": value} for i, value in enumerate(given_rows)]
    fastavro.writer(out, fastavro.parse_schema(written), rows, sync_marker=SYNC)
    stored = out.getvalue()
    payload = stored[stored.index(SYNC) + 16 :]
    made = decoder(schema).rows([Block(0, len(rows), payload)]).batch
    arrow = list(schema_to_pyarrow(schema))
    expected = columns(list(fastavro.reader(io.BytesIO(stored))), written, schema.as_struct(), arrow)
    assert [column.to_pylist() for column in made.columns] == [array.to_pylist() for array in expected]
    made.validate(full=True)


# -- bytes that are not what they claim ---------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 1 << 20, 1 << 40, 1 << 62])
def test_a_block_cannot_claim_more_rows_than_its_bytes_could_hold(rows: int) -> None:
    with pytest.raises(FormatError, match=f"claims {rows} rows in 1 bytes"):
        ColumnDecoder(record(ID)).decode([(rows, b"\x02")], [0])


def test_a_panic_of_polars_is_an_error_and_ends_neither_the_process_nor_the_thread() -> None:
    text = {"name": "s", "type": "bytes", "field-id": 1}
    beyond = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # a length of 2**63 - 1
    with pytest.raises(FormatError, match="does not decode"):
        ColumnDecoder(record(text)).decode([(1, beyond + b"x")], [0])


@pytest.mark.parametrize(
    "strange",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "e", "fields": []}},
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "enum", "name": "e", "symbols": ["A"]},
        ["null", "int", "long"],
        {"type": "fixed", "name": "f", "size": 17, "iceberg-logical-type": "decimal", "precision": 39, "scale": 1},
        "what",
    ],
)
def test_schemas_that_polars_does_not_decode_within_bounds_are_left_to_rows(strange: Any) -> None:
    assert ColumnDecoder(record(ID)).possible
    assert not ColumnDecoder(record(ID, {"name": "x", "type": strange, "field-id": 2})).possible


def test_altered_blocks_raise_nothing_but_our_errors() -> None:
    schema = Schema(*SCHEMA.fields)
    out, dice = io.BytesIO(), random.Random(3)
    rows = [{"id": i, "name": f"né{i}"} for i in range(40)]
    fastavro.writer(out, fastavro.parse_schema(flattened(avro_schema(schema.as_struct()))), rows, sync_marker=SYNC)
    payload = out.getvalue()[out.getvalue().index(SYNC) + 16 : -16]
    _, at = container.varint(payload, 0)
    _, at = container.varint(payload, at)
    plain = payload[at:]
    for _ in range(600):
        altered = bytearray(plain)
        altered[dice.randrange(len(altered))] = dice.randrange(256)
        block = Block(0, 40, framed(40, bytes(altered), SYNC))
        try:
            decoder(schema).rows([block]).batch.validate(full=True)
        except SealbergError:
            continue


def test_an_int_that_is_too_large_is_refused_and_not_another_number() -> None:
    schema = Schema.model_validate(
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "i", "required": True, "type": "int"}]}
    )
    with pytest.raises(FormatError, match="does not decode"):
        decoder(schema).rows([Block(0, 1, framed(1, b"\x80\x80\x80\x80\x80\x80\x40", SYNC))])


# -- growth -------------------------------------------------------------------------------------


def test_no_row_becomes_a_python_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows were decoded")

    out = io.BytesIO()
    rows = [{"id": i, "name": f"n{i}"} for i in range(1000)]
    fastavro.writer(out, fastavro.parse_schema(flattened(avro_schema(SCHEMA.as_struct()))), rows, sync_marker=SYNC)
    monkeypatch.setattr(fastavro, "reader", refuse)
    stored = out.getvalue()
    made = decoder(SCHEMA).rows([Block(0, 1000, stored[stored.index(SYNC) + 16 :])]).batch
    assert made["id"].to_pylist() == list(range(1000))


def test_only_the_columns_that_are_read_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = pl.read_avro

    def counted(source: Any, columns: list[str]) -> Any:
        asked.append(columns)
        return real(source, columns=columns)

    monkeypatch.setattr(pl, "read_avro", counted)
    made = ColumnDecoder(record(ID, {"name": "name", "type": "string", "field-id": 2}))
    assert made.decode([(1, b"\x02\x02x")], [1])["f1"].to_pylist() == ["x"]
    assert asked == [["f1"]]


def test_a_limit_reads_the_first_blocks_only(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(codec: str, packed: bytes) -> bytes:
        seen.append(1)
        return container.decompress(codec, packed)

    monkeypatch.setattr(data_file, "decompress", counted)
    with tables.sealed_catalog(tmp_path) as catalog:
        table = tables.make(catalog, SCHEMA, **{"write.format.default": "avro"})
        rows = pa.table({"id": pa.arange(0, 60_000), "name": [f"a name of some length {i}" for i in range(60_000)]})
        table.append(rows)
        assert table.scan(limit=5).to_arrow()["id"].to_pylist() == [0, 1, 2, 3, 4]
        few = len(seen)
        assert table.scan().to_arrow().num_rows == 60_000
    assert few < (len(seen) - few) / 4
