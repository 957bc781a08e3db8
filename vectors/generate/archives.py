"""The archives of whole tables, and what is in them.

python -m vectors.generate.archives FOLDER ARCHIVE      pack the tables of one archive out of a folder
                                                        that `vectors.generate.java` or the Rust program filled
"""

from __future__ import annotations

import argparse
import gzip
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vectors.generate.java import tables_1_11, tables_1_12
from vectors.generate.java.steps import Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

HOME: Final = Path(__file__).resolve().parents[1]
RUST: Final = Recipe(
    "rust",
    "put together from the parts of iceberg-rust 0.10.1, whose keys carry no file length",
    ["append-only", "parquet", "no-lengths"],
    [],
    needs=["missing-length"],
)


@dataclass(frozen=True)
class Archive:
    """A tarball under vectors/. `prefix` is how the locations in its tables begin."""

    path: str
    prefix: str
    made_by: str
    recipes: Sequence[Recipe]


ARCHIVES: Final = (
    Archive("java/java-1.12-tables.tar.gz", "file:/tmp/sealberg-golden/wh", "Iceberg Java 1.12.0", tables_1_12.FIRST),
    Archive(
        "java/java-1.12-more-tables.tar.gz", "file:/tmp/sealberg-golden/wh", "Iceberg Java 1.12.0", tables_1_12.MORE
    ),
    *(
        Archive(f"java/java-1.12-{one.name}.tar.gz", "file:/tmp/sealberg-golden/wh", "Iceberg Java 1.12.0", [one])
        for one in tables_1_12.LARGE
    ),
    Archive(
        "java/java-1.11-tables.tar.gz", "file:/tmp/sealberg-golden-old/wh", "Iceberg Java 1.11.0", tables_1_11.RECIPES
    ),
    Archive("rust/iceberg-rust-0.10-table.tar.gz", "file:/tmp/sealberg-rust/wh", "iceberg-rust 0.10.1", [RUST]),
)


def pack(target: Path, members: dict[str, Path | bytes]) -> None:
    """A tarball without times and owners: the same members are the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(target, "wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, content in sorted(members.items()):
            info = tarfile.TarInfo(name)
            given = content if isinstance(content, bytes) else content.read_bytes()
            info.size = len(given)
            archive.addfile(info, io.BytesIO(given))


def unpack(folder: Path) -> None:
    """All tables of all archives, side by side."""
    for archive in ARCHIVES:
        with tarfile.open(HOME / archive.path) as opened:
            opened.extractall(folder, filter="data")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vectors.generate.archives", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("archive", choices=[one.path for one in ARCHIVES])
    given = parser.parse_args()
    (archive,) = (one for one in ARCHIVES if one.path == given.archive)
    roots = [f"{part}/{one.name}" for one in archive.recipes for part in ("wh/db.db", "expected")]
    files = [path for root in roots for path in (given.folder / root).rglob("*") if path.is_file()]
    pack(HOME / archive.path, {str(path.relative_to(given.folder)): path for path in files})


if __name__ == "__main__":
    main()
