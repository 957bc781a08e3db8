"""Parts of a file: wherever it is cut, parts of an Avro file hold each row once, and those of a Parquet file all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable
from sealberg.scan import metadata_columns, scan
from sealberg.scan.data_file_reader import Part, stored_length
from sealberg.scan.planner import EncryptedFileScanTask
from sealberg.scan.task_reader import TaskReader

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
ROWS = [{"id": one, "name": f"a name that fills blocks, {one}"} for one in range(12_000)]


@pytest.fixture(scope="module", params=["avro", "parquet"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallTable, str]:
    small = SmallTable(tmp_path_factory.mktemp("parts"), SCHEMA)
    small.snapshot(small.avro(ROWS) if request.param == "avro" else small.parquet(ROWS, row_group_rows=900))
    return small, request.param


@given(data=st.data())
def test_parts_that_cover_a_file_cover_its_rows(made: tuple[SmallTable, str], data: st.DataObject) -> None:
    small, form = made
    table = small.table()
    [task] = table.scan().plan_files()
    assert isinstance(task, EncryptedFileScanTask)
    size = stored_length(task.file)
    cuts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=6)))
    columns = data.draw(st.sampled_from([["id"], ["id", "_pos"]]))
    reader = TaskReader(table.metadata, table.io, SCHEMA, metadata_columns.project(SCHEMA, columns))
    found: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, size], strict=True):
        for batch in reader.batches(task, Part(start, stop)):
            found += batch["id"].to_pylist()
            if "_pos" in columns:
                assert batch["_pos"].to_pylist() == batch["id"].to_pylist()
    if form == "parquet":
        found = sorted(set(found))
    assert found == list(range(len(ROWS)))


def test_a_scan_reads_a_large_avro_file_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.snapshot(small.avro(ROWS))
    whole = small.table().scan().to_arrow()
    monkeypatch.setattr(scan, "AVRO_PART", 5_000)
    parts: list[Part | None] = []
    batches = TaskReader.batches

    def seen(self: TaskReader, task: EncryptedFileScanTask, part: Part | None = None) -> object:
        parts.append(part)
        return batches(self, task, part)

    monkeypatch.setattr(TaskReader, "batches", seen)
    assert small.table().scan().to_arrow().to_pylist() == whole.to_pylist(), "in the order of the file"
    assert len(parts) > 3
    assert small.table().scan(limit=7).to_arrow().to_pylist() == whole.slice(0, 7).to_pylist()
    streamed = small.table().scan().to_arrow_batch_reader().read_all()
    assert streamed["id"].to_pylist() == whole["id"].to_pylist()
