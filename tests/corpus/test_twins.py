"""The tampered twins of tables.json: refused by us, by the name of what was changed; and made again the same."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from vectors.generate import corpus as generator
from vectors.generate import twins
from vectors.generate.archives import unpack

from kit.tables import corpus
from sealberg.errors import IntegrityError, KeyAccessError
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.table_metadata import metadata_hash

if TYPE_CHECKING:
    from typing import Any

STORAGE = [name for name, twin in corpus.TWINS.items() if not any("metadata.json" in path for path in twin["changed"])]


def refused(twin: dict[str, Any], folder: Path) -> str:
    cache.clear()
    with pytest.raises((IntegrityError, KeyAccessError, FileNotFoundError)) as caught:
        corpus.twin_at(folder, twin).scan(selected_fields=("*", "_row_id")).to_arrow()
    if isinstance(caught.value, FileNotFoundError):
        assert twin["removed"], "a file that is there was not found"
    return f"{caught.value} {getattr(caught.value, '__notes__', '')}"


@pytest.mark.parametrize("name", [name for name, twin in corpus.TWINS.items() if not twin["needs"]])
def test_a_twin_is_refused(name: str, tmp_path: Path) -> None:
    said = refused(corpus.TWINS[name], tmp_path)
    if name in STORAGE:
        changed = (*corpus.TWINS[name]["changed"], *corpus.TWINS[name]["removed"])
        assert any(Path(path).name in said for path in changed), said


def test_metadata_put_back_from_an_older_state_do_not_have_the_hash_of_the_catalog() -> None:
    twin = corpus.TWINS["metadata_rolled_back"]
    known = corpus.TABLES[twin["table"]]["metadata-hash"]
    (path,) = corpus.changed_files(twin).values()
    assert metadata_hash(path.read_bytes()) != known
    own = corpus.folder_of(corpus.TABLES[twin["table"]]) / corpus.TABLES[twin["table"]]["metadata"]
    assert metadata_hash(own.read_bytes()) == known


def test_every_step_and_every_kind_of_file_has_twins() -> None:
    assert {twin["step"] for twin in corpus.TWINS.values()} == {
        "metadata", "keys", "list", "manifest", "data", "deletes",
    }  # fmt: skip
    assert len(corpus.TWINS) > 50


def test_the_twins_are_made_again_the_same(tmp_path: Path) -> None:
    unpack(tmp_path)
    entries = {entry["name"]: entry for entry in generator.tables(tmp_path)}
    assert list(entries.values()) == corpus.MANIFEST["tables"]
    made = twins.every_twin(tmp_path, entries, generator.MASTER_KEYS)
    assert [twin.to_json(generator.TWINS) for twin in made] == corpus.MANIFEST["twins"]
    files = {f"{twin.name}/{path}": content for twin in made for path, content in twin.files.items()}
    with tarfile.open(corpus.VECTORS / generator.TWINS) as archive:
        stored = {name: archive.extractfile(name) for name in archive.getnames()}
        assert {name: stream.read() for name, stream in stored.items() if stream is not None} == files


def test_tables_json_is_what_its_schema_says() -> None:
    schema = json.loads((corpus.VECTORS / "tables.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(corpus.MANIFEST, schema, jsonschema.Draft202012Validator)


def test_the_archives_are_those_of_tables_json() -> None:
    for archive in corpus.MANIFEST["archives"]:
        content = (corpus.VECTORS / archive["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == archive["sha256"], archive["path"]
        assert len(content) < 5_000_000, "the repository stays small"
