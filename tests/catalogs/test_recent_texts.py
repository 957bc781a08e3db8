"""A metadata file that was read a moment ago is not read again, where somebody asks for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.errors import MissingFileError
from sealberg.metadata.metadata_file import (
    RECENT_BYTES,
    RECENT_MOST,
    RECENT_S,
    RecentTexts,
    read_current,
    read_text,
    remembering,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_within_the_block_and_only_there(tmp_path: Path) -> None:
    place = tmp_path / "1.metadata.json"
    file = PyArrowFileIO().new_input(f"file://{place}")
    place.write_bytes(b"{}")
    texts = RecentTexts()
    with remembering(texts):
        assert read_current(file) == b"{}"
        place.unlink()
        assert read_current(file) == b"{}"
        with pytest.raises(MissingFileError):
            read_text(file)  # what proves and what deletes
    place.write_bytes(b"[]")
    assert read_current(file) == b"[]"


def test_for_a_while_a_few_and_no_large_ones() -> None:
    now = 0.0
    texts = RecentTexts(lambda: now)
    texts.keep("large", b" " * (RECENT_BYTES + 1))
    assert texts.get("large") is None
    for number in range(RECENT_MOST + 1):
        texts.keep(str(number), b"{}")
    assert texts.get("0") is None
    assert texts.get("1") == b"{}"
    now = RECENT_S
    assert texts.get("1") is None
