"""The ends of encrypted Parquet files that Java's reader is tested with too: both accept and refuse the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sealberg.errors import FormatError
from sealberg.files.parquet.reader import checked_footer, read_tail
from sealberg.format.key_metadata import KeyMetadata

VECTORS = Path(__file__).parents[2] / "jvm" / "src" / "test" / "resources" / "footers.json"


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda vector: vector["name"])
def test_a_footer_is_accepted_or_refused_as_in_java(vector: dict[str, Any]) -> None:
    file = bytes.fromhex(vector["file"])
    stream = pa.BufferReader(file)
    tail = read_tail(stream, KeyMetadata(bytes(16), None, len(file)), "file")
    if vector["accepted"]:
        assert len(checked_footer(stream, tail, "file")) == vector["footer_length"]
    else:
        with pytest.raises(FormatError):
            checked_footer(stream, tail, "file")
