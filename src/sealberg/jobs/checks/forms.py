"""The forms of files that no metadata name: what can be told without a key.

checksum     .NAME.crc of Hadoop: exactly the CRC-32 of the chunks of NAME, so that nothing else is in it
hint         version-hint.text: a number
sealed       an AGS1 stream or an encrypted Parquet file, whose bytes look random; only a key would prove it
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

from sealberg.errors import SealbergError
from sealberg.files.file_io import naming
from sealberg.format.ags1 import HEADER, MAGIC, Layout, check_header

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

CRC_MAGIC: Final = b"crc\x00"
HINT: Final = re.compile(rb"[0-9]{1,19}\s?")
SAMPLE: Final = 64 << 10
LEAST: Final = 64  # bytes, below which nothing can be said of their look
PRINTABLE: Final = frozenset((9, 10, 13, *range(32, 127)))


def is_hint(io: FileIO, location: str) -> bool:
    """Whether a version-hint.text holds a version and nothing else."""
    return HINT.fullmatch(_read(io, location, 0, 32)) is not None


def is_checksum(io: FileIO, location: str) -> bool | None:
    """Whether a checksum file holds nothing but the checksums of its file; None if that file does not exist."""
    folder, _, name = location.rpartition("/")
    covered = f"{folder}/{name[1:].removesuffix('.crc')}"
    with naming(location), io.new_input(location).open() as stream:
        found = bytes(stream.read(8))
        chunk = int.from_bytes(found[4:8], "big")
        if found[:4] != CRC_MAGIC or not 0 < chunk <= 1 << 20:
            return False
        try:
            file = io.new_input(covered).open()
        except FileNotFoundError:
            return None
        with file:
            while piece := bytes(file.read(chunk)):
                if bytes(stream.read(4)) != zlib.crc32(piece).to_bytes(4, "big"):
                    return False
        return not stream.read(1)


def is_sealed(io: FileIO, location: str, size: int) -> bool:
    """Whether a file has the form of a sealed file, and no part of its beginning or end looks like plaintext."""
    head = _read(io, location, 0, min(size, SAMPLE))
    if head.startswith(MAGIC):
        try:
            check_header(head[: len(HEADER)])
            Layout(size)
        except SealbergError:
            return False
        return not _looks_plain(head[len(HEADER) :])
    tail = _read(io, location, max(0, size - 8), 8)
    length = int.from_bytes(tail[:4], "little")
    return size >= 12 and tail[4:] == b"PARE" and length + 12 <= size and not _looks_plain(head[4:])


def _looks_plain(sample: bytes) -> bool:
    """Random bytes do not shrink, and four in ten are printable."""
    if len(sample) < LEAST:
        return False
    printable = sum(byte in PRINTABLE for byte in sample) / len(sample)
    return printable > 0.75 or len(zlib.compress(sample, 1)) < 0.8 * len(sample)


def _read(io: FileIO, location: str, offset: int, length: int) -> bytes:
    with naming(location), io.new_input(location).open() as stream:
        stream.seek(offset)
        return bytes(stream.read(length))
