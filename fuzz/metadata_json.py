"""Arbitrary texts into the parser of metadata.json, plain and compressed.

    python fuzz/metadata_json.py -max_total_time=600

Only SealbergError may come out. What parses must be written so that it parses to the same, and its key tree and its
differences from itself must be there.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.metadata.metadata_diff import differences
    from sealberg.metadata.metadata_file import inflated
    from sealberg.metadata.table_metadata import V3TableMetadata

CORPUS = Path(__file__).parent / "corpus" / "metadata_json"


def parse(content: bytes) -> None:
    try:
        metadata = V3TableMetadata.from_json(inflated(content, "metadata.json", 1 << 20))
    except SealbergError:
        return
    text = metadata.to_json()
    assert V3TableMetadata.from_json(text).to_json() == text, "what was written parses to something else"
    assert not differences(metadata.document, metadata.document)
    assert not any(key.encrypted_key_metadata.hex() in repr(metadata) for key in metadata.encryption_keys)


def main() -> None:
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], parse)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
