"""Avro data files inside AGS1: every type both ways, columns by id, and ranges that give each row once."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, cast
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from kit.tables import golden, golden_files
from sealberg.errors import (
    FormatError,
    UnsupportedError,
)
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.container import Span, read_header
from sealberg.files.avro.data_file import AvroRows, EncryptedAvroWriter, WrittenAvro, read_avro
from sealberg.files.avro.values import avro_schema
from sealberg.files.seal import open_bytes, seal_bytes
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata


def optional(field_id: int, name: str, kind: IcebergType) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


PAIR = StructType(optional(41, "x", IntegerType()), optional(42, "y", StringType()))
EVERYTHING = Schema(
    NestedField(1, "id", LongType(), required=True),
    optional(2, "b", BooleanType()),
    optional(3, "i", IntegerType()),
    optional(4, "f", FloatType()),
    optional(5, "d", DoubleType()),
    optional(6, "d9", DecimalType(9, 2)),
    optional(7, "d38", DecimalType(38, 10)),
    optional(8, "again", DecimalType(9, 2)),
    optional(9, "dt", DateType()),
    optional(10, "t", TimeType()),
    optional(11, "ts", TimestampType()),
    optional(12, "tz", TimestamptzType()),
    optional(13, "tsn", TimestampNanoType()),
    optional(14, "tzn", TimestamptzNanoType()),
    optional(15, "s", StringType()),
    optional(16, "bin", BinaryType()),
    optional(17, "fx", FixedType(3)),
    optional(18, "u", UUIDType()),
    optional(19, "nothing", UnknownType()),
    optional(20, "a name, with signs", StringType()),
    optional(21, "pair", PAIR),
    optional(22, "list", ListType(23, StructType(optional(43, "x", IntegerType())), element_required=False)),
    optional(24, "must", ListType(25, LongType(), element_required=True)),
    optional(26, "texts", MapType(27, StringType(), 28, LongType(), value_required=False)),
    optional(29, "numbers", MapType(30, IntegerType(), 31, DecimalType(9, 2), value_required=False)),
    optional(32, "nested", MapType(33, LongType(), 34, ListType(35, StringType(), element_required=False))),
    schema_id=0,
)
ROW: dict[str, Any] = {
    "id": -(2**63),
    "b": True,
    "i": -(2**31),
    "f": 1.5,
    "d": 2.2,
    "d9": Decimal("-1234567.89"),
    "d38": Decimal("-1234567890123456789012345678.0123456789"),
    "again": Decimal("0.01"),
    "dt": date(1582, 10, 15),
    "t": time(23, 59, 59, 999999),
    "ts": datetime(2024, 2, 29, 12, 34, 56, 123456),  # noqa: DTZ001 (a type without a zone)
    "tz": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "tsn": 1_700_000_000_123_456_789,
    "tzn": -1,
    "s": "söme",
    "bin": b"\x00\xff",
    "fx": b"abc",
    "u": UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes,
    "nothing": None,
    "a name, with signs": "x",
    "pair": {"x": 1, "y": "one"},
    "list": [{"x": 1}, None, {"x": None}],
    "must": [1, 2],
    "texts": [("k1", 1), ("k2", None)],
    "numbers": [(1, Decimal("1.25")), (2, None)],
    "nested": [(7, ["a", None])],
}
EMPTY = {
    **ROW,
    "id": 0,
    "list": [],
    "must": [],
    "texts": [],
    "numbers": [],
    "nested": [],
    "pair": {"x": None, "y": None},
}
NULLS = {name: 2**63 - 1 if name == "id" else None for name in ROW}


def table_of(rows: list[dict[str, Any]], schema: Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(schema))


def write(rows: pa.Table, schema: Schema, **options: Any) -> tuple[bytes, WrittenAvro]:
    sink = io.BytesIO()
    with EncryptedAvroWriter(Ags1Writer(sink, new_file_key(), close_sink=False), schema, **options) as writer:
        writer.write(rows)
    return sink.getvalue(), writer.close()


def read(stored: Any, keys: KeyMetadata, schema: Schema, **options: Any) -> list[AvroRows]:
    with Ags1Reader(stored, keys) as stream:
        return list(read_avro(stream, schema, **options))


def joined(found: list[AvroRows], schema: Schema) -> pa.Table:
    return pa.Table.from_batches([rows.batch for rows in found], schema_to_pyarrow(schema))


def plain_file(schema: Any, records: list[Any], **options: Any) -> tuple[bytes, KeyMetadata]:
    """An Avro file by fastavro, sealed."""
    out = io.BytesIO()
    fastavro.writer(out, schema, records, **options)
    return seal_bytes(out.getvalue())


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "table", "fields": list(fields)}


# -- types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_every_type_comes_back(codec: str) -> None:
    rows = table_of([ROW, NULLS, EMPTY, ROW], EVERYTHING)
    stored, written = write(rows, EVERYTHING, codec=codec)
    assert (written.record_count, written.stored_length) == (4, len(stored))
    assert written.key_metadata.file_length == len(stored)
    found = read(stored, written.key_metadata, EVERYTHING)
    assert joined(found, EVERYTHING).equals(rows)
    assert found[0].batch.schema == schema_to_pyarrow(EVERYTHING)


def test_sliced_batches_come_back() -> None:
    rows = table_of([NULLS, ROW, EMPTY, ROW, NULLS], EVERYTHING)
    for start, length in ((1, 3), (2, 1), (4, 1)):
        piece = rows.slice(start, length)
        stored, written = write(piece, EVERYTHING)
        assert joined(read(stored, written.key_metadata, EVERYTHING), EVERYTHING).equals(piece)


def test_fastavro_reads_the_same_rows() -> None:
    stored, written = write(table_of([ROW, NULLS], EVERYTHING), EVERYTHING)
    first, second = cast(
        "list[dict[str, Any]]", list(fastavro.reader(io.BytesIO(open_bytes(stored, written.key_metadata))))
    )
    assert first["id"] == ROW["id"]
    assert first["d38"] == ROW["d38"]
    assert first["tz"] == ROW["tz"]
    assert first["a_x20name_x2C_x20with_x20signs"] == "x"
    assert first["texts"] == {"k1": 1, "k2": None}
    assert first["numbers"] == [{"key": 1, "value": Decimal("1.25")}, {"key": 2, "value": None}]
    assert first["list"] == ROW["list"]
    assert {value for name, value in second.items() if name != "id"} == {None}


def test_the_schema_is_java_s_attribute_by_attribute() -> None:
    def shown(*fields: NestedField) -> str:
        return json.dumps(avro_schema(StructType(*fields))["fields"], separators=(",", ":"))

    decimal = '{"type":"fixed","name":"decimal_9_2","size":4,"logicalType":"decimal","precision":9,"scale":2}'
    assert shown(
        NestedField(1, "a", DecimalType(9, 2), required=True, doc="why"), optional(2, "b", DecimalType(9, 2))
    ) == (
        f'[{{"name":"a","type":{decimal},"doc":"why","field-id":1}},'
        '{"name":"b","type":["null","decimal_9_2"],"default":null,"field-id":2}]'
    )
    assert shown(NestedField(1, "l", ListType(2, IntegerType(), element_required=False), required=True)) == (
        '[{"name":"l","type":{"type":"array","items":["null","int"],"element-id":2},"field-id":1}]'
    )
    assert shown(
        NestedField(1, "m", MapType(2, StringType(), 3, IntegerType(), value_required=True), required=True)
    ) == ('[{"name":"m","type":{"type":"map","values":"int","key-id":2,"value-id":3},"field-id":1}]')
    assert shown(NestedField(1, "m", MapType(2, LongType(), 3, DateType(), value_required=False), required=True)) == (
        '[{"name":"m","type":{"type":"array","items":{"type":"record","name":"k2_v3","fields":'
        '[{"name":"key","type":"long","field-id":2},'
        '{"name":"value","type":["null",{"type":"int","logicalType":"date"}],"default":null,"field-id":3}]},'
        '"logicalType":"map"},"field-id":1}]'
    )
    assert shown(NestedField(1, "s s", StructType(NestedField(2, "u", UUIDType(), required=True)), required=True)) == (
        '[{"name":"s_x20s","type":{"type":"record","name":"r1","fields":'
        '[{"name":"u","type":{"type":"fixed","name":"uuid_fixed","size":16,"logicalType":"uuid"},"field-id":2}]},'
        '"iceberg-field-name":"s s","field-id":1}]'
    )
    assert shown(NestedField(1, "t", TimestamptzNanoType(), required=True)) == (
        '[{"name":"t","type":{"type":"long","logicalType":"timestamp-nanos","adjust-to-utc":true},"field-id":1}]'
    )


def test_the_header_is_java_s() -> None:
    for file in golden_files.files("avro", "avro"):
        with Ags1Reader(file.path, file.keys) as stream:
            java = read_header(Span(stream)).metadata
        schema = Schema.model_validate_json(java["iceberg.schema"])
        stored, written = write(schema_to_pyarrow(schema).empty_table(), schema, codec=java["avro.codec"].decode())
        with Ags1Reader(stored, written.key_metadata) as stream:
            assert read_header(Span(stream)).metadata == java


def test_other_types_are_named_as_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="geometry"):
        avro_schema(StructType(optional(1, "g", GeometryType())))


# -- columns by id ------------------------------------------------------------------------------

WRITTEN = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    optional(2, "name", StringType()),
    optional(3, "size", FloatType()),
    optional(4, "price", DecimalType(9, 2)),
    optional(5, "day", DateType()),
    optional(6, "inner", StructType(optional(7, "a", IntegerType()), optional(8, "b", StringType()))),
    optional(9, "list", ListType(10, IntegerType(), element_required=False)),
)
WRITTEN_ROW = {
    "id": 7,
    "name": "x",
    "size": 0.1,
    "price": Decimal("1.50"),
    "day": date(2024, 1, 2),
    "inner": {"a": 1, "b": "z"},
    "list": [1, None],
}


@cache
def former() -> tuple[bytes, KeyMetadata]:
    stored, written = write(table_of([WRITTEN_ROW, {**WRITTEN_ROW, "inner": None}], WRITTEN), WRITTEN)
    return stored, written.key_metadata


def seen(*fields: NestedField) -> dict[str, list[Any]]:
    schema = Schema(*fields)
    return cast("dict[str, list[Any]]", joined(read(*former(), schema), schema).to_pydict())


def test_columns_are_renamed_reordered_and_left_out() -> None:
    assert seen(optional(2, "title", StringType()), NestedField(1, "key", IntegerType(), required=True)) == {
        "title": ["x", "x"],
        "key": [7, 7],
    }


def test_types_are_widened() -> None:
    assert seen(
        optional(1, "id", LongType()),
        optional(3, "size", DoubleType()),
        optional(4, "price", DecimalType(38, 2)),
        optional(9, "list", ListType(10, LongType(), element_required=False)),
    ) == {
        "id": [7, 7],
        "size": [0.10000000149011612] * 2,
        "price": [Decimal("1.50")] * 2,
        "list": [[1, None]] * 2,
    }
    assert seen(optional(5, "day", TimestampType())) == {"day": [datetime(2024, 1, 2)] * 2}  # noqa: DTZ001
    nanos = seen(optional(5, "day", TimestampNanoType()))["day"][0]
    assert nanos.isoformat() == "2024-01-02T00:00:00"


def test_added_columns_are_null_or_their_initial_default() -> None:
    assert seen(
        optional(90, "new", StringType()),
        NestedField(91, "count", LongType(), required=True, initial_default=5),
        optional(92, "deep", StructType(optional(93, "a", IntegerType()))),
        optional(6, "inner", StructType(optional(8, "b", StringType()), optional(94, "c", LongType()))),
    ) == {"new": [None] * 2, "count": [5, 5], "deep": [None] * 2, "inner": [{"b": "z", "c": None}, None]}


def test_an_added_column_must_not_be_required() -> None:
    with pytest.raises(FormatError, match="Missing required field: new"):
        seen(NestedField(90, "new", StringType(), required=True))


def test_rows_are_counted_without_columns() -> None:
    (rows,) = read(*former(), Schema())
    assert (rows.batch.num_rows, rows.batch.num_columns) == (2, 0)


@pytest.mark.parametrize(
    ("field_id", "kind"),
    [
        (1, StringType()),
        (2, LongType()),
        (3, FixedType(4)),
        (4, DecimalType(9, 3)),
        (4, DecimalType(8, 2)),
        (5, TimestamptzType()),
        (5, IntegerType()),
        (6, LongType()),
        (9, LongType()),
        (2, UUIDType()),
    ],
    ids=str,
)
def test_a_column_that_cannot_become_what_it_should_is_refused(field_id: int, kind: IcebergType) -> None:
    with pytest.raises(FormatError, match=r"column c is .* in the Avro file"):
        seen(optional(field_id, "c", kind))


def test_a_projection_may_drop_the_column_that_defines_a_type() -> None:
    rows = table_of([ROW], EVERYTHING)
    stored, written = write(rows, EVERYTHING)
    only = Schema(optional(8, "again", DecimalType(9, 2)))
    assert joined(read(stored, written.key_metadata, only), only).to_pydict() == {"again": [Decimal("0.01")]}


def test_files_of_other_writers_are_read() -> None:
    schema = record(
        {"name": "a", "type": ["long", "null"], "field-id": 1},
        {"name": "m", "type": {"type": "long", "logicalType": "timestamp-millis"}, "field-id": 2},
        {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-micros"}, "field-id": 3},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}, "field-id": 4},
        {"name": "nobody", "type": "string"},
    )
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    row = {"a": None, "m": moment, "l": moment.replace(tzinfo=None), "d": Decimal("-2.5"), "nobody": "x"}
    wanted = Schema(
        optional(1, "a", LongType()),
        optional(2, "m", TimestampType()),
        optional(3, "l", TimestampType()),
        optional(4, "d", DecimalType(5, 1)),
    )
    naive = moment.replace(tzinfo=None)
    assert joined(read(*plain_file(schema, [row]), wanted), wanted).to_pylist() == [
        {"a": None, "m": naive, "l": naive, "d": Decimal("-2.5")}
    ]


# -- Java ---------------------------------------------------------------------------------------


def test_java_files_are_read_whole_and_in_ranges() -> None:
    schema = Schema.model_validate(golden.metadata("avro")["schemas"][0])
    large = 0
    for file in golden_files.files("avro", "avro"):
        with Ags1Reader(file.path, file.keys) as stream:
            whole = joined(list(read_avro(stream, schema)), schema)
            stream.seek(0)
            assert (
                whole.num_rows
                == file.entry["record_count"]
                == sum(1 for _ in fastavro.reader(cast("IO[bytes]", stream)))
            )
            edges = [stream.plain_length * i // 5 for i in range(6)]
            parts = [
                rows for start, stop in pairwise(edges) for rows in read_avro(stream, schema, start=start, stop=stop)
            ]
            large += stream.layout.block_count > 1
        assert joined(parts, schema).equals(whole)
    assert large
