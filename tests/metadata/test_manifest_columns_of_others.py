"""Manifests of other writers as columns: other schemas and codecs; and those that no writer makes are refused."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import fastavro
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from kit.tables.any_manifest import SPEC, UNPARTITIONED, assert_same, simple, spelt, written
from sealberg.errors import FormatError
from sealberg.metadata import manifest_decoder
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.manifest_groups import search_together

if TYPE_CHECKING:
    from sealberg.metadata.manifest import ManifestFileV3


def rewritten(manifest: ManifestFileV3, change: Any) -> None:
    """Write the manifest again with fastavro, with another schema."""
    path = Path(str(manifest.manifest_path).removeprefix("file://"))
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, schema = list(reader), json.loads(json.dumps(reader.writer_schema))
    for name in ("__fastavro_parsed__", "__named_schemas"):
        schema.pop(name, None)
    change(schema, records)
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records)
    path.write_bytes(out.getvalue())


def file_field(schema: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", next(field for field in schema["fields"] if field["name"] == "data_file"))


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_every_codec_of_manifests_decodes(tmp_path: Path, codec: str) -> None:
    entries = [simple(number, lower_bounds={1: b"x" * number}) for number in range(5)]
    manifest = written(tmp_path, entries, SPEC, codec)
    assert assert_same(manifest, PyArrowFileIO()) == 5


def test_a_manifest_that_polars_cannot_decode_becomes_the_same_columns(tmp_path: Path) -> None:
    values = [
        False,
        1,
        2,
        0.5,
        math.nan,
        "t",
        b"b",
        b"abc",
        b"u" * 16,
        Decimal("1.50"),
        Decimal("0E-10"),
        3,
        4,
        5,
        6,
    ]
    full = ("add", {**simple(1)[1], "lower_bounds": {1: b"x"}, "split_offsets": [4]}, tuple(values), 0)
    manifest = written(tmp_path, [full, simple(2)], SPEC)
    by_polars = list(map(spelt, read_columns(manifest, PyArrowFileIO()).entries()))

    def optional(schema: dict[str, Any], _: Any) -> None:
        field = file_field(schema)
        field["type"] = ["null", field["type"]]

    rewritten(manifest, optional)
    columns = read_columns(manifest, PyArrowFileIO())
    assert list(map(spelt, columns.entries())) == by_polars
    assert str(columns.partition_values(1012).type) == "date32[day]"
    assert assert_same(manifest, PyArrowFileIO(), searched=False) == 2
    (found,) = search_together([manifest], PyArrowFileIO(), ["lower_bound"])
    assert isinstance(found.columns, ManifestColumns)


def test_manifests_without_the_fields_of_later_versions_have_their_defaults(tmp_path: Path) -> None:
    manifest = written(tmp_path, [simple(1), simple(2)], UNPARTITIONED)
    later = {"content", "nan_value_counts", "first_row_id", "referenced_data_file", "content_offset", "equality_ids"}

    def older(schema: dict[str, Any], _: Any) -> None:
        record = file_field(schema)["type"]
        record["fields"] = [field for field in record["fields"] if field["name"] not in later]

    rewritten(manifest, older)
    assert assert_same(manifest, PyArrowFileIO()) == 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("content", 7, "content 7, expected one of"),
        ("file_format", "TEXT", "'TEXT' is not a valid FileFormat"),
    ],
)
def test_values_that_no_manifest_has_are_refused(tmp_path: Path, name: str, value: Any, words: str) -> None:
    manifest = written(tmp_path, [simple(1), simple(2)], UNPARTITIONED)

    def wrong(_: Any, records: list[Any]) -> None:
        records[1]["data_file"][name] = value

    rewritten(manifest, wrong)
    with pytest.raises(FormatError, match=words):
        read_columns(manifest, PyArrowFileIO())


def test_a_manifest_without_paths_is_refused(tmp_path: Path) -> None:
    manifest = written(tmp_path, [simple(1)], UNPARTITIONED)

    def without(schema: dict[str, Any], _: Any) -> None:
        record = file_field(schema)["type"]
        record["fields"] = [field for field in record["fields"] if field["name"] != "file_path"]

    rewritten(manifest, without)
    with pytest.raises(FormatError, match="no file_path"):
        read_columns(manifest, PyArrowFileIO())


@pytest.mark.parametrize("cut", [3, 40, 600, -20, -1])
def test_a_truncated_manifest_is_refused_by_name(tmp_path: Path, cut: int) -> None:
    manifest = written(tmp_path, [simple(1), simple(2)], UNPARTITIONED)
    path = tmp_path / "m.avro"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match=r"m\.avro"):
        read_columns(manifest, PyArrowFileIO())


def test_a_manifest_may_not_take_more_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = written(tmp_path, [simple(1), simple(2)], UNPARTITIONED)
    monkeypatch.setattr(manifest_decoder, "MAX_MANIFEST", 20)
    with pytest.raises(FormatError, match="take more than 20 bytes"):
        read_columns(manifest, PyArrowFileIO())
