"""Tables of very many data files that do not exist: their manifests are written, encrypted and committed for real.

    one manifest by the writer ──> its Avro blocks ──paths and bounds overwritten──> a thousand manifests, each with
                                                                                     its own key

An entry has the same length in each manifest, so that making a million entries takes seconds.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import numpy as np
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation

from bench.tables import KEY_METADATA, _fake_files
from sealberg.files.file_io import EncryptedOutputFile, keyed
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.pyiceberg_private import values_of
from sealberg.write.snapshot_builder import FileChanges, _Builder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sealberg.table.catalog_table import CatalogTable

ROWS_OF_FILE: Final = 1000
DIGITS: Final = 8
LONG: Final = 8
SYNC: Final = 16
LOWER, UPPER = 0x1122_3344_0000_0000, 0x5566_7788_0000_0000  # found nowhere else in a manifest
PLAIN: Final = {"commit.manifest-merge.enabled": "false", "write.metadata.compression-codec": "none"}


def commit_many(table: CatalogTable, manifests: int, files: int) -> None:
    """Commit this many manifests with this many files each; `id` of file n is between 1000 n and 1000 n + 999."""
    real = _Builder._new

    def many(self: Any, added: Any, content: ManifestContent) -> list[ManifestFileV3]:
        made = real(self, added, content)
        if content != ManifestContent.DATA:
            return made
        (first,) = made
        template = _Template.of(self.io.new_input(first.manifest_path).open().read(), files)
        return [_written(self, first, template.filled(number * files)) for number in range(manifests)]

    added = _fake_files(files, DataFileV3, key_metadata=KEY_METADATA)
    for at, file in enumerate(added):
        file.lower_bounds[1] = (LOWER + at).to_bytes(LONG, "little")
        file.upper_bounds[1] = (UPPER + at).to_bytes(LONG, "little")
    with patch.object(_Builder, "_new", many):
        transaction = table.transaction()
        transaction.commit_changes(FileChanges(added=tuple(added), operation=Operation.APPEND))
        transaction.commit_transaction()


def _written(builder: Any, like: ManifestFileV3, content: bytes) -> ManifestFileV3:
    location = builder.locations.new_metadata_location(f"{builder.uuid}-m{next(builder.numbers)}.avro")
    output = builder.io.new_output(keyed(location, builder.encryption.new_file_key().encode()))
    assert isinstance(output, EncryptedOutputFile)
    with output.create() as stream:
        stream.write(content)
    path, length, *others = values_of(like)
    assert (path, length) == (like.manifest_path, like.manifest_length)
    others[-2] = output.key_metadata.encode()  # before the first row id
    line = ManifestFileV3(location, len(output), *others)
    assert line.key_metadata == others[-2]
    return line


@dataclass(frozen=True)
class _Template:
    """The blocks of a manifest, and where each entry has its number and its bounds."""

    header: bytes
    sync: bytes
    blocks: tuple[tuple[int, NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], ...]

    @classmethod
    def of(cls, content: bytes, files: int) -> _Template:
        header, sync, found = _parsed(content)
        blocks, at = [], 0
        for count, data in found:
            paths, lowers, uppers = [], [], []
            place = 0
            for number in range(at, at + count):
                place = data.index(b"/nowhere/%08d-" % number, place)
                paths.append(place + len("/nowhere/"))
                lowers.append(data.index((LOWER + number).to_bytes(LONG, "little"), place))
                uppers.append(data.index((UPPER + number).to_bytes(LONG, "little"), place))
            at += count
            blocks.append((count, np.frombuffer(data, np.uint8), np.array(paths), np.array(lowers), np.array(uppers)))
        assert at == files
        return cls(header, sync, tuple(blocks))

    def filled(self, first: int) -> bytes:
        """The manifest whose first file has this number."""
        out = io.BytesIO()
        out.write(self.header)
        for count, data, paths, lowers, uppers in self.blocks:
            made = data.copy()
            numbers = np.arange(first, first + count)
            digits = numbers[:, None] // 10 ** np.arange(DIGITS - 1, -1, -1) % 10 + ord("0")
            made[paths[:, None] + np.arange(DIGITS)] = digits
            for places, values in ((lowers, numbers * ROWS_OF_FILE), (uppers, numbers * ROWS_OF_FILE + 999)):
                made[places[:, None] + np.arange(LONG)] = values.astype("<i8").view(np.uint8).reshape(-1, LONG)
            squeezed = zlib.compress(made.tobytes(), 6, -15)
            out.write(_varint(count) + _varint(len(squeezed)) + squeezed + self.sync)
            first += count
        return out.getvalue()


def _parsed(content: bytes) -> tuple[bytes, bytes, list[tuple[int, bytes]]]:
    """The header, the sync marker, and the decompressed blocks of an Avro file with deflate."""
    stream = io.BytesIO(content)
    stream.read(4)
    while count := _number(stream):
        for _ in range(abs(count)):
            for _part in ("name", "value"):
                stream.read(_number(stream))
    sync = stream.read(SYNC)
    header = content[: stream.tell()]
    return header, sync, list(_blocks(stream, len(content)))


def _blocks(stream: io.BytesIO, length: int) -> Iterator[tuple[int, bytes]]:
    while stream.tell() < length:
        count = _number(stream)
        yield count, zlib.decompress(stream.read(_number(stream)), -15)
        stream.read(SYNC)


def _number(stream: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = stream.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _varint(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])
