"""Counts the rows of an Avro file while its plaintext passes by, without decompressing or copying its blocks.

header | rows, size | size bytes, skipped | sync marker | rows, size | ...

counter = RowCounter(header)
for block in walk_blocks(...):
    counter.feed(block)
counter.finish()      the number of rows; FormatError if the file does not end after a block
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from sealberg.errors import FormatError
from sealberg.files.avro.container import MAX_VARINT, SYNC_SIZE, varint

if TYPE_CHECKING:
    from sealberg.files.avro.container import Header

NUMBERS: Final = 2 * MAX_VARINT
MORE: Final = 0x7F  # a byte above it has another byte of its number after it
_MARKER_AND_FIVE: Final = struct.Struct(f"{SYNC_SIZE}s5B")  # a sync marker and five bytes of the next block


class RowCounter:
    """Follows the blocks of one file."""

    def __init__(self, header: Header) -> None:
        self._sync = header.sync
        self._skip = header.length  # bytes of a block, or of the header, that are still to come
        self._part = bytearray()  # of a sync marker, or of the two numbers before a block
        self._in_sync = False
        self._rows = 0

    def feed(self, plain: memoryview) -> None:
        """The next bytes of the file."""
        at, end = 0, len(plain)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
                at += step
            elif self._in_sync:
                piece = plain[at : at + SYNC_SIZE - len(self._part)]
                self._part += piece
                at += len(piece)
                self._check_sync()
            elif not self._part and end - at >= NUMBERS:  # nearly always: both numbers are here
                at = self._whole_blocks(plain, at)
                numbers = bytes(plain[at : at + NUMBERS])
                rows, after = varint(numbers, 0)
                size, after = varint(numbers, after)
                at += after
                self._begin_block(rows, size)
            else:
                self._part.append(plain[at])
                at += 1
                self._begin_if_whole()

    def _whole_blocks(self, plain: memoryview, at: int) -> int:
        """Count the blocks that are in `plain` as a whole, with the numbers of the block after each.

        Returns where the first block begins that is not. One step for each block: its numbers say where its marker is.
        """
        sync, last, unpack = self._sync, len(plain) - SYNC_SIZE - NUMBERS, _MARKER_AND_FIVE.unpack_from
        one, two, three, four, five = plain[at : at + 5]
        while True:
            if one > MORE > two and three > MORE and four > MORE > five:  # 64 to 8191 rows in 8 KiB to 1 MiB
                rows, size, after = one & 0x7F | two << 7, three & 0x7F | (four & 0x7F) << 7 | five << 14, 5
                if (rows | size) & 1:  # negative
                    return at
                rows, size = rows >> 1, size >> 1
            else:
                numbers = bytes(plain[at : at + NUMBERS])
                rows, after = varint(numbers, 0)
                size, after = varint(numbers, after)
            stop = at + after + size
            if rows < 0 or not at < stop <= last:
                return at
            marker, one, two, three, four, five = unpack(plain, stop)
            if marker != sync:
                return at
            self._rows += rows
            at = stop + SYNC_SIZE

    def finish(self) -> int:
        if self._skip or self._part or self._in_sync:
            raise FormatError("the Avro file is truncated: it does not end after the sync marker of a block")
        return self._rows

    def _check_sync(self) -> None:
        if len(self._part) < SYNC_SIZE:
            return
        if self._part != self._sync:
            raise FormatError("an Avro block does not end in the file's sync marker")
        self._part.clear()
        self._in_sync = False

    def _begin_if_whole(self) -> None:
        if sum(byte < 0x80 for byte in self._part) == 2:
            rows, at = varint(bytes(self._part), 0)
            size, _ = varint(bytes(self._part), at)
            self._begin_block(rows, size)
        elif len(self._part) > 2 * MAX_VARINT:
            raise FormatError("the numbers before an Avro block are malformed")

    def _begin_block(self, rows: int, size: int) -> None:
        if rows < 0 or size < 0:
            raise FormatError(f"an Avro block claims {rows} rows in {size} bytes")
        self._rows += rows
        self._skip = size
        self._part.clear()
        self._in_sync = True
