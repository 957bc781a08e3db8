"""Avro data files that somebody altered before they were sealed, as another writer with a bug would.

    python fuzz/avro_file.py -max_total_time=600

Only SealbergError may come out of reading them, as columns of three types, with and without a range.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.files.avro.data_file import read_avro

CORPUS = Path(__file__).parent / "corpus" / "avro_file"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "tags", ListType(4, StringType(), element_required=False), required=False),
)


class Opened:
    """What a Ags1Reader gives once every tag was right."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.plain_length = len(content)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


def read(content: bytes) -> None:
    stream: Any = Opened(content)
    half = len(content) // 2
    for start, stop in ((0, None), (0, half), (half, None)):
        try:
            for rows in read_avro(stream, SCHEMA, start=start, stop=stop, positions=True):
                rows.batch.validate(full=True)
        except SealbergError:
            continue


def main() -> None:
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
