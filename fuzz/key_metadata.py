"""Arbitrary bytes into the key-metadata decoder.

    python fuzz/key_metadata.py -max_total_time=300

Only KeyMetadataError may come out. Whatever decodes must encode to something that decodes to the
same value, and fastavro must read the same out of it. The good vectors are the first corpus.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris
import fastavro

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import KeyMetadataError
    from sealberg.format.key_metadata import KeyMetadata

VECTORS = Path(__file__).parent.parent / "vectors" / "key_metadata"
FIELDS: list[dict[str, object]] = [
    {"name": "encryption_key", "type": "bytes"},
    {"name": "aad_prefix", "type": ["null", "bytes"]},
    {"name": "file_length", "type": ["null", "long"]},
]


def decode(blob: bytes) -> None:
    try:
        found = KeyMetadata.decode(blob)
    except KeyMetadataError as error:
        text = str(error)
        assert not any(blob[at : at + 8].hex() in text for at in range(len(blob) - 7)), "an error shows its input"
        return
    assert KeyMetadata.decode(found.encode()) == found
    assert by_fastavro(blob, FIELDS) == found or by_fastavro(blob, FIELDS[:2]) == found
    assert found.encryption_key.hex() not in repr(found)


def by_fastavro(blob: bytes, fields: list[dict[str, object]]) -> KeyMetadata | None:
    """What another codec makes of it, if it takes all of it."""
    datum = io.BytesIO(blob[1:])
    schema = {"type": "record", "name": "r", "fields": fields}
    try:
        record: Any = fastavro.schemaless_reader(datum, schema, None)
    except (EOFError, IndexError):
        return None
    return KeyMetadata(**record) if datum.tell() == len(blob) - 1 else None


def main() -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for vector in VECTORS.glob("*.txt"):
            payload = vector.read_text().partition("\n\n")[2]
            (Path(corpus) / vector.stem).write_bytes(bytes.fromhex(payload))
        atheris.Setup([*sys.argv, corpus], decode)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
