"""Arbitrary bitmaps into the decoder of deletion vectors, with length, magic and checksum made right.

    python fuzz/deletion_vector.py -max_total_time=600

Only SealbergError may come out. A vector that decodes holds what its bytes say: written and decoded again it is the
same, its positions ascend, and there are as many as it counts. The first byte chooses a bare input, whose frame is
its own.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.files.puffin.deletion_vector import MAGIC, DeletionVector

CORPUS = Path(__file__).parent / "corpus" / "deletion_vector"
MANY = 1 << 20  # a bitmap of a few bytes can hold billions of positions, which nobody should list


def framed(bitmap: bytes) -> bytes:
    body = MAGIC + bitmap
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode(data: bytes) -> None:
    try:
        vector = DeletionVector.decode(data[1:] if data[:1] == b"b" else framed(data[1:]))
    except SealbergError:
        return
    again = DeletionVector.decode(vector.encode(), vector.cardinality)
    assert again.cardinality == vector.cardinality == len(vector)
    if vector.cardinality <= MANY:
        positions = list(vector)
        assert positions == sorted(set(positions)) == list(again)
        assert len(positions) == vector.cardinality


def main() -> None:
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], decode)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
