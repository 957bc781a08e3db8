"""Which delete files apply to which data files: the index agrees with the rules, applied one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType

from sealberg.errors import FormatError
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_writer import ManifestWriter
from sealberg.scan.delete_index import DELETE_PATH, DeleteIndex

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.metadata.manifest_columns import ManifestColumns

SCHEMA = Schema(NestedField(1, "p", StringType(), required=False))
BY_P = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"), spec_id=1)
GLOBAL = PartitionSpec(spec_id=2)
SPECS = {1: BY_P, 2: GLOBAL}
PATHS = [f"s3://b/{name}" for name in ("a", "aa", "b", "c", "ü", "z")]


@dataclass(frozen=True)
class Delete:
    """A delete file: what it is, where it is, how old it is, and which paths it may name."""

    kind: str
    spec_id: int
    partition: str | None
    age: int
    first: str
    last: str

    def applies(self, path: str, spec_id: int, partition: str | None, age: int, *, has_vector: bool) -> bool:
        here = (self.spec_id, self.partition if self.spec_id == 1 else None) == (spec_id, partition)
        match self.kind:
            case "vector":
                return self.first == path
            case "equality":
                return self.age > age and (self.spec_id == 2 or here)
            case "path":
                return not has_vector and self.age >= age and self.first == path
        named = self.first.encode() <= path.encode() <= self.last.encode()
        one_path = self.first == self.last
        return not has_vector and self.age >= age and (self.first == path if one_path else here and named)

    def file(self, number: int) -> DataFileV3:
        more: dict[str, Any] = {}
        if self.kind == "positions":
            bounds = {"lower_bounds": self.first, "upper_bounds": self.last}
            more = {name: {DELETE_PATH.field_id: path.encode()} for name, path in bounds.items()}
        elif self.kind != "equality":
            more = {"referenced_data_file": self.first}
        content = DataFileContent.EQUALITY_DELETES if self.kind == "equality" else DataFileContent.POSITION_DELETES
        return _file(f"s3://d/{number}", self.partition, self.spec_id, content, vector=self.kind == "vector", **more)


def _file(
    path: str, partition: str | None, spec_id: int, content: DataFileContent, *, vector: bool = False, **more: Any
) -> DataFileV3:
    file = DataFileV3.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PUFFIN if vector else FileFormat.PARQUET,
        partition=Record(partition) if spec_id == 1 else Record(),
        record_count=1,
        file_size_in_bytes=1,
        **more,
    )
    file.spec_id = spec_id
    return file


def columns(folder: Path, files: list[tuple[DataFileV3, int]], spec_id: int, content: ManifestContent) -> Any:
    location = f"file://{folder}/{content.name}-{spec_id}-{random.getrandbits(60)}.avro"
    writer = ManifestWriter(
        PyArrowFileIO(), location, None, spec=SPECS[spec_id], schema=SCHEMA, snapshot_id=1, content=content
    )
    for file, age in files:
        writer.add(file, age)
    found = read_columns(writer.close(), PyArrowFileIO())
    return found, np.arange(len(found))


def by_spec(folder: Path, files: list[tuple[DataFileV3, int]], content: ManifestContent) -> list[tuple[Any, Any]]:
    parts = [[each for each in files if each[0].spec_id == spec_id] for spec_id in (1, 2)]
    return [columns(folder, part, spec_id, content) for spec_id, part in zip((1, 2), parts, strict=True) if part]


@pytest.mark.parametrize("seed", range(40))
def test_the_index_agrees_with_the_rules_applied_one_by_one(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    data = [(path, dice.choice([1, 2]), dice.choice(["x", "y", None]), dice.randint(1, 4)) for path in PATHS]
    kinds = dice.choice([["vector"], ["vector", "equality", "path", "positions"], ["equality", "positions"]])
    deletes: list[Delete] = []
    for _ in range(dice.randint(0, 8)):
        first, last = sorted(dice.choices(PATHS, k=2), key=str.encode)
        kind = dice.choice(kinds)
        if kind == "vector" and any(each.kind == kind and each.first == first for each in deletes):
            continue
        age = 5 if kind == "vector" else dice.randint(1, 4)
        deletes.append(Delete(kind, dice.choice([1, 2]), dice.choice(["x", "y", None]), age, first, last))
    index = DeleteIndex(
        by_spec(tmp_path, [(each.file(n), each.age) for n, each in enumerate(deletes)], ManifestContent.DELETES), SPECS
    )
    files = [(_file(path, partition, spec_id, DataFileContent.DATA), age) for path, spec_id, partition, age in data]
    parts: list[tuple[ManifestColumns, Any]] = by_spec(tmp_path, files, ManifestContent.DATA)
    found = {}
    for (part, rows), per_file in zip(parts, index.for_rows(parts), strict=True):
        for at, path in enumerate(part.file_path.texts(rows).to_pylist()):
            found[path] = {str(file.file_path) for file in (per_file[at] if per_file else ())}
    expected = {}
    for path, spec_id, partition, age in data:
        here = partition if spec_id == 1 else None
        vector = any(each.kind == "vector" and each.first == path for each in deletes)
        expected[path] = {
            f"s3://d/{n}" for n, each in enumerate(deletes) if each.applies(path, spec_id, here, age, has_vector=vector)
        }
    assert found == expected


def test_a_data_file_in_a_delete_manifest_is_refused(tmp_path: Path) -> None:
    wrong = [(_file("s3://d/1", "x", 1, DataFileContent.DATA), 1)]
    with pytest.raises(FormatError, match="s3://d/1: content is DATA in a delete manifest"):
        DeleteIndex(by_spec(tmp_path, wrong, ManifestContent.DELETES), SPECS)
