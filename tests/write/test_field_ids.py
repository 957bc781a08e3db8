"""Rows that carry the field ids of another table are not taken for others, or for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kit.tables.tables import sealed_catalog

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
ROWS = pa.table({"a": [1], "b": [2], "s": [{"x": 3}]}, schema=SCHEMA)


def with_ids(*ids: int) -> pa.Table:
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for field, number in zip(SCHEMA, ids, strict=True)]
    inside = pa.struct([pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "4"})])
    fields[2] = pa.field("s", inside, metadata=fields[2].metadata)
    return ROWS.cast(pa.schema(fields))


@pytest.mark.parametrize("ids", [(2, 1, 3), (11, 12, 13), (1, 2, 30)])
def test_ids_of_another_table_are_refused_and_without_them_names_count(tmp_path: Path, ids: tuple[int, ...]) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = catalog.create_table("hr.t", SCHEMA, properties={"encryption.key-id": "hr"})
        rows = with_ids(*ids)
        for given in (rows, rows.to_reader()):
            with pytest.raises(ValueError, match=r"has the field id .* of another table"):
                table.append(given)
        stripped = pa.table(rows.columns, pa.schema([field.remove_metadata() for field in rows.schema]))
        table.append(ROWS)
        table.append(stripped.select(["a", "b"]))
        assert table.scan().to_arrow()["a"].to_pylist() == [1, 1]


def test_rows_of_the_table_itself_come_back_with_their_ids(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = catalog.create_table("hr.t", SCHEMA, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        table.append(table.scan().to_arrow())
        table.append(with_ids(1, 2, 3))
        assert table.scan().to_arrow().to_pylist() == ROWS.to_pylist() * 3
