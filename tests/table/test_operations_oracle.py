"""Random operations on an encrypted table and on one of plain PyIceberg: the same rows after each, whatever they are.

What a filter means is PyIceberg's expression over all rows in memory. Its scans and deletes ask statistics, too, which
know nothing of NaN, and so lose or delete some rows that the expression does not mean; `test_operations_deletes` tells
which.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables import tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records"),
]

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "score", DoubleType(), required=False),
    NestedField(4, "note", StringType(), required=False),
)
ARROW = pa.schema([("id", pa.int64()), ("region", pa.string()), ("score", pa.float64()), ("note", pa.string())])
REGIONS = ["north", "south", "east", "", None]
SCORES = [None, float("nan"), 0.0, -1.5, 7.25, float("inf"), float("-inf")]

UNPARTITIONED = PartitionSpec()
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
BY_BUCKET = PartitionSpec(
    PartitionField(1, 1000, BucketTransform(3), "id_bucket"),
    PartitionField(4, 1001, TruncateTransform(1), "note_trunc"),
)
MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
TWO_TO_MERGE = {"commit.manifest.min-count-to-merge": "2"}
VARIANTS: dict[str, tuple[PartitionSpec, dict[str, str]]] = {
    "copy-on-write": (UNPARTITIONED, {}),
    "merge-on-read": (UNPARTITIONED, MERGE_ON_READ),
    "manifests merged": (UNPARTITIONED, TWO_TO_MERGE),
    "partitioned": (BY_REGION, {}),
    "partitioned, merge-on-read, merged": (BY_REGION, {**MERGE_ON_READ, **TWO_TO_MERGE}),
    "hidden partitions": (BY_BUCKET, MERGE_ON_READ),
    "avro": (UNPARTITIONED, {"write.format.default": "avro"}),
    "avro, partitioned, merge-on-read": (BY_REGION, {"write.format.default": "avro", **MERGE_ON_READ}),
    "small files": (UNPARTITIONED, {"write.target-file-size-bytes": "300", **TWO_TO_MERGE}),
}


class Both:
    """The two tables, and a source of chance."""

    def __init__(self, ours: Table, theirs: Table, seed: int) -> None:
        self.ours = ours
        self.theirs = theirs
        self.random = random.Random(seed)
        self.next_id = 0
        self.last = ""

    def some_rows(self, ids: list[int | None] | None = None) -> pa.Table:
        if ids is None:
            ids = [self.next_id + i for i in range(self.random.randint(1, 12))]
            self.next_id += len(ids)
        columns: dict[str, list[Any]] = {
            "id": ids,
            "region": [self.random.choice(REGIONS) for _ in ids],
            "score": [self.random.choice(SCORES) for _ in ids],
            "note": [f"{self.random.choice('abc')}{self.random.randint(0, 99)}" for _ in ids],
        }
        return pa.table(columns, schema=ARROW)

    def some_filter(self) -> str:
        chance = self.random
        low = chance.randint(0, max(1, self.next_id))
        return chance.choice(
            [
                f"id = {low}",
                f"id >= {low} and id < {low + 6}",
                f"id < {low // 3}",
                "region = 'north'",
                "region is null",
                "region is not null and score is nan",
                "score > 0",
                "score is null",
                "not (score > 0)",
                "score != 7.25",
                f"note like '{chance.choice('abc')}%'",
                "region in ('south', '')",
                "region not in ('south', '')",
                f"id > {low} or score is nan",
            ]
        )

    def step(self) -> str:
        kind = self.random.choice(["append"] * 3 + ["delete"] * 3 + ["upsert"] * 2 + ["overwrite", "replace", "rename"])
        self.last = kind
        getattr(self, kind)()
        return self.last

    def append(self) -> None:
        new = self.some_rows()
        self.both("append", new)

    def delete(self) -> None:
        row_filter = self.some_filter()
        self.last = f"delete {row_filter}"
        left = self.not_matching(row_filter)
        self.ours.delete(row_filter)
        self.theirs.overwrite(left)

    def overwrite(self) -> None:
        row_filter, new = self.some_filter(), self.some_rows()
        self.last = f"overwrite {row_filter}"
        left = self.not_matching(row_filter)
        self.ours.overwrite(new, row_filter)
        self.theirs.overwrite(pa.concat_tables([left.cast(ARROW), new]))

    def not_matching(self, row_filter: str) -> pa.Table:
        everything = self.theirs.scan().to_arrow()
        gone = set(self.matching(row_filter)["id"].to_pylist())
        return everything.filter(pa.array([one not in gone for one in everything["id"].to_pylist()], pa.bool_()))

    def matching(self, row_filter: str) -> pa.Table:
        schema = self.theirs.schema()
        bound = bind(schema, rewrite_not(parse(row_filter)), case_sensitive=True)
        expression = expression_to_pyarrow(bound, schema)
        return self.theirs.scan().to_arrow().filter(expression)

    def replace(self) -> None:
        if self.random.random() < 0.3:
            self.both("overwrite", self.some_rows())

    def upsert(self) -> None:
        known = sorted(self.random.sample(range(self.next_id), min(self.next_id, 5)))
        found = self.theirs.scan(row_filter=f"id in ({', '.join(map(str, known or [0]))})").to_arrow()
        same = found.slice(0, len(found) // 2)  # rows that are as they were
        taken = set(same["id"].to_pylist())
        changed = self.some_rows([one for one in known if one not in taken])
        rows = pa.concat_tables([same.cast(ARROW), changed, self.some_rows()])
        # PyIceberg takes NaN for another value than NaN, and then rewrites the row to what it was.
        flags = self.random.choice([(True, True), (True, False), (False, True)])
        self.both("upsert", rows, ["id"], when_matched_update_all=flags[0], when_not_matched_insert_all=flags[1])

    def rename(self) -> None:
        """A column gets another name and its old one back: files do not care."""
        for table in (self.ours, self.theirs):
            with table.update_schema() as change:
                change.rename_column("note", "remark")
            with table.update_schema() as change:
                change.rename_column("remark", "note")

    def both(self, operation: str, *arguments: Any, **named: Any) -> None:
        self.last = f"{operation} {[one for one in arguments if not isinstance(one, pa.Table)]} {named}"
        for table in (self.ours, self.theirs):
            getattr(table, operation)(*arguments, **named)


def run(folder: Path, variant: str, seed: int, steps: int) -> None:
    spec, properties = VARIANTS[variant]
    with tables.sealed_catalog(folder) as sealed, tables.plain_catalog(folder) as plain:
        both = Both(tables.make(sealed, SCHEMA, spec, **properties), tables.make_plain(plain, SCHEMA, spec), seed)
        told = []
        for _ in range(steps):
            told.append(both.step())
            assert tables.rows(both.ours) == tables.rows(both.theirs), told
            row_filter = both.some_filter()
            found = tables.rows(both.ours, row_filter=row_filter)
            assert found == tables.in_order(both.matching(row_filter).to_pylist()), (told, row_filter)
            assert both.ours.scan(row_filter=row_filter).count() == len(found)
        tables.check_lineage(both.ours)
        again = sealed.load_table(both.ours.name())
        assert tables.rows(again) == tables.rows(both.theirs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_operations_leave_the_rows_that_pyiceberg_leaves(variant: str, tmp_path: Path) -> None:
    run(tmp_path, variant, seed=len(variant), steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_many_random_operations_leave_the_rows_that_pyiceberg_leaves(variant: str, tmp_path: Path) -> None:
    run(tmp_path, variant, seed=1, steps=16)
