"""A Parquet file is copied as a task: checked before it is reported, removed if it failed, no key in its text."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.errors import FormatError
from sealberg.files.parquet.reader import decryption_properties
from sealberg.jobs.copying.rewrap_task import RewrapTask, rewrap_file
from sealberg.jobs.runner import Threads
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": range(1000)})


def task(folder: Path) -> RewrapTask:
    io = PyArrowFileIO()
    key = new_file_key().encode()
    return RewrapTask(io, io, str(folder / "plain.parquet"), str(folder / "sealed.parquet"), None, key)


def test_a_runner_copies_a_file(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    (file,) = Threads(2).run(rewrap_file, [pickle.loads(pickle.dumps(task(tmp_path)))])
    assert file.key_metadata is not None
    stored = tmp_path / "sealed.parquet"
    assert stored.stat().st_size == file.stored_length
    assert pq.read_table(stored, decryption_properties=decryption_properties(file.key_metadata)).equals(ROWS)


def test_a_copy_that_failed_is_removed(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    content = (tmp_path / "plain.parquet").read_bytes()
    (tmp_path / "plain.parquet").write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    with pytest.raises(FormatError):
        rewrap_file(task(tmp_path))
    assert not (tmp_path / "sealed.parquet").exists()


def test_the_text_of_a_task_shows_no_key(tmp_path: Path) -> None:
    made = task(tmp_path)
    assert made.target_key is not None
    assert repr(made.target_key)[10:30] not in repr(made)
