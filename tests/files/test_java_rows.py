"""The rows of Java's tables, as Java read them: data files, deletion vectors and row ids, snapshot by snapshot."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from kit.tables import golden, golden_files
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.avro.data_file import read_avro
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.files.puffin.container import read_deletion_vector
from sealberg.files.puffin.deletion_vector import DeletionVector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.tables.golden_files import GoldenFile

ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)


def pieces(file: GoldenFile, schema: Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with the position of their first row."""
    if file.format == "avro":
        with Ags1Reader(file.path, file.keys) as stream:
            for first, batch in read_avro(stream, Schema(*schema.fields, ROW_ID), batch_rows=100):
                assert first is not None
                yield first, batch
        return
    with EncryptedParquetReader(file.path, file.keys) as reader:
        first = 0
        for batch in reader.batches(batch_size=30):
            yield first, batch
            first += batch.num_rows


def shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):  # Java prints as many digits as make a 32-bit number, and NaN as a text
        return struct.unpack("f", struct.pack("f", value))[0] if math.isfinite(value) else json.dumps(value)
    return value


def rows_of(table: str, snapshot_id: int) -> list[dict[str, Any]]:
    files = golden_files.live_files(table, snapshot_id)
    deleted = {}
    for file in files:
        if file.format == "puffin":
            entry = file.entry
            with Ags1Reader(file.path, file.keys) as stream:
                place = entry["content_offset"], entry["content_size_in_bytes"], entry["record_count"]
                deleted[entry["referenced_data_file"]] = read_deletion_vector(stream, *place)
    schema = Schema.model_validate(golden.metadata(table)["schemas"][-1])
    found = []
    for file in files:
        if file.format == "puffin":
            continue
        vector = deleted.get(file.entry["file_path"], DeletionVector())
        assert file.first_row_id is not None
        for first, batch in pieces(file, schema):
            row_ids = (
                batch.column("_row_id") if "_row_id" in batch.schema.names else pa.nulls(batch.num_rows, pa.int64())
            )
            ids = [file.first_row_id + first + i if one is None else one for i, one in enumerate(row_ids.to_pylist())]
            rows = batch.select([one.name for one in schema.fields]).append_column("_row_id", pa.array(ids))
            mask = vector.kept(first, first + batch.num_rows)
            found += (rows if mask is None else rows.filter(mask)).to_pylist()
    return found


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps({name: shown(row[name]) for name in sorted(row)}) for row in rows)


@pytest.mark.parametrize("table", ["avro", "mor_deletes", "rotated", "basic128", "key256", "gzmeta"])
def test_rows_are_those_that_java_read(table: str) -> None:
    for snapshot_id in golden_files.snapshots(table):
        text = (golden.root() / f"expected/{table}/rows-{snapshot_id}.jsonl").read_text()
        expected = [json.loads(line) for line in text.splitlines()]
        for row in expected:
            row.pop("_last_updated_sequence_number")
        assert counted(rows_of(table, snapshot_id)) == counted(expected)
