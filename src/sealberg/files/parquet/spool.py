"""A plaintext Parquet file on its way to an encrypted one, for what pyarrow writes into plaintext files only.

    pyarrow ──> spool, sealed under a key that nobody else has ──rewrap──> sink

Plaintext is neither on a disk nor in memory as a whole: the spool is an AGS1 stream, in memory while it is small, then
in a temporary file without a name. Its key ends with the process.
"""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.parquet.reader import PLAIN_MAGIC
from sealberg.files.parquet.rewrap import rewrap
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from sealberg.files.ags1_writer import Sink
    from sealberg.files.parquet.rewrap import Rewrapped
    from sealberg.format.key_metadata import KeyMetadata

IN_MEMORY: Final = 4 << 20


class Spool:
    """The sink of the plaintext file. `close` drops what is left, and closes the sink of the encrypted file."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (closed with the spool)
        self._writer = Ags1Writer(self._file, new_file_key(), threads=1, close_sink=False)

    def write(self, data: Any, /) -> int:
        return self._writer.write(data)

    def rewrap(self, key: KeyMetadata) -> Rewrapped:
        """Write the encrypted file; the plaintext file must be complete."""
        self._writer.close()
        with Ags1Reader(self._file, self._writer.key_metadata, threads=1) as plain:
            return rewrap(plain, None, self._sink, key)

    def discard(self) -> None:
        self._file.close()

    def close(self) -> None:
        self.discard()
        self._sink.close()


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """PyArrow's view of a footer; its offsets and sizes are those of the file that it was written for."""
    return pq.read_metadata(pa.BufferReader(PLAIN_MAGIC + footer + struct.pack("<i", len(footer)) + PLAIN_MAGIC))
