"""Arbitrary bytes as the plaintext of a Puffin file.

    python fuzz/puffin.py -max_total_time=600

Only SealbergError may come out; a blob that the footer names lies inside the file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.files.puffin.container import read_blob, read_deletion_vector, read_footer

CORPUS = Path(__file__).parent / "corpus" / "puffin"


class Opened:
    """What a Ags1Reader gives once every tag was right."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.plain_length = len(content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


def read(content: bytes) -> None:
    stream: Any = Opened(content)
    try:
        footer = read_footer(stream)
    except SealbergError:
        return
    for blob in footer.blobs:
        try:
            assert len(read_blob(stream, blob)) == blob.length
            read_deletion_vector(stream, blob.offset, blob.length)
        except SealbergError:
            continue


def main() -> None:
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
