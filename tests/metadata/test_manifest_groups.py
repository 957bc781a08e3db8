"""Manifests that are searched together are what each is alone: columns, errors, and what is kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.examples import examples
from kit.tables.small_tables import SmallTable
from sealberg.errors import AuthenticationError, FormatError, SealbergError, TruncatedError
from sealberg.metadata import decode_cache as cache
from sealberg.metadata import manifest_decoder, manifest_groups
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_column_reader import KEPT, STATISTICS, read_columns
from sealberg.metadata.manifest_groups import SearchedGroup, read_together, search_together
from sealberg.metadata.manifest_writer import ManifestWriter
from sealberg.metadata.searched_columns import SearchedColumns
from sealberg.scan import manifest_reading, manifest_search

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.metadata.manifest_columns import ManifestColumns

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "part", DoubleType()),
)
BY_PART = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"), spec_id=1)
BY_NAME = PartitionSpec(PartitionField(2, 1001, IdentityTransform(), "name"), spec_id=2)
NAMES = ["lower_bound", "null_value_count"]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


Entry = tuple[ManifestEntryStatus, int, dict[int, bytes] | None, dict[int, int] | None, float | None]
ADDED, EXISTING, DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
FIELD_IDS = st.sampled_from([1, 2, 3, 1000])
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(ManifestEntryStatus),
        st.integers(0, 2**40),
        st.none()
        | st.dictionaries(FIELD_IDS, st.binary(max_size=12))
        | st.binary(min_size=8, max_size=8).map(lambda each: {1: each}),
        st.none() | st.dictionaries(FIELD_IDS, st.integers(0, 2**63 - 1)),
        st.none() | st.floats(),
    ),
    max_size=5,
)


def written(
    folder: Path, name: str, entries: Sequence[Entry], spec: PartitionSpec = BY_PART, codec: str = "deflate"
) -> ManifestFileV3:
    location = f"file://{folder}/{name}.avro"
    writer = ManifestWriter(PyArrowFileIO(), location, None, spec=spec, schema=SCHEMA, snapshot_id=7, compression=codec)
    for number, (status, rows, lower, nulls, part) in enumerate(entries or simple(0)):
        file = DataFileV3.from_args(
            content=DataFileContent.DATA,
            file_path=f"s3://b/{name}/{number}",
            file_format=FileFormat.PARQUET,
            partition=Record(part if spec is BY_PART else str(part)),
            record_count=rows,
            file_size_in_bytes=1,
            lower_bounds=lower,
            null_value_counts=nulls,
        )
        entry = ManifestEntry(EXISTING, 3, 3, 3, file)
        if status == ADDED:
            writer.add(file)
        else:
            writer.keep(entry) if status == EXISTING else writer.remove(entry)
    made = writer.close()
    if not entries:  # our writer makes no such manifest
        path = folder / f"{name}.avro"
        path.write_bytes(path.read_bytes()[: manifest_decoder.open_fetched(path.read_bytes()).header.length])
    return made


def rewritten(manifest: ManifestFileV3, change: Any) -> None:
    """Write the manifest again with fastavro, with other records or another schema."""
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


def without_first_row_id(schema: dict[str, Any], _: Any) -> None:
    record = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]
    record["fields"] = [field for field in record["fields"] if field["name"] != "first_row_id"]


def optional_file(schema: dict[str, Any], _: Any) -> None:
    field = next(field for field in schema["fields"] if field["name"] == "data_file")
    field["type"] = ["null", field["type"]]


def simple(first: int, count: int = 3) -> list[Entry]:
    return [(ADDED, 10, {1: (first + number).to_bytes(8, "little")}, {1: 0}, float(first)) for number in range(count)]


def shown(columns: ManifestColumns | SearchedColumns) -> list[Any]:
    rows = np.arange(len(columns))
    return [
        columns.location,
        columns.spec_id,
        columns.live_rows().tolist(),
        columns.status.arrow().to_pylist(),
        columns.record_counts.to_pylist(),
        {field_id: repr(values.objects(rows)) for field_id, values in columns.partition.items()},
        {field_id: str(values.arrow().type) for field_id, values in columns.partition.items()},
        [repr(columns.statistics(name).dicts(rows)) for name in NAMES],  # type: ignore[union-attr]
    ]


def spelt(columns: ManifestColumns) -> list[str]:
    """All fields of all entries, maps in their order."""
    return [columns.location, *(f"{list(each._data[:4])} {each.data_file._data!r}" for each in columns.entries())]


def together(manifests: Sequence[ManifestFileV3]) -> list[Any]:
    found = list(search_together(manifests, PyArrowFileIO(), NAMES))
    for each in found:
        assert len(each.columns) == sum(len(part) for _, part in each.parts)
    parts = dict(part for each in found for part in each.parts)
    assert sorted(parts) == list(range(len(manifests)))
    return [shown(parts[number]) for number in range(len(manifests))]


def alone(manifests: Sequence[ManifestFileV3]) -> list[Any]:
    return [together([manifest])[0] for manifest in manifests]


def groups(manifests: Sequence[ManifestFileV3]) -> list[list[int]]:
    found = search_together(manifests, PyArrowFileIO(), NAMES)
    return sorted([number for number, _ in each.parts] for each in found)


@given(st.lists(ENTRIES, min_size=2, max_size=5))
@examples(0.3)
def test_any_manifests_are_together_what_they_are_alone(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[Entry]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    manifests = [written(folder, f"m{number}", entries) for number, entries in enumerate(lists)]
    assert groups(manifests) == [list(range(len(manifests)))]
    assert together(manifests) == alone(manifests)
    whole = [read_columns(manifest, PyArrowFileIO()) for manifest in manifests]
    assert together(manifests) == list(map(shown, whole))
    for number, (first_row_id, sequence_number) in enumerate([(None, 0), (100, 5), (0, 9)]):
        for manifest in manifests[number::3]:
            manifest.first_row_id, manifest.sequence_number = first_row_id, sequence_number
    expected = [spelt(read_columns(manifest, PyArrowFileIO())) for manifest in manifests]
    assert [spelt(each) for each in read_together(manifests, PyArrowFileIO())] == expected


@pytest.mark.parametrize("limit", [0, 150, 1 << 20])
def test_more_entries_than_may_wait_are_decoded_in_several_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number)) for number in range(5)]
    expected = alone(manifests)
    monkeypatch.setattr(manifest_groups, "MOST_WAITING", limit)
    assert len(groups(manifests)) == {0: 5, 150: 5, 1 << 20: 1}[limit]
    assert together(manifests) == expected


def test_manifests_of_other_codecs_without_entries_and_with_deleted_ones_are_in_one_group(tmp_path: Path) -> None:
    gone: list[Entry] = [(DELETED, 10, {1: b"12345678"}, None, 0.5), *simple(9, 1), (DELETED, 1, None, None, None)]
    all_gone: list[Entry] = [(DELETED, 10, None, None, -0.0)]
    manifests = [written(tmp_path, codec, simple(number), codec=codec) for number, codec in enumerate(CODECS)]
    manifests[1:1] = [written(tmp_path, "gone", gone), written(tmp_path, "empty", []), written(tmp_path, "a", all_gone)]
    assert groups(manifests) == [list(range(len(manifests)))]
    assert together(manifests) == alone(manifests)
    assert [len(each[2]) for each in together(manifests)[:4]] == [3, 1, 0, 0]


CODECS = ("deflate", "null", "zstandard", "snappy")


def test_manifests_of_other_schemas_and_specs_are_groups_of_their_own(tmp_path: Path) -> None:
    specs = [BY_PART, BY_NAME, BY_PART, BY_NAME, BY_PART, BY_PART, BY_PART]
    manifests = [written(tmp_path, f"m{number}", simple(number), spec) for number, spec in enumerate(specs)]
    rewritten(manifests[4], without_first_row_id)
    rewritten(manifests[5], optional_file)  # which polars cannot decode
    assert groups(manifests) == [[0, 2, 6], [1, 3], [4], [5]]
    assert together(manifests) == alone(manifests)


# -- errors ---------------------------------------------------------------------------------------


def no_status(_: Any, records: list[Any]) -> None:
    records[1]["status"] = 7


def no_counts(schema: dict[str, Any], records: list[Any]) -> None:
    record = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]
    record["fields"] = [field for field in record["fields"] if field["name"] != "record_count"]


@pytest.mark.parametrize(
    ("change", "words"), [(no_status, "the status 7, expected"), (no_counts, "lacks the field record_count")]
)
def test_a_malformed_manifest_in_the_middle_of_a_group_is_named(tmp_path: Path, change: Any, words: str) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number)) for number in range(5)]
    rewritten(manifests[2], change)
    with pytest.raises(FormatError, match=rf"m2\.avro: .*{words}"):
        together(manifests)
    with pytest.raises(FormatError, match=rf"m2\.avro: .*{words}"):
        together(manifests[2:3])
    with pytest.raises(FormatError, match=rf"m2\.avro: .*{words}"):
        read_together(manifests, PyArrowFileIO())


def test_a_block_that_claims_the_rows_of_the_next_manifest_is_refused_by_name(tmp_path: Path) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number), codec="null") for number in range(3)]
    path = tmp_path / "m1.avro"
    content = path.read_bytes()
    head = manifest_decoder.open_fetched(content).header.length
    assert content[head] == 6, "three rows"
    path.write_bytes(content[:head] + b"\x08" + content[head + 1 :])
    with pytest.raises(FormatError, match=r"m1\.avro"):
        together(manifests)


@given(st.data())
@examples(0.6)
def test_altered_bytes_do_to_a_group_what_they_do_to_their_manifest(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    """In a plaintext manifest; AGS1 would have refused it. The other manifests of the group stay what they are."""
    folder = tmp_path_factory.mktemp("altered")
    manifests = [written(folder, f"m{number}", simple(number), codec="null") for number in range(3)]
    path = folder / "m1.avro"
    content = bytearray(path.read_bytes())
    begin = manifest_decoder.open_fetched(bytes(content)).header.length
    for place in data.draw(st.lists(st.integers(begin, len(content) - 1), min_size=1, max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        expected = alone(manifests)
    except SealbergError as error:
        with pytest.raises(type(error), match=r"m1\.avro"):
            together(manifests)
    else:
        assert together(manifests) == expected


@pytest.mark.parametrize("cut", [3, 600, -20, -1])
def test_a_truncated_manifest_in_a_group_is_named(tmp_path: Path, cut: int) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number)) for number in range(3)]
    path = tmp_path / "m1.avro"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FormatError, match=r"m1\.avro"):
        together(manifests)


def test_the_limit_of_a_manifest_is_that_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number, 20 if number == 1 else 3)) for number in range(3)]
    longest = manifest_decoder.open_fetched((tmp_path / "m1.avro").read_bytes()).plain_bytes
    monkeypatch.setattr(manifest_decoder, "MAX_MANIFEST", longest)
    assert len(groups(manifests)) == 1, "all of them take more than the limit of one"
    monkeypatch.setattr(manifest_decoder, "MAX_MANIFEST", longest - 1)
    with pytest.raises(FormatError, match=rf"m1\.avro: .* take more than {longest - 1} bytes"):
        groups(manifests)


# -- encrypted tables -----------------------------------------------------------------------------


def sealed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SmallTable:
    """Six manifests of two files, which a plan searches in one group."""
    monkeypatch.setattr(manifest_search, "MANY", 2)
    monkeypatch.setattr(manifest_reading, "FEW", 0)
    monkeypatch.setattr(manifest_reading, "AHEAD", 0)
    monkeypatch.setattr(manifest_reading, "SAMPLE", 0)
    monkeypatch.setattr(manifest_reading, "GROUPS", 1)
    small = SmallTable(folder, SCHEMA)
    for number in range(6):
        small.snapshot(*(small.parquet([{"id": 10 * number + at}]) for at in range(2)))
    return small


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:], AuthenticationError),
        (lambda content: content[:-1], TruncatedError),
    ],
    ids=["altered", "cut"],
)
def test_a_tampered_manifest_in_the_middle_of_a_group_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, error: type[Exception]
) -> None:
    small = sealed(tmp_path, monkeypatch)
    path = Path(str(small.manifests[3].manifest_path).removeprefix("file://"))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(error, match=path.name):
        list(small.table().scan(row_filter="id < 10").plan_files())


def test_what_is_kept_of_a_group_owns_its_memory_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = sealed(tmp_path, monkeypatch)
    assert len(list(small.table().scan(row_filter="id < 10").plan_files())) == 2
    kept = [entry.value for entry in KEPT._entries.values()]
    assert sorted(type(each).__name__ for each in kept) == ["ManifestColumns", *["SearchedColumns"] * 5]
    assert KEPT.weight == sum(each.nbytes for each in kept)
    for each in kept:
        if isinstance(each, SearchedColumns):
            bounds: Any = each.known["lower_bound"].get(1)
            for array in (each.status.above, each.record_count.above, bounds.numbers.above):
                assert array is None or array.base is None, "a view would keep the columns of the whole group"


def test_a_group_shows_no_content_and_is_not_pickled(tmp_path: Path) -> None:
    manifests = [written(tmp_path, f"m{number}", simple(number)) for number in range(3)]
    (found,) = search_together(manifests, PyArrowFileIO(), NAMES)
    assert isinstance(found.columns, SearchedGroup)
    assert "m0.avro and 2 more, 9 entries" in repr(found.columns)
    with pytest.raises(TypeError, match="not pickled"):
        found.columns.__reduce__()
    assert set(STATISTICS) >= set(NAMES)


@pytest.mark.parametrize("row_filter", ["id < 10", "id > 45", "id = 31", "id in (1, 20, 51)", "id < 0", "id >= 0"])
def test_a_filter_that_fails_on_a_group_is_asked_about_each_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_filter: str
) -> None:
    small = sealed(tmp_path, monkeypatch)
    expected = [task.file.file_path for task in small.table().scan(row_filter=row_filter).plan_files()]
    cache.clear()
    real = manifest_reading._matching

    def fails(columns: Any, by: Any) -> Any:
        if isinstance(columns, SearchedGroup):
            raise FormatError("a bound of some manifest is malformed")
        return real(columns, by)

    monkeypatch.setattr(manifest_reading, "_matching", fails)
    assert [task.file.file_path for task in small.table().scan(row_filter=row_filter).plan_files()] == expected
