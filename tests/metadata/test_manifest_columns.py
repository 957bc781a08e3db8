"""A manifest as columns: each entry is what the reader of entries makes of it, to the last bit of a partition value."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from kit.examples import examples
from kit.tables import corpus
from kit.tables.any_manifest import ENTRIES, KINDS, SCHEMA, SPEC, UNPARTITIONED, assert_same, simple, written
from sealberg.errors import FormatError
from sealberg.metadata import decode_cache as cache
from sealberg.metadata import manifest_column_reader
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3, inherit, read_manifest_file
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_writer import entry_encoder
from sealberg.metadata.partition_types import schema_for
from sealberg.metadata.table_metadata import V3TableMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

    from sealberg.metadata.encoded_entries import EntryEncoder

BY_NANOS = PartitionSpec(PartitionField(16, 1016, IdentityTransform(), "c16"), spec_id=5)
MANIFEST_SEQUENCE_NUMBER = 4


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


@given(
    entries=ENTRIES,
    partitioned=st.booleans(),
    sequence_number=st.sampled_from([0, 5]),
    first_row_id=st.none() | st.just(100),
)
@examples(0.2)
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


def test_nanoseconds_are_exact(tmp_path: Path) -> None:
    kind, arguments, _, number = simple(1)
    manifest = written(tmp_path, [(kind, arguments, (2**62 + 1,), number)], BY_NANOS)
    assert assert_same(manifest, PyArrowFileIO()) == 1
    columns = read_columns(manifest, PyArrowFileIO())
    values = columns.partition_values(1016)
    assert (str(values.type), values.view(pa.int64()).to_pylist()) == ("timestamp[ns]", [2**62 + 1])
    assert columns.entries()[0].data_file.partition[0] == 2**62 + 1


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
