"""Counts the rows of an Avro file while its plaintext passes by, without decompressing or copying its blocks.

header | rows, size | size bytes, skipped | sync marker | rows, size | ...

counter = RowCounter(header)
for window in stream.windows():
    counter.feed(window)
counter.finish()      the number of rows; FormatError if the file does not end after a block
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.errors import FormatError
from sealberg.files.avro.container import MAX_VARINT, SYNC_SIZE, varint

if TYPE_CHECKING:
    from sealberg.files.avro.container import Header


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
            elif not self._part and end - at >= 2 * MAX_VARINT:  # nearly always: both numbers are here
                numbers = bytes(plain[at : at + 2 * MAX_VARINT])
                rows, after = varint(numbers, 0)
                size, after = varint(numbers, after)
                stop = at + after + size
                if rows >= 0 <= size and plain[stop : stop + SYNC_SIZE] == self._sync:  # the whole block is here
                    self._rows += rows
                    at = stop + SYNC_SIZE
                else:
                    at += after
                    self._begin_block(rows, size)
            else:
                self._part.append(plain[at])
                at += 1
                self._begin_if_whole()

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
