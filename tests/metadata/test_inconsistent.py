"""Metadata that Java refuses and PyIceberg takes: a typed error, never an empty table or an error of Python's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import LongType, NestedField, StructType, TimestampType

import sealberg
from kit.programs.spark import properties_of
from sealberg.errors import FormatError, SealbergError
from sealberg.metadata.metadata_file import parse
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.table.plain_table import plain_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "at": pa.array([0, 1], pa.timestamp("us")),
        "s": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    }
)


def made(folder: Path, version: str) -> Any:
    catalog: Any = sealberg.load_catalog("prod", **properties_of(folder))
    catalog.create_namespace("hr")
    nested = StructType(NestedField(4, "a", LongType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "s", nested, required=False),
    )
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"), PartitionField(2, 1001, DayTransform(), "d"))
    keyed = {"encryption.key-id": "hr"} if version == "3" else {}
    table = catalog.create_table("hr.t", schema, partition_spec=spec, properties={"format-version": version, **keyed})
    table.append(ROWS)
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "t").commit()
    return table


def document(table: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    return found


def fields(raw: dict[str, Any]) -> Any:
    return raw["partition-specs"][0]["fields"]


REFUSED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a current snapshot that is nowhere": lambda raw: raw.update({"current-snapshot-id": 999}),
    "the same without refs": lambda raw: raw.update({"current-snapshot-id": 999, "refs": {}}),
    "no current snapshot beside main": lambda raw: raw.update({"current-snapshot-id": -1}),
    "the same by null": lambda raw: raw.update({"current-snapshot-id": None}),
    "the same by absence": lambda raw: raw.pop("current-snapshot-id"),
    "no snapshots": lambda raw: raw.update(snapshots=[]),
    "a snapshot of another id": lambda raw: raw["snapshots"][0].update({"snapshot-id": 999}),
    "a branch main elsewhere": lambda raw: raw["refs"]["main"].update({"snapshot-id": 999}),
    "a tag that is nowhere": lambda raw: raw["refs"]["t"].update({"snapshot-id": 999}),
    "a branch that is nowhere": lambda raw: raw["refs"].update({"b": {"snapshot-id": 999, "type": "branch"}}),
    "days of a number": lambda raw: fields(raw)[1].update({"source-id": 1}),
    "a bucket of a struct": lambda raw: fields(raw)[0].update({"source-id": 3}),
}
OF_VERSION_3: dict[str, Callable[[dict[str, Any]], object]] = {
    "a number in a summary": lambda raw: raw["snapshots"][0]["summary"].update({"total-records": 5}),
    "a list in a summary": lambda raw: raw["snapshots"][0]["summary"].update({"total-records": [None]}),
    "a snapshot after all years": lambda raw: raw["snapshots"][0].update({"timestamp-ms": 2**63 - 1}),
    "a log before all years": lambda raw: raw["snapshot-log"][0].update({"timestamp-ms": -(2**63)}),
}


@pytest.mark.parametrize("what", [*REFUSED, *OF_VERSION_3])
def test_such_metadata_are_not_read(tmp_path: Path, what: str) -> None:
    raw = document(made(tmp_path, "3"))
    V3TableMetadata.from_raw(copy.deepcopy(raw))
    (REFUSED | OF_VERSION_3)[what](raw)
    with pytest.raises(FormatError, match="table metadata"):
        V3TableMetadata.from_raw(raw)
    many = json.dumps(raw, separators=(",", ":")).encode()
    with pytest.raises(FormatError, match="table metadata"):
        V3TableMetadata.from_raw(parse(many, "file:///v1.json"))


@pytest.mark.parametrize("what", REFUSED)
def test_nor_are_those_of_a_plain_table(tmp_path: Path, what: str) -> None:
    raw = document(made(tmp_path, "2"))
    plain_metadata("file:///lake/v1.json", copy.deepcopy(raw))
    REFUSED[what](raw)
    with pytest.raises(FormatError, match=r"v1\.json: table metadata"):
        plain_metadata("file:///lake/v1.json", raw)


@pytest.mark.parametrize(
    ("change", "act"),
    [
        (lambda raw: fields(raw)[1].update(transform="fortnight"), lambda table: table.transaction().append(ROWS)),
        (lambda raw: fields(raw)[1].update(transform="fortnight"), lambda table: table.inspect.files()),
        (lambda raw: fields(raw)[1].update(transform="fortnight"), lambda table: table.inspect.entries()),
        (lambda raw: fields(raw)[1].update(transform="fortnight"), lambda table: table.inspect.partitions()),
        (lambda raw: fields(raw)[1].update({"source-id": 99}), lambda table: table.transaction().append(ROWS)),
        (lambda raw: fields(raw).clear(), lambda table: table.inspect.manifests()),
        (lambda raw: fields(raw)[1].update(transform="void"), lambda table: table.inspect.all_manifests()),
    ],
    ids=[
        "a transform that nobody knows",
        "its files",
        "its entries",
        "its partitions",
        "a column that is gone",
        "a spec without fields",
        "another type",
    ],
)
def test_what_only_some_uses_need_fails_there(
    tmp_path: Path, change: Callable[[Any], object], act: Callable[[Any], object]
) -> None:
    table = made(tmp_path, "3")
    raw = document(table)
    change(raw)
    table.metadata = V3TableMetadata.from_raw(raw)
    assert table.scan().to_arrow().num_rows == 2
    with pytest.raises(SealbergError):
        act(table)
