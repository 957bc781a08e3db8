"""Table metadata: read, understood, and written again as Java writes them."""

from __future__ import annotations

import copy
import json

import pytest

from kit.tables import golden
from sealberg.errors import FormatError, UnsupportedError
from sealberg.metadata import java_json
from sealberg.metadata.table_metadata import V3TableMetadata, metadata_hash

FILES = [
    pytest.param(table, number, id=f"{table}-{number}")
    for table in golden.TABLES
    for number in range(len(list((golden.root() / "wh/db.db" / table / "metadata").glob("*metadata.json"))))
]


def text_of(table: str, number: int) -> str:
    return golden.metadata_text(
        sorted((golden.root() / "wh/db.db" / table / "metadata").glob("*metadata.json"))[number]
    )


@pytest.mark.parametrize(("table", "number"), FILES)
def test_every_metadata_file_of_java_is_written_again_byte_for_byte(table: str, number: int) -> None:
    text = text_of(table, number)
    assert V3TableMetadata.from_json(text).to_json() == text


@pytest.mark.parametrize(("table", "number"), FILES)
def test_the_model_alone_gives_the_same_bytes(table: str, number: int) -> None:
    """Nothing is taken from what was read: schemas, specs and orders are written from the model."""
    text = text_of(table, number)
    metadata = V3TableMetadata.from_json(text)
    metadata._raw = {}
    assert metadata.to_json() == text


@pytest.mark.parametrize("table", golden.TABLES)
def test_the_hash_is_the_one_that_java_left_in_the_metastore(table: str) -> None:
    expected = json.loads((golden.root() / "expected" / table / "table.json").read_text())
    parameters = expected["hms_parameters"]
    current = golden.local(parameters["metadata_location"])
    metadata = V3TableMetadata.from_json(golden.metadata_text(current))
    assert metadata.metadata_hash() == parameters["metadata_hash"]


def test_copies_keep_everything() -> None:
    text = text_of("mor_deletes", -1)
    metadata = V3TableMetadata.from_json(text)
    assert metadata.model_copy(deep=True).to_json() == text
    assert copy.deepcopy(metadata) == metadata
    assert copy.deepcopy(metadata)._raw is metadata._raw  # by far the largest part, and never changed
    assert copy.deepcopy(metadata).snapshots is not metadata.snapshots
    assert V3TableMetadata.from_json(metadata.model_dump_json()) == metadata


def test_what_nobody_understands_survives() -> None:
    raw = json.loads(text_of("partitioned", -1))
    raw["invented-later"] = {"a": [1, 2.5e10]}
    raw["snapshots"][0]["mood"] = "good"
    raw["refs"]["main"]["colour"] = "blue"
    raw["encryption-keys"][0]["shape"] = ["round"]
    raw["schemas"][0]["fields"][0]["unit"] = "m"
    raw["partition-specs"][0]["note"] = "n"
    raw["statistics"] = [
        {
            "snapshot-id": 1,
            "statistics-path": "p",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
            "extra": 1,
        }
    ]
    text = json.dumps(raw)
    again = json.loads(V3TableMetadata.from_json(text).model_copy(deep=True).to_json())
    assert again == raw


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format-version": 2}', '{"format-version": 3}', '{"a": 1}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises((FormatError, UnsupportedError)):
        V3TableMetadata.from_json(text)


def test_a_table_without_keys_has_no_such_member() -> None:
    raw = json.loads(text_of("basic128", 0))
    assert "encryption-keys" not in V3TableMetadata.from_json(json.dumps(raw)).to_json()


def test_snapshots_know_their_key() -> None:
    metadata = V3TableMetadata.from_json(text_of("basic128", -1))
    assert all(snapshot.key_id in metadata.encryption_keys for snapshot in metadata.snapshots)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.1, "0.1"), (1e7, "1.0E7"), (9999999.0, "9999999.0"),
        (1e10, "1.0E10"), (1e-5, "1.0E-5"), (0.001, "0.001"), (0.00012, "1.2E-4"), (123456.789, "123456.789"),
        (-2.5e-10, "-2.5E-10"), (1.7976931348623157e308, "1.7976931348623157E308"), (100.0, "100.0"),
        (12345678.9, "1.23456789E7"),
    ],
)  # fmt: skip
def test_doubles_are_spelt_as_in_java(value: float, text: str) -> None:
    assert java_json.double(value) == text
    assert java_json.dumps([value]) == f"[{text}]"


@pytest.mark.parametrize(
    ("value", "text"), [(1.1, "1.1"), (3.4028235e38, "3.4028235E38"), (0.5, "0.5"), (1e-3, "0.001")]
)
def test_floats_are_spelt_as_in_java(value: float, text: str) -> None:
    assert java_json.single(value) == text


def test_text_is_escaped_as_jackson_escapes_it() -> None:
    value = {"a\x1f\x7f": 'é " \\ / \n\t\b\f\r \u2028 😀'}
    assert java_json.dumps(value) == '{"a\\u001F\x7f":"é \\" \\\\ / \\n\\t\\b\\f\\r \u2028 😀"}'
    assert json.loads(java_json.dumps(value)) == value


def test_numbers_keep_their_spelling() -> None:
    text = '{"a":1.0E10,"b":1e5,"c":-0.10,"d":12345678901234567890}'
    assert java_json.dumps(java_json.loads(text)) == text
    assert java_json.dumps(copy.deepcopy(java_json.loads(text))) == text


def test_the_hash_is_base64_of_sha256() -> None:
    assert metadata_hash(b"") == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
