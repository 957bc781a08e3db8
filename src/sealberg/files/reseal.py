"""Seals an AGS1 file anew, block by block, under another key: a manifest, an Avro file, a Puffin file.

    ResealTask: location and key, target and new key ──reseal──> Resealed: the new key with the trusted length

    stored block ──open: old key──> plaintext block ──seal: new key──> stored block      one block in memory

The plaintext is the same to the byte, so every offset, count and bound that others keep of the file stays right. The
new file is read once more from storage before the task is done: every block must open under the new key.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_io import naming
from sealberg.files.locations import attempt_location
from sealberg.files.removal import remove_file
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

CHUNK: Final = 4 * BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class ResealTask:
    """A file to seal anew; picklable, and holds the keys of this one file only.

    Attributes:
        io: the storage, without keys.
        key: the key metadata of the file; None for a plaintext file, which is sealed for the first time.
        new_key: the key metadata of the target, without a length.
        allow_missing_length: read a file whose key metadata have no length.
    """

    io: FileIO = field(repr=False)
    location: str
    key: bytes | None = field(repr=False)
    target: str
    new_key: bytes = field(repr=False)
    allow_missing_length: bool = False


@dataclass(frozen=True, slots=True)
class Resealed:
    """The file that took the place of another; `key_metadata` has its trusted length."""

    location: str
    target: str
    key_metadata: bytes = field(repr=False)
    stored_length: int


def reseal(task: ResealTask) -> Resealed:
    """Write the target, and read it once to check it; after an error there is no target.

    The name of the target gets a random part: see `attempt_location`.
    """
    target = attempt_location(task.target)
    with deleting_on_error(task.io, target):
        output = task.io.new_output(target)
        with naming(target):
            sink = output.create(overwrite=True)  # the name is random; this saves the requests that look for the file
        with naming(target), Ags1Writer(sink, KeyMetadata.decode(task.new_key), threads=1) as writer:
            for piece in _plaintext(task):
                writer.write(piece)
        key = writer.key_metadata
        _check(task.io, target, key)
    return Resealed(task.location, target, key.encode(), writer.stored_length)


def _plaintext(task: ResealTask) -> Iterator[bytes | memoryview]:
    with naming(task.location):
        source = task.io.new_input(task.location).open()
        if task.key is None:
            with closing(source):
                while piece := source.read(CHUNK):
                    yield piece
            return
        key = KeyMetadata.decode(task.key)
        with Ags1Reader(source, key, threads=1, allow_missing_length=task.allow_missing_length) as reader:
            yield from reader.windows()


def _check(io: FileIO, location: str, key: KeyMetadata) -> None:
    """Open every block of a file as the storage has it now."""
    with naming(location), Ags1Reader(io.new_input(location).open(), key, threads=1) as reader:
        for _ in reader.windows():
            pass


@contextmanager
def deleting_on_error(io: FileIO, location: str) -> Iterator[None]:
    """Delete a file that nobody names yet, if the block that writes the file fails."""
    try:
        yield
    except BaseException:
        remove_file(io, location)
        raise
