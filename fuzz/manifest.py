"""Arbitrary bytes into the readers of manifest lists and manifests.

    python fuzz/manifest.py -max_total_time=600

The first byte chooses the reader. Only SealbergError may come out, and in time: a count in a header must not make a
reader loop or take memory that the file cannot fill.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.metadata import manifest as manifests

CORPUS = Path(__file__).parent / "corpus" / "manifest"


class Input:
    """As much of a FileIO as the readers use."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def new_input(self, location: str) -> Any:
        self.location = location
        return self

    def __len__(self) -> int:
        return len(self.content)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002
        return BytesIO(self.content)


def read(data: bytes) -> None:
    io: Any = Input(data[1:])
    try:
        if data[:1] == b"l":
            for line in manifests.read_list_file(io, "list.avro"):
                repr(line)
        else:
            for entry in manifests.read_manifest_file(io, "manifest.avro"):
                repr(entry)
    except SealbergError:
        return


def main() -> None:
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
