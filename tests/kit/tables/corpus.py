"""The tables and twins of vectors/tables.json, unpacked once a session.

TABLES, TWINS            entries by name
opened(name)             the table, opened with the options of the entry
twin_at(folder, twin)    the same for a tampered twin
expected(snapshot)       the rows that the writer of the table reads
at_home(entry)           the metadata at the location where the table was written, for a catalog with `HOME`

The locations where a table was written are in its sealed files. They are below /tmp, where anybody may have put other
tables, so nothing is ever there: a catalog with the properties `HOME` finds these locations in the unpacked archives.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
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
HOME: Final = {"py-io-impl": "kit.tables.corpus.HomeFileIO"}


@cache
def _folder() -> TemporaryDirectory[str]:
    """Removed when this process ends. Made on first use: processes that are killed import this module, too."""
    return TemporaryDirectory(prefix="sealberg-corpus-")


@cache
def root() -> Path:
    folder = Path(_folder().name)
    for archive in MANIFEST["archives"]:
        with tarfile.open(VECTORS / archive["path"]) as opened_archive:
            opened_archive.extractall(folder / _room(archive["path"]), filter="data")
    return folder


def folder_of(entry: dict[str, Any]) -> Path:
    """The folder of the unpacked archive of an entry."""
    return root() / _room(entry["archive"])


def _room(archive: str) -> str:
    return archive.replace("/", "-").removesuffix(".tar.gz")


def _home(entry: dict[str, Any]) -> Path:
    """The folder where the table was written."""
    return Path(str(entry["prefix"]).removeprefix("file:"), "db.db", entry["name"])


def at_home(entry: dict[str, Any]) -> str:
    """The metadata of a table at its original location, for a catalog with the properties `HOME`."""
    return f"file://{_home(entry).parents[2] / entry['metadata']}"


@cache
def places() -> dict[str, Path]:
    """The unpacked folder of each table, by the folder where it was written."""
    return {str(_home(entry)): folder_of(entry) / "wh" / "db.db" / name for name, entry in TABLES.items()}


class HomeFileIO(PyArrowFileIO):
    """Finds the tables of the corpus at the locations where they were written, and all other files where they are."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        scheme, host, path = PyArrowFileIO.parse_location(location, properties)
        for home, place in places().items():
            if scheme == "file" and f"{path}/".startswith(f"{home}/"):
                return scheme, host, f"{place}{path[len(home) :]}"
        return scheme, host, path


def beside(entry: dict[str, Any], folder: Path) -> str:
    """Metadata of a table at its original location whose new files will be in a folder, for jobs that write."""
    home = folder_of(entry) / entry["metadata"]
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
