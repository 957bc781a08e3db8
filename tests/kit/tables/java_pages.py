"""A Parquet file of Iceberg Java with data pages of version 2, whose levels parquet-java leaves in the clear.

    stored, key = pages_of_version_2()      1000 rows; `data` is null where the id is a multiple of three

Iceberg Java wrote the file for a table with write.parquet.page-version=v2; pyarrow cannot read it.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from sealberg.format.key_metadata import KeyMetadata

FILE = Path(__file__).with_name("pages_of_version_2.txt")


def pages_of_version_2() -> tuple[bytes, KeyMetadata]:
    """The stored file and its key."""
    head, _, payload = FILE.read_text().partition("\n\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return b64decode(payload), KeyMetadata.decode(bytes.fromhex(fields["key-metadata"]))
