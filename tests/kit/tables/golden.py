"""The tables that Iceberg Java wrote, unpacked once a session."""

from __future__ import annotations

import gzip
import json
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ARCHIVE = Path(__file__).parents[3] / "vectors/java/java-1.12-tables.tar.gz"
TABLES = ("alltypes", "avro", "basic128", "gzmeta", "key256", "mor_deletes", "partitioned", "rotated")
PREFIX = "file:/tmp/sealberg-golden/wh"


@cache
def _folder() -> TemporaryDirectory[str]:
    """Removed when this process ends. Made on first use: processes that are killed import this module, too."""
    return TemporaryDirectory(prefix="sealberg-golden-")


@cache
def root() -> Path:
    """The folder of the unpacked archive in this process."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(_folder().name, filter="data")
    return Path(_folder().name)


def local(location: str) -> Path:
    """The local path of a location of the table."""
    return root() / "wh" / location.removeprefix(PREFIX).lstrip("/")


def metadata_text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()


def metadata(table: str) -> dict[str, Any]:
    """The newest metadata.json of a table, parsed."""
    newest = sorted((root() / "wh/db.db" / table / "metadata").glob("*metadata.json"))[-1]
    parsed = json.loads(metadata_text(newest))
    assert isinstance(parsed, dict)
    return parsed
