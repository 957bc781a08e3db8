"""Dictionaries where they pay, by the first rows; and what that makes of a file."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType, UUIDType

from sealberg.files.parquet.dictionary_policy import FIRST_ROWS, worthwhile
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.files.parquet.writer import EncryptedParquetWriter, write_options
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata

COUNT = 30_000
chance = random.Random(1)


@pytest.mark.parametrize(
    ("values", "pays"),
    [
        (pa.array(range(COUNT)), False),
        (pa.array([i % 16 for i in range(COUNT)]), True),
        (pa.array([chance.random() for _ in range(COUNT)]), False),
        (pa.array([f"note {i % 9973}" for i in range(COUNT)]), True),
        (pa.array([f"note {i}" for i in range(COUNT)], pa.large_string()), False),
        (pa.array([chance.randrange(3650) for _ in range(COUNT)], pa.int32()).cast(pa.date32()), True),
        (pa.array([None, "a"] * (COUNT // 2)), True),
        (pa.array([None] * COUNT, pa.int64()), True),
        (pa.array([], pa.int64()), True),
        (pa.array([float("nan")] * COUNT), True),
        (pa.array([i.to_bytes(16, "big") for i in range(COUNT)], pa.binary(16)), False),
        (pa.array(["one"]), False),
    ],
    ids=str,
)
def test_a_column_gets_a_dictionary_where_it_takes_less(values: pa.Array, pays: bool) -> None:
    assert worthwhile(pa.table({"a": values})) == (["a"] if pays else [])


def test_the_first_rows_decide() -> None:
    values = [1] * FIRST_ROWS + list(range(COUNT))
    assert worthwhile(pa.table({"a": values})) == ["a"]
    chunks = pa.chunked_array([pa.array(values[i : i + 999]) for i in range(0, len(values), 999)])
    assert worthwhile(pa.table({"a": chunks})) == ["a"]


NESTED = Schema(
    NestedField(1, "who", StructType(NestedField(2, "id", LongType()), NestedField(3, "kind", StringType()))),
    NestedField(4, "tags", ListType(5, StringType())),
    NestedField(6, "more", MapType(7, StringType(), 8, LongType())),
    NestedField(9, "dotted.name", StringType()),
    NestedField(10, "key", UUIDType()),
)


def nested() -> pa.Table:
    rows = [
        {
            "who": {"id": i, "kind": "abc"[i % 3]},
            "tags": [f"tag {i % 5}"],
            "more": [("score", i), ("rank", -i)],
            "dotted.name": "same",
            "key": i.to_bytes(16, "big"),
        }
        for i in range(5_000)
    ]
    return pa.Table.from_pylist(rows, schema_to_pyarrow(NESTED))


def written(rows: pa.Table, **properties: str) -> tuple[bytes, KeyMetadata]:
    sink = io.BytesIO()
    options = write_options(properties)
    with EncryptedParquetWriter(sink, rows.schema, new_file_key(), options=options, close_sink=False) as writer:
        writer.write(rows)
    return sink.getvalue(), writer.written.key_metadata


def test_columns_within_columns_have_their_own_answers_and_parquets_names() -> None:
    assert worthwhile(nested()) == ["who.kind", "tags.list.element", "more.key_value.key", "dotted.name"]
    with EncryptedParquetReader(*written(nested())) as reader:
        group = reader.metadata.row_group(0)
        with_one = [
            column.path_in_schema
            for column in (group.column(i) for i in range(group.num_columns))
            if column.has_dictionary_page
        ]
        assert with_one == worthwhile(nested())
        assert pa.Table.from_batches(reader.batches(), reader.schema).equals(nested())


def test_every_column_has_a_page_index() -> None:
    with EncryptedParquetReader(*written(nested())) as reader:
        group = reader.metadata.row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        assert all(column.has_column_index and column.has_offset_index for column in columns)


def test_a_dictionary_that_outgrows_its_property_ends() -> None:
    rows = nested().select(["tags"])
    small = written(rows, **{"write.parquet.dict-size-bytes": "20"})
    with EncryptedParquetReader(*small) as reader:
        assert "PLAIN" in reader.metadata.row_group(0).column(0).encodings
        assert pa.Table.from_batches(reader.batches(), reader.schema).equals(rows)
