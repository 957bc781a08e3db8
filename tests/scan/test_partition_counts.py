"""The files of partitions counted on columns: the same as entries counted one by one, with Java's rules."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables.small_tables import SmallTable
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_writer import ManifestWriter
from sealberg.scan import manifest_reading
from sealberg.scan.partition_counts import PartitionCounts, count_manifests, counted, partition_key
from sealberg.write.partition_statistics_file import count_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sealberg.metadata.manifest import ManifestFileV3

SCHEMA = Schema(
    NestedField(1, "town", StringType()), NestedField(2, "heat", DoubleType()), NestedField(3, "id", LongType())
)
FIELDS = [PartitionField(at, 999 + at, IdentityTransform(), name) for at, name in enumerate(("town", "heat", "id"), 1)]
SPECS = {number: PartitionSpec(*FIELDS[:number], spec_id=number) for number in range(4)}
IO = PyArrowFileIO()
VALUES: tuple[tuple[Any, ...], ...] = (("a", "b", None), (math.nan, 0.0, -0.0, None), (1, 2))
TIMES = {1: 100, 2: 300, 3: 300, 4: 200}  # 5 has expired


def random_manifest(folder: Path, dice: random.Random, spec_id: int) -> ManifestFileV3:
    writer = ManifestWriter(
        IO,
        f"file://{folder}/{dice.getrandbits(60)}.avro",
        None,
        spec=SPECS[spec_id],
        schema=SCHEMA,
        snapshot_id=dice.randint(1, 5),
    )
    for _ in range(dice.randint(1, 30)):
        content = dice.choice(list(DataFileContent))
        vector = content == DataFileContent.POSITION_DELETES and dice.random() < 0.5
        file = DataFileV3.from_args(
            content=content,
            file_path=f"s3://b/{dice.random()}",
            file_format=FileFormat.PUFFIN if vector else FileFormat.PARQUET,
            partition=Record(*(dice.choice(VALUES[at]) for at in range(spec_id))),
            record_count=dice.randrange(5),
            file_size_in_bytes=dice.randrange(1 << 58),
        )
        entry = ManifestEntry(ManifestEntryStatus.EXISTING, dice.randint(1, 5), 1, 1, file)
        match dice.randrange(3):
            case 0:
                writer.add(file)
            case 1:
                writer.keep(entry)
            case _:
                writer.remove(entry)
    return writer.close()


def one_by_one(entries: Iterable[ManifestEntry], times: Mapping[int, int]) -> list[PartitionCounts]:
    found: dict[Any, PartitionCounts] = {}
    for entry in entries:
        file = entry.data_file
        values = tuple(file.partition[at] for at in range(len(file.partition)))
        counts = found.setdefault(partition_key(values), PartitionCounts(values, file.spec_id))
        assert entry.snapshot_id is not None
        made_at = times.get(entry.snapshot_id)
        if made_at is not None and (counts.last_updated_at is None or counts.last_updated_at < made_at):
            counts.last_updated_at, counts.last_updated_snapshot_id = made_at, entry.snapshot_id
        if entry.status == ManifestEntryStatus.DELETED:
            continue
        if file.content == DataFileContent.DATA:
            counts.data_record_count += file.record_count
            counts.data_file_count += 1
            counts.total_data_file_size_in_bytes += file.file_size_in_bytes
        elif file.content == DataFileContent.EQUALITY_DELETES:
            counts.equality_delete_record_count += file.record_count
            counts.equality_delete_file_count += 1
        else:
            counts.position_delete_record_count += file.record_count
            if file.file_format == FileFormat.PUFFIN:
                counts.dv_count += 1
            else:
                counts.position_delete_file_count += 1
    return list(found.values())


def shown(counts: Sequence[PartitionCounts]) -> list[str]:
    """With the bits of floating-point numbers; `repr` of the counts hides the values of the table."""
    return [f"{each.partition} {each}" for each in counts]


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_entries_one_by_one(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    manifest = random_manifest(tmp_path, dice, seed % 4)
    columns = read_columns(manifest, IO)
    everything, live = (manifest.fetch_manifest_entry(IO, discard_deleted=flag) for flag in (False, True))
    assert shown(counted(columns, np.arange(len(columns)), TIMES)) == shown(one_by_one(everything, TIMES))
    assert shown(counted(columns, columns.live_rows(), TIMES)) == shown(one_by_one(live, TIMES))


def test_no_rows_are_no_partitions(tmp_path: Path) -> None:
    columns = read_columns(random_manifest(tmp_path, random.Random(1), 2), IO)
    assert counted(columns, np.arange(0), TIMES) == []


@pytest.fixture
def heats(tmp_path: Path) -> SmallTable:
    """Files of the same partitions in two specs; the second spec is newer for one of them."""
    small = SmallTable(tmp_path, SCHEMA, specs=[SPECS[2], SPECS[3]])
    rows = [{"id": 1}]

    def file(heat: float | None, spec_id: int = 2) -> DataFileV3:
        values: tuple[Any, ...] = ("a", heat) if spec_id == 2 else ("a", heat, None)
        return small.parquet(rows, partition=values, spec_id=spec_id)

    small.snapshot(file(math.nan), file(0.0), file(7.0), file(-0.0), file(math.nan), file(None))
    small.snapshot(file(math.nan, 3), file(-math.nan), file(-1.0))
    return small


def test_manifests_in_groups_of_any_size_are_counted_in_order(
    heats: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = heats.table()

    def found() -> list[str]:
        return shown(list(count_manifests(table.metadata, table.io, heats.manifests * 20, lambda c: c.live_rows())))

    together = found()
    assert len(together) == 20 * (5 + 1 + 2)
    monkeypatch.setattr(manifest_reading, "READ_FILES", 1)
    assert found() == together


def test_partition_statistics_have_nulls_first_and_one_nan_last(heats: SmallTable) -> None:
    table = heats.table()
    found = count_partitions(table.metadata, table.io, heats.manifests)
    assert [(each.spec_id, repr(each.partition[1]), each.data_file_count) for each in found] == [
        (2, "None", 1),
        (2, "-1.0", 1),
        (2, "0.0", 1),
        (2, "-0.0", 1),
        (2, "7.0", 1),
        (2, "nan", 3),
        (3, "nan", 1),
    ]
