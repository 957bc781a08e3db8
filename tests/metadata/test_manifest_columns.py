"""A manifest as columns: each entry is what the reader of entries makes of it, to the last bit of a partition value."""

from __future__ import annotations

import io
import json
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from kit.tables import corpus
from sealberg.errors import FormatError
from sealberg.metadata import decode_cache as cache
from sealberg.metadata import manifest_column_reader, manifest_decoder
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3, inherit, read_manifest_file
from sealberg.metadata.manifest_column_reader import STATISTICS, read_columns
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.manifest_groups import search_together
from sealberg.metadata.manifest_names import read_manifest_names
from sealberg.metadata.manifest_writer import ManifestWriter, entry_encoder
from sealberg.metadata.searched_columns import SearchedColumns
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.pyiceberg_private import values_of
from sealberg.write.snapshot_builder import schema_for

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from sealberg.metadata.encoded_entries import EntryEncoder

KINDS = {
    1: (BooleanType(), st.booleans()),
    2: (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    3: (LongType(), st.integers(-(2**63), 2**63 - 1)),
    4: (FloatType(), st.floats(width=32)),
    5: (DoubleType(), st.floats()),
    6: (StringType(), st.text(max_size=5)),
    7: (BinaryType(), st.binary(max_size=5)),
    8: (FixedType(3), st.binary(min_size=3, max_size=3)),
    9: (UUIDType(), st.binary(min_size=16, max_size=16)),
    10: (DecimalType(9, 2), st.decimals(-1000, 1000, places=2)),
    11: (DecimalType(38, 10), st.decimals(-(10**20), 10**20, places=10)),
    12: (DateType(), st.integers(-(2**31), 2**31 - 1)),
    13: (TimeType(), st.integers(0, 86_399_999_999)),
    14: (TimestampType(), st.integers(-(2**63), 2**63 - 1)),
    15: (TimestamptzType(), st.integers(-(2**63), 2**63 - 1)),
}
SCHEMA = Schema(
    *(NestedField(number, f"c{number}", kind, required=False) for number, (kind, _) in KINDS.items()),
    NestedField(16, "c16", TimestampNanoType(), required=False),
)
SPEC = PartitionSpec(
    *(PartitionField(number, 1000 + number, IdentityTransform(), f"c{number}") for number in KINDS), spec_id=3
)
BY_NANOS = PartitionSpec(PartitionField(16, 1016, IdentityTransform(), "c16"), spec_id=5)
UNPARTITIONED = PartitionSpec(spec_id=4)
MANIFEST_SEQUENCE_NUMBER = 4


def spelt(value: Any) -> Any:
    """A value so that -0.0 is not 0.0, NaN is NaN, and the order of a map does not matter."""
    if isinstance(value, float | Decimal):
        return repr(value)
    if hasattr(value, "items"):
        return dict(value.items())
    if isinstance(value, Record):
        return [type(value).__name__, *map(spelt, values_of(value))]
    return value


def assert_same(manifest: ManifestFileV3, storage: FileIO, *, searched: bool = True) -> int:
    columns = read_columns(manifest, storage)
    expected = list(inherit(read_manifest_file(storage, manifest.manifest_path), manifest))
    found = columns.entries()
    assert list(map(spelt, found)) == list(map(spelt, expected))
    assert [entry.data_file.spec_id for entry in found] == [entry.data_file.spec_id for entry in expected]
    some = np.arange(0, len(columns), 2)
    assert list(map(spelt, columns.files(some))) == [spelt(entry.data_file) for entry in expected[::2]]
    live = [row for row, entry in enumerate(expected) if entry.status != 2]
    assert columns.live_rows().tolist() == live
    assert_same_statistics(columns, expected)
    assert_same_names(manifest, storage, expected)
    if searched:
        assert_same_where_searched(manifest, storage, columns)
    return len(expected)


def assert_same_where_searched(manifest: ManifestFileV3, storage: FileIO, whole: ManifestColumns) -> None:
    """A part of the columns has what the whole has, and the whole can be made from the part."""
    for names in (["upper_bound", "null_value_count"], list(STATISTICS)):
        cache.clear()
        ((_, part),) = next(search_together([manifest], storage, names)).parts
        assert isinstance(part, SearchedColumns)
        assert (len(part), part.spec_id, part.location) == (len(whole), whole.spec_id, whole.location)
        assert part.live_rows().tolist() == whole.live_rows().tolist()
        assert part.record_counts.equals(whole.record_counts)
        for name, expected in ((name, whole.statistics(name)) for name in STATISTICS):
            found = part.statistics(name)
            assert (found is not None) == (name in names)
            for field_id in expected.by_field if found is not None else ():
                assert found.get(field_id).arrow().equals(expected.by_field[field_id].arrow())  # type: ignore[union-attr]
        rows = np.arange(len(whole))
        for field_id, values in whole.partition.items():
            assert part.partition_values(field_id).type == whole.partition_values(field_id).type
            found_values = part.partition[field_id].objects(rows)
            assert list(map(spelt, found_values)) == list(map(spelt, values.objects(rows))), field_id
        again = read_columns(manifest, storage).entries()
        assert list(map(spelt, again)) == list(map(spelt, whole.entries()))


def assert_same_names(manifest: ManifestFileV3, storage: FileIO, expected: list[ManifestEntry]) -> None:
    """The names alone, as a task sends them, are those of the entries."""
    read = read_manifest_names(storage, manifest.manifest_path)
    files = [entry.data_file for entry in expected]
    live = [str(entry.data_file.file_path) for entry in expected if entry.status != 2]
    for names in (read, pickle.loads(pickle.dumps(read))):
        assert len(names) == len(expected)
        assert list(names) == [(str(file.file_path), file.file_size_in_bytes, file.content) for file in files]
        assert names.live_locations() == live


def assert_same_statistics(columns: Any, expected: list[ManifestEntry]) -> None:
    """What filters ask for by field id is what the files say."""
    files = [entry.data_file for entry in expected]
    assert columns.record_counts.to_pylist() == [file.record_count for file in files]
    for name in ("lower_bounds", "upper_bounds", "value_counts", "null_value_counts", "nan_value_counts"):
        maps = [dict(getattr(file, name) or {}) for file in files]
        for field_id in {key for each in maps for key in each} | {999}:
            found = getattr(columns, name)(field_id)
            values = [each.get(field_id) for each in maps]
            assert (found is None) if values == [None] * len(values) else found.to_pylist() == values
    offsets = [None if file.split_offsets is None else len(file.split_offsets) for file in files]
    assert columns.row_group_counts.to_pylist() == offsets
    for at, field_id in enumerate(columns.partition):
        values = columns.partition_values(field_id)
        nulls = [entry.data_file.partition[at] is None for entry in expected]
        assert values.is_null().to_pylist() == nulls


@pytest.mark.parametrize("table", corpus.TABLES)
def test_the_columns_of_every_manifest_of_the_corpus_hold_its_entries(table: str) -> None:
    opened = corpus.opened(table)
    if not isinstance(opened.metadata, V3TableMetadata):
        return
    entries = 0
    for snapshot in opened.metadata.snapshots:
        for manifest in snapshot.manifests(opened.io):
            assert isinstance(manifest, ManifestFileV3)
            entries += assert_same(manifest, opened.io)
            number = manifest.partition_spec_id
            encoder = entry_encoder(opened.metadata.specs()[number], schema_for(opened.metadata, number))
            assert_same_bytes(encoder, manifest, opened.io)
    assert entries or not opened.metadata.snapshots or table == "empty"


def assert_same_bytes(encoder: EntryEncoder, manifest: ManifestFileV3, storage: FileIO) -> int:
    """Live entries go into a new manifest with the bytes that PyIceberg's writer gives them; returns how many."""
    stored = inherit(read_manifest_file(storage, manifest.manifest_path), manifest)
    live = [entry for entry in stored if entry.status != 2]
    files = [cast("DataFileV3", entry.data_file) for entry in live]
    gone = {file.identity for file in files[::3]} | {("s3://b/elsewhere", None)}
    for entry, file in zip(live, files, strict=True):
        entry.status = ManifestEntryStatus.EXISTING
        if file.identity in gone:
            entry.status, entry.snapshot_id = ManifestEntryStatus.DELETED, 77
    found = encoder.live(manifest, storage, 77, gone)
    assert list(map(repr, map(tuple, found.entries))) == [repr(tuple(encoder.of(entry))) for entry in live]  # has NaN
    assert found.removed == gone - {("s3://b/elsewhere", None)}
    assert "bytes" not in repr(found)
    assert {entry.status for entry in encoder.live(manifest, storage, 77).entries} <= {ManifestEntryStatus.EXISTING}
    return len(live)


# -- any entries --------------------------------------------------------------------------------

LONGS = st.integers(0, 2**63 - 1)
FIELD_IDS = st.sampled_from([1, 2, 3, 1000, 2147483546])
FILES = st.fixed_dictionaries(
    {
        "content": st.sampled_from(DataFileContent),
        "file_path": st.text(max_size=8).map(lambda name: f"s3://b/t/data/{name}"),
        "file_format": st.sampled_from(FileFormat),
        "record_count": st.integers(0, 2**40),
        "file_size_in_bytes": LONGS,
        **{
            name: st.none() | st.dictionaries(FIELD_IDS, LONGS)
            for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
        },
        **{
            name: st.none() | st.dictionaries(FIELD_IDS, st.binary(max_size=17))
            for name in ("lower_bounds", "upper_bounds")
        },
        "key_metadata": st.none() | st.binary(max_size=40),
        "split_offsets": st.none() | st.lists(LONGS, max_size=3),
        "equality_ids": st.none() | st.lists(st.integers(1, 9), max_size=3),
        "sort_order_id": st.none() | st.integers(0, 9),
        "first_row_id": st.none() | st.integers(0, 2**40),
        "referenced_data_file": st.none() | st.text(max_size=8),
        "content_offset": st.none() | LONGS,
        "content_size_in_bytes": st.none() | LONGS,
    }
)
PARTITIONS = st.tuples(*(st.none() | values for _, values in KINDS.values()))
ENTRIES = st.lists(
    st.tuples(st.sampled_from(["add", "keep", "remove"]), FILES, PARTITIONS, LONGS), min_size=1, max_size=6
)


def written(
    folder: Path, entries: list[tuple[str, dict[str, Any], Any, int]], spec: PartitionSpec, codec: str = "deflate"
) -> ManifestFileV3:
    location = f"file://{folder}/m.avro"
    writer = ManifestWriter(
        PyArrowFileIO(), location, None, spec=spec, schema=SCHEMA, snapshot_id=11, compression=codec
    )
    for kind, arguments, partition, number in entries:
        file = DataFileV3.from_args(**arguments, partition=Record(*partition[: len(spec.fields)]))
        if kind == "add":
            writer.add(file, number if number % 2 else None)
        else:
            entry = writer_entry(file, number)
            writer.keep(entry) if kind == "keep" else writer.remove(entry)
    return writer.close()


def writer_entry(file: DataFileV3, number: int) -> ManifestEntry:
    return ManifestEntry(ManifestEntryStatus.EXISTING, number, number, None if number % 3 == 0 else number, file)


@given(
    entries=ENTRIES,
    partitioned=st.booleans(),
    sequence_number=st.sampled_from([0, 5]),
    first_row_id=st.none() | st.just(100),
)
@settings(max_examples=20, deadline=None)
def test_any_entries_are_the_same_as_columns(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[Any],
    partitioned: bool,
    sequence_number: int,
    first_row_id: int | None,
) -> None:
    manifest = written(tmp_path_factory.mktemp("any"), entries, SPEC if partitioned else UNPARTITIONED)
    manifest.sequence_number, manifest.first_row_id = sequence_number, first_row_id
    assert assert_same(manifest, PyArrowFileIO()) == len(entries)
    assert_same_bytes(entry_encoder(SPEC if partitioned else UNPARTITIONED, SCHEMA), manifest, PyArrowFileIO())


def test_partition_values_of_an_older_type_are_encoded_as_the_type_of_today(tmp_path: Path) -> None:
    """An int column that became a long, and a float that became a double."""
    spec = PartitionSpec(*(each for each in SPEC.fields if each.source_id in (2, 4)), spec_id=5)
    wider = Schema(NestedField(2, "c2", LongType()), NestedField(4, "c4", DoubleType()))
    kind, arguments, _, number = simple(1)
    manifest = written(tmp_path, [(kind, arguments, (7, 0.5), number)], spec)
    manifest.sequence_number = 5
    assert assert_same_bytes(entry_encoder(spec, wider), manifest, PyArrowFileIO()) == 1


def test_an_entry_without_a_sequence_number_is_not_taken_over(tmp_path: Path) -> None:
    manifest = written(tmp_path, [simple(1)], UNPARTITIONED)
    manifest[MANIFEST_SEQUENCE_NUMBER] = None
    with pytest.raises(FormatError, match=r"m\.avro: .*s3://b/1 has no sequence number"):
        entry_encoder(UNPARTITIONED, SCHEMA).live(manifest, PyArrowFileIO(), 77)


def simple(number: int, **more: Any) -> tuple[str, dict[str, Any], Any, int]:
    arguments = {
        "content": DataFileContent.DATA,
        "file_path": f"s3://b/{number}",
        "file_format": FileFormat.PARQUET,
        "record_count": 10,
        "file_size_in_bytes": 100,
    }
    return "add", arguments | more, tuple(None for _ in KINDS), 0


def test_partition_values_have_the_types_of_arrow(tmp_path: Path) -> None:
    columns = read_columns(written(tmp_path, [simple(1)], SPEC), PyArrowFileIO())
    found = [str(columns.partition_values(1000 + number).type) for number in KINDS]
    assert found == [
        "bool",
        "int32",
        "int64",
        "float",
        "double",
        "string",
        "binary",
        "fixed_size_binary[3]",
        "fixed_size_binary[16]",
        "decimal128(9, 2)",
        "decimal128(38, 10)",
        "date32[day]",
        "time64[us]",
        "timestamp[us]",
        "timestamp[us, tz=UTC]",
    ]
    with pytest.raises(FormatError, match="no partition field 7"):
        columns.partition_values(7)


def test_nanoseconds_which_the_reader_of_entries_does_not_know_are_exact(tmp_path: Path) -> None:
    kind, arguments, _, number = simple(1)
    columns = read_columns(written(tmp_path, [(kind, arguments, (2**62 + 1,), number)], BY_NANOS), PyArrowFileIO())
    values = columns.partition_values(1016)
    assert (str(values.type), values.view(pa.int64()).to_pylist()) == ("timestamp[ns]", [2**62 + 1])
    assert columns.entries()[0].data_file.partition[0] == 2**62 + 1


# -- schemas of other writers -------------------------------------------------------------------


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


# -- what is kept -------------------------------------------------------------------------------


def test_a_file_with_statistics_of_six_columns_takes_at_most_300_bytes(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    ids = range(1, 7)

    def numbers() -> dict[int, int]:
        return dict(zip(ids, dice.integers(0, 200_000, 6).tolist(), strict=True))

    def bounds() -> dict[int, bytes]:
        return {field_id: dice.bytes(8) for field_id in ids}

    entries = [
        simple(
            number,
            file_path=f"s3://bucket/warehouse/hr.db/pay/data/00000-{number}-{dice.bytes(16).hex()}-00001.parquet",
            record_count=int(dice.integers(1, 1_000_000)),
            file_size_in_bytes=int(dice.integers(1, 500_000_000)),
            column_sizes=numbers(),
            value_counts=dict.fromkeys(ids, 1000),
            null_value_counts=numbers(),
            nan_value_counts={2: 0},
            lower_bounds=bounds(),
            upper_bounds=bounds(),
            split_offsets=[4],
            key_metadata=dice.bytes(42),
        )
        for number in range(1000)
    ]
    columns = read_columns(written(tmp_path, entries, UNPARTITIONED), PyArrowFileIO())
    assert columns.nbytes / len(columns) <= 300


def test_columns_are_kept_with_a_key_only_and_show_no_key(tmp_path: Path) -> None:
    opened = corpus.opened("basic128")
    (manifest, *_) = opened.metadata.snapshots[-1].manifests(opened.io)
    assert isinstance(manifest, ManifestFileV3)
    assert manifest.content == ManifestContent.DATA
    cache.clear()
    assert read_columns(manifest, opened.io) is read_columns(manifest, opened.io)
    columns = read_columns(manifest, opened.io)
    assert manifest_column_reader.KEPT.weight == columns.nbytes
    assert "key" not in repr(columns)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(columns)
    plain = written(tmp_path, [simple(1)], UNPARTITIONED)
    read_columns(plain, PyArrowFileIO())
    assert len(manifest_column_reader.KEPT) == 1
