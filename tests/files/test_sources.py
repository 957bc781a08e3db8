"""Sources: whatever holds the sealed bytes, the reader reads the same."""

from __future__ import annotations

import io
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from kit.tables.streams import BLOCK, Watched, plain, sealed, trusted
from sealberg.errors import ConfigError, TrailingBytesError, TruncatedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.byte_sources import BufferSource, FileSource, RangedSource, StreamSource, as_source

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 3 * BLOCK + 1000


class Short(io.BytesIO):
    """Gives a little at a time, as pipes and sockets do."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(100_000, size) if size is not None and size > 0 else size)


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


PLACES: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "Path": lambda path: path,
    "bytes": Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "memoryview of ints": lambda path: memoryview(path.read_bytes()).cast("I"),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "open file": lambda path: path.open("rb"),
    "raw file": lambda path: path.open("rb", buffering=0),
    "mmap": mapped,
    "short reads": lambda path: Short(path.read_bytes()),
    "pyarrow.BufferReader": lambda path: pa.BufferReader(path.read_bytes()),
    "pyarrow.OSFile": lambda path: pa.OSFile(str(path)),
    "pyarrow.memory_map": lambda path: pa.memory_map(str(path)),
    "PyIceberg": lambda path: PyArrowFileIO().new_input(str(path)).open(),
    "own source": lambda path: Watched(path.read_bytes()),
    "own source of unknown size": lambda path: Watched(path.read_bytes(), knows_size=False),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "sealed"
    place.write_bytes(sealed(LENGTH))
    assert place.stat().st_size % 4 == 0  # so that it can be seen as ints
    return place


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PLACES)
def test_every_place_gives_the_same_bytes(name: str, threads: int, path: Path) -> None:
    data = plain(LENGTH)
    with Ags1Reader(PLACES[name](path), trusted(sealed(LENGTH)), threads=threads) as reader:
        assert reader.read_at(BLOCK - 5, 10) == data[BLOCK - 5 : BLOCK + 5]
        assert b"".join(iter(lambda: reader.read(300_000), b"")) == data
        reader.seek(5)
        assert reader.read() == data[5:]


@pytest.mark.parametrize("name", PLACES)
def test_every_place_shows_what_was_cut_off_or_put_on(name: str, path: Path) -> None:
    good = sealed(LENGTH)
    for stored, error in ((good[:-4], TruncatedError), (good + bytes(4), TrailingBytesError)):
        path.write_bytes(stored)
        with pytest.raises(error), Ags1Reader(PLACES[name](path), trusted(good)) as reader:
            reader.read()


@pytest.mark.parametrize("name", ["BytesIO", "open file", "mmap", "pyarrow.OSFile", "PyIceberg"])
def test_stream_is_closed_with_the_reader(name: str, path: Path) -> None:
    stream = PLACES[name](path)
    Ags1Reader(stream, trusted(sealed(LENGTH))).close()
    assert stream.closed


def test_size_is_known_where_it_costs_nothing(path: Path) -> None:
    stored = sealed(LENGTH)
    for place in (path, stored, io.BytesIO(stored)):
        source = as_source(place)
        assert source.size == len(stored)
        assert isinstance(source, RangedSource)
        source.close()


def test_reads_beyond_the_end_give_what_there_is(path: Path) -> None:
    stored = sealed(LENGTH)
    for source in (FileSource(path), BufferSource(stored), StreamSource(Short(stored))):
        scratch = memoryview(bytearray(200))
        assert bytes(source.read_at(len(stored) - 50, 200, scratch)) == stored[-50:]
        assert bytes(source.read_at(len(stored), 200, scratch)) == b""
        assert bytes(source.read_at(3, 4, scratch)) == stored[3:7]
        source.close()


def test_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Ags1Reader(tmp_path / "nothing", trusted(36))


@pytest.mark.parametrize("place", [object(), 7, None, ["x"], io.StringIO("text")])
def test_what_holds_no_bytes_is_a_configuration_error(place: object) -> None:
    with pytest.raises(ConfigError, match=f"cannot read ranges from a {type(place).__name__}"):
        Ags1Reader(place, trusted(36))


def test_stream_that_cannot_seek_is_refused_at_once() -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe, pytest.raises(OSError, match=r"(?i)seek"):
        Ags1Reader(pipe, trusted(36))


def test_file_source_closed_twice_does_not_close_another_file(path: Path) -> None:
    source = FileSource(path)
    descriptor = source._fd
    source.close()
    with path.open("rb") as other:
        assert other.fileno() == descriptor  # the lowest free number
        source.close()
        assert other.read(4) == b"AGS1"


def test_bytearray_can_grow_again_after_close() -> None:
    """A reader that kept a view of it would forbid that."""
    stored = bytearray(sealed(LENGTH))
    with Ags1Reader(stored, trusted(bytes(stored)), threads=2) as reader:
        reader.read(BLOCK + 1)
    stored += b"more"


@pytest.mark.parametrize("position", [0, 77])
def test_stream_is_read_from_its_start_wherever_it_stands(position: int) -> None:
    stream = io.BytesIO(sealed(10))
    stream.seek(position)
    with Ags1Reader(stream, trusted(46)) as reader:
        assert reader.read() == plain(10)
