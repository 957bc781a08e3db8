"""A FileIO reaches the object of exactly this name, and writes and deletes by normal locations only."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.errors import LocationError
from sealberg.files.confined_io import ConfinedFileIO
from sealberg.files.file_io import EncryptingFileIO
from sealberg.files.listing import list_files, stat_file
from sealberg.files.removal import remove_file
from sealberg.table.reachable import no_list_key

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

NAMES = ["x#1", "x?1", "x\n1", "x\t1", "x;1", "x%231", "x[1]", "x*", "x 1", "é"]


@pytest.fixture(params=[PyArrowFileIO, FsspecFileIO])
def io(request: pytest.FixtureRequest) -> FileIO:
    return ConfinedFileIO(request.param({}), {"file"})


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_read_and_its_neighbours_are_not(
    io: FileIO, tmp_path: Path, name: str, scheme: str
) -> None:
    for each in ("x", "x1", name):
        (tmp_path / each).write_bytes(each.encode())
    again: FileIO = pickle.loads(pickle.dumps(io))
    for reader in (io, again):
        with reader.new_input(f"{scheme}{tmp_path}/{name}").open() as stream:
            assert stream.read() == name.encode()


@pytest.mark.parametrize("name", NAMES)
def test_a_delete_takes_the_file_of_this_name_or_none(io: FileIO, tmp_path: Path, name: str) -> None:
    names = {"x", "x1", "x11", name}
    for each in names:
        (tmp_path / each).write_bytes(b"")
    if set("#?\n\t") & set(name):
        with pytest.raises(LocationError):
            io.delete(f"file://{tmp_path}/{name}")
        assert {each.name for each in tmp_path.iterdir()} == names
    else:
        io.delete(f"file://{tmp_path}/{name}")
        assert {each.name for each in tmp_path.iterdir()} == names - {name}


@pytest.mark.parametrize("location", ["file://localhost{}/x", "file:x", "x", "{}/a/../x", "{}//x", "{}/x#"])
def test_nothing_is_written_at_an_odd_location(
    io: FileIO, tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LocationError):
        io.new_output(location.format(tmp_path)).create()
    assert not list(tmp_path.iterdir())


def test_a_listing_has_exact_names_and_says_what_is_no_file(io: FileIO, tmp_path: Path) -> None:
    top = tmp_path / "t"
    (top / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_bytes(b"")
    for name in ("x#1", "sub/y", "a\nb"):
        (top / name).write_bytes(b"12")
    Path(os.fsdecode(os.fsencode(top) + b"/\xff")).write_bytes(b"")
    (top / "folder").symlink_to(tmp_path / "elsewhere")
    (top / "file").symlink_to(tmp_path / "elsewhere" / "precious")
    os.mkfifo(top / "pipe")
    found = {each.location.removeprefix(f"file://{top}/"): each for each in list_files(io, f"file://{top}/")}
    assert set(found) == {"x#1", "sub/y", "a\nb", "\udcff", "folder", "file", "pipe"}
    assert found["sub/y"].problem is None
    assert found["sub/y"] == stat_file(io, f"file://{top}/sub/y")
    assert {name for name, each in found.items() if each.problem is None} == {"sub/y"}
    assert found["folder"].target == f"{tmp_path}/elsewhere"
    assert "is a link" in str(found["file"].problem)


def test_there_is_nothing_where_nothing_is(io: FileIO, tmp_path: Path) -> None:
    assert list(list_files(io, f"{tmp_path}/none")) == []
    assert stat_file(io, f"{tmp_path}/none") is None
    assert stat_file(io, f"{tmp_path}/none/below") is None


@pytest.mark.parametrize("content", [b"crc\0" + bytes(8), b"id,salary"])
def test_the_checksums_of_hadoop_go_with_their_file(io: FileIO, tmp_path: Path, content: bytes) -> None:
    for name in ("x", ".x.crc", ".y.crc"):
        (tmp_path / name).write_bytes(content)
    sealed = EncryptingFileIO(io, no_list_key)
    assert remove_file(sealed, f"file://{tmp_path}/x") is None
    assert (tmp_path / ".x.crc").exists() == (not content.startswith(b"crc"))
    assert (tmp_path / ".y.crc").exists()
    assert remove_file(io, f"file://{tmp_path}/x") == ""
