"""The tables and twins of vectors/tables.json, unpacked once a session.

TABLES, TWINS            entries by name
opened(name)             the table, opened with the options of the entry
twin_of(name)            the same for a tampered twin
expected(snapshot)       the rows that the writer of the table reads
"""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import tarfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from vectors.spelling import parsed

import sealberg

if TYPE_CHECKING:
    from pyiceberg.table import Table

VECTORS: Final = Path(__file__).parents[3] / "vectors"
MANIFEST: Final[dict[str, Any]] = json.loads((VECTORS / "tables.json").read_text(encoding="utf-8"))
TABLES: Final[dict[str, dict[str, Any]]] = {entry["name"]: entry for entry in MANIFEST["tables"]}
TWINS: Final[dict[str, dict[str, Any]]] = {entry["name"]: entry for entry in MANIFEST["twins"]}
KMS: Final = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}
OPTIONS: Final = {
    "plaintext-files": {"encryption.allow-plaintext-files": "true"},
    "missing-length": {"encryption.allow-missing-length": "true"},
}


@cache
def root() -> Path:
    folder = Path(mkdtemp(prefix="sealberg-corpus-"))
    for archive in MANIFEST["archives"]:
        with tarfile.open(VECTORS / archive["path"]) as opened_archive:
            opened_archive.extractall(folder / _room(archive["path"]), filter="data")
    return folder


def folder_of(entry: dict[str, Any]) -> Path:
    """The folder of the unpacked archive of an entry."""
    return root() / _room(entry["archive"])


def _room(archive: str) -> str:
    return archive.replace("/", "-").removesuffix(".tar.gz")


def at_home(entry: dict[str, Any]) -> str:
    """The metadata of a table at its original location, for readers that cannot map locations."""
    home = Path(entry["prefix"].removeprefix("file:").replace("//", "/"))
    table = home / "db.db" / entry["name"]
    if not table.exists():
        table.parent.mkdir(parents=True, exist_ok=True)
        copy = Path(mkdtemp(dir=table.parent)) / "copy"
        shutil.copytree(folder_of(entry) / "wh" / "db.db" / entry["name"], copy)
        with contextlib.suppress(OSError):  # another worker was faster
            copy.rename(table)
        shutil.rmtree(copy.parent)
    return f"file://{home.parent / entry['metadata']}"


def beside(entry: dict[str, Any], folder: Path) -> str:
    """Metadata of a table at its original location whose new files will be in a folder, for jobs that write."""
    home = Path(at_home(entry).removeprefix("file://"))
    content = home.read_bytes()
    document = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    place = folder / entry["name"] / home.name.replace(".gz", "")
    document["properties"] |= {
        "write.metadata.path": f"file://{place.parent}",
        "write.data.path": f"file://{place.parent}/data",
    }
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(document), encoding="utf-8")
    return f"file://{place}"


def options_of(entry: dict[str, Any]) -> dict[str, str]:
    return {name: value for need in entry["needs"] for name, value in OPTIONS[need].items()}


def open_at(folder: Path, entry: dict[str, Any], options: dict[str, str]) -> Table:
    return sealberg.open_table(
        f"file://{folder / entry['metadata']}",
        {**KMS, **options},
        expected_key_id=entry["key-id"],
        relocate={entry["prefix"]: f"file://{folder / 'wh'}"},
    )


@cache
def opened(name: str) -> Table:
    return open_at(folder_of(TABLES[name]), TABLES[name], options_of(TABLES[name]))


def changed_files(twin: dict[str, Any]) -> dict[str, Path]:
    """The file at each changed path; the path does not exist if the file was removed."""
    changed = {path: folder_of(twin) / file for path, file in twin["changed"].items()}
    return changed | {path: folder_of(twin) / "nothing here" for path in twin["removed"]}


def twin_at(folder: Path, twin: dict[str, Any]) -> Table:
    """A complete copy of the twin in a folder, opened."""
    entry = TABLES[twin["table"]]
    home = f"wh/db.db/{entry['name']}"
    shutil.copytree(folder_of(entry) / home, folder / home)
    for path, file in changed_files(twin).items():
        if file.exists():
            shutil.copyfile(file, folder / path)
        else:
            (folder / path).unlink()
    return open_at(folder, entry, {})


def expected(entry: dict[str, Any], snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    lines = (folder_of(entry) / snapshot["rows"]).read_text(encoding="utf-8").splitlines()
    return [parsed(line) for line in lines]
