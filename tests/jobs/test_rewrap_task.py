"""A Parquet file is copied as a task: checked before it is reported, removed if it failed, no key in its text."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from kit.tables.java_pages import pages_of_version_2
from sealberg.errors import AuthenticationError, FormatError
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.parquet.reader import decryption_properties
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.copying.file_copy import CopyTask, copy_file
from sealberg.jobs.copying.rewrap_task import RewrapTask, rewrap_file
from sealberg.jobs.rekeying.tasks import RekeyTask, rekey_file
from sealberg.jobs.runner import Threads
from sealberg.keys.file_key import new_file_key

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


@pytest.fixture
def by_java(tmp_path: Path) -> RekeyTask:
    """A file with pages that cannot be sealed as they are."""
    stored, key = pages_of_version_2()
    (tmp_path / "old.parquet").write_bytes(stored)
    places = (str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet"))
    return RekeyTask("parquet", PyArrowFileIO(), *places, key.encode(), new_file_key().encode(), record_count=1000)


def test_pages_that_cannot_be_rewrapped_are_decoded_under_the_new_key(by_java: RekeyTask) -> None:
    file = rekey_file(by_java)
    assert file.decoded
    key = KeyMetadata.decode(file.key_metadata)
    stored = Path(file.target)
    assert stored.stat().st_size == file.stored_length == key.file_length
    assert b"iceberg.schema" not in stored.read_bytes()
    table = pq.read_table(stored, decryption_properties=decryption_properties(key))
    assert table["data"].to_pylist() == [None if n % 3 == 0 else f"d{n}" for n in range(1000)]
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema] == [1, 2, 3, 4]
    with ModuleWalk(stored, key) as walk:  # no clear levels any more
        sizes = {chunk.leaf.field_id: chunk.pages.length for _, chunk in walk.footer.chunks()}
        assert sum(1 for pair in walk.footer.chunks() for _ in walk.chunk(*pair)) > 4
    assert file.column_sizes == sizes
    assert file.split_offsets == (4,)


@pytest.mark.parametrize("fault", ["altered", "record count"])
def test_a_decoded_copy_that_failed_is_removed(by_java: RekeyTask, fault: str) -> None:
    if fault == "altered":
        content = bytearray(Path(by_java.source).read_bytes())
        content[100] ^= 1
        Path(by_java.source).write_bytes(content)
    else:
        by_java = replace(by_java, record_count=999)
    with pytest.raises(AuthenticationError if fault == "altered" else FormatError):
        rekey_file(by_java)
    assert [each.name for each in Path(by_java.target).parent.iterdir()] == ["old.parquet"]


def test_pages_of_version_2_are_decrypted_without_decoding(by_java: RekeyTask) -> None:
    task = CopyTask(
        by_java.io, by_java.io, by_java.source, by_java.target, "PARQUET", 1000, by_java.stored_bytes, by_java.key, None
    )
    copy = copy_file(task)
    assert not copy.decoded
    assert pq.read_table(copy.target)["data"].null_count == 334
