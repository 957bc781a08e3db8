"""tables.json: every table and every tampered twin, for test suites that know nothing of this project.

python -m vectors.generate.corpus         makes the twins again, and then tables.json

vectors/README.md explains the members, tables.schema.json has them in JSON Schema.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vectors.generate import twins
from vectors.generate.archives import ARCHIVES, HOME, Archive, pack, unpack

if TYPE_CHECKING:
    from vectors.generate.java.steps import Recipe

MASTER_KEYS: Final = {"keyA": b"0123456789012345".hex(), "keyB": b"1123456789012345".hex()}
TWINS: Final = "twins/twins.tar.gz"


def tables(folder: Path) -> list[dict[str, Any]]:
    return [_table(folder, archive, recipe) for archive in ARCHIVES for recipe in archive.recipes]


def _table(folder: Path, archive: Archive, recipe: Recipe) -> dict[str, Any]:
    newest = sorted((folder / "wh/db.db" / recipe.name / "metadata").glob("*metadata.json"))[-1]
    content = newest.read_bytes()
    metadata = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    told = folder / "expected" / recipe.name / "table.json"
    parameters = json.loads(told.read_text())["hms_parameters"] if told.exists() else {}
    return {
        "name": recipe.name,
        "about": recipe.about,
        "made-by": archive.made_by,
        "archive": archive.path,
        "prefix": archive.prefix,
        "metadata": str(newest.relative_to(folder)),
        "metadata-hash": parameters.get("metadata_hash"),
        "key-id": metadata["properties"]["encryption.key-id"],
        "features": list(recipe.features),
        "needs": list(recipe.needs),
        "refs": {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()},
        "snapshots": [_snapshot(folder, recipe.name, metadata, one) for one in metadata.get("snapshots", [])],
    }


def _snapshot(folder: Path, table: str, metadata: dict[str, Any], snapshot: dict[str, Any]) -> dict[str, Any]:
    path = f"expected/{table}/rows-{snapshot['snapshot-id']}.jsonl"
    readable = (folder / path).exists()
    (schema,) = (one for one in metadata["schemas"] if one["schema-id"] == snapshot["schema-id"])
    return {
        "snapshot-id": snapshot["snapshot-id"],
        "sequence-number": snapshot["sequence-number"],
        "columns": {field["name"]: field["type"] for field in schema["fields"]},
        "rows": path if readable else None,
        "row-count": len((folder / path).read_text().splitlines()) if readable else None,
        "expect": "rows" if readable else "refuse",
    }


def write() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack(folder)
        entries = tables(folder)
        made = twins.every_twin(folder, {entry["name"]: entry for entry in entries}, MASTER_KEYS)
        pack(HOME / TWINS, {f"{twin.name}/{path}": content for twin in made for path, content in twin.files.items()})
    manifest = {
        "version": 1,
        "master-keys": MASTER_KEYS,
        "archives": [
            {"path": path, "sha256": hashlib.sha256((HOME / path).read_bytes()).hexdigest()}
            for path in (*(one.path for one in ARCHIVES), TWINS)
        ],
        "tables": entries,
        "twins": [twin.to_json(TWINS) for twin in made],
    }
    (HOME / "tables.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
