"""Manifests of any entries, and the claim that a manifest as columns holds its entries.

written(folder, [simple(1), ...], SPEC)    a manifest with these entries
ENTRIES                                    any entries, for Hypothesis
assert_same(manifest, storage)             its columns are what the reader of entries makes of it
"""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
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

from sealberg.metadata import decode_cache as cache
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3, inherit, read_manifest_file
from sealberg.metadata.manifest_column_reader import STATISTICS, read_columns
from sealberg.metadata.manifest_groups import search_together
from sealberg.metadata.manifest_names import read_manifest_names
from sealberg.metadata.manifest_writer import ManifestWriter
from sealberg.metadata.searched_columns import SearchedColumns
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

    from sealberg.metadata.manifest_columns import ManifestColumns

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


def simple(number: int, **more: Any) -> tuple[str, dict[str, Any], Any, int]:
    arguments = {
        "content": DataFileContent.DATA,
        "file_path": f"s3://b/{number}",
        "file_format": FileFormat.PARQUET,
        "record_count": 10,
        "file_size_in_bytes": 100,
    }
    return "add", arguments | more, tuple(None for _ in KINDS), 0


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
