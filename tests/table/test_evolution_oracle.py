"""Columns and partition fields come, go, change names and types between random changes of rows, which stay the same.

The model is a list of rows by field id, so that a column that comes back under an old name is another column.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import uuid
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
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
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from kit.tables.tables import sealed_catalog
from sealberg.jobs import compact, expire, rekey, rewrite_manifests, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records"),
]
ex: Any = expressions  # its constructors take names and values, which mypy does not know
Row = dict[int, Any]
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "int": (IntegerType(), [-5, 0, 1, 2**31 - 1]),
    "long": (LongType(), [-5, 0, 1, 2**40]),
    "float": (FloatType(), [-2.5, 0.0, 1.5, math.nan, math.inf]),
    "double": (DoubleType(), [-2.5, 0.0, 1e300, math.nan, -math.inf]),
    "decimal": (DecimalType(9, 2), [Decimal("-3.00"), Decimal("0.01"), Decimal("7.50")]),
    "string": (StringType(), ["", "a", "ab", "ü" * 20]),
    "binary": (BinaryType(), [b"", b"a", b"\xff" * 20]),
    "fixed": (FixedType(4), [b"abcd", bytes(4)]),
    "uuid": (UUIDType(), [uuid.UUID(int=number).bytes for number in (0, 1, 2**127)]),
    "bool": (BooleanType(), [True, False]),
    "date": (DateType(), [dt.date(1969, 12, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "time": (TimeType(), [dt.time(0), dt.time(16, 42, 0, 7)]),
    "timestamp": (TimestampType(), [EPOCH - timedelta(hours=30), EPOCH, EPOCH + timedelta(days=400, seconds=7)]),
    "timestamptz": (TimestamptzType(), [(EPOCH + timedelta(hours=hour)).replace(tzinfo=dt.UTC) for hour in (-9, 5)]),
}
WIDER = {"int": ("long", LongType()), "float": ("double", DoubleType()), "decimal": ("decimal", DecimalType(18, 2))}
TIMES = ("date", "timestamp", "timestamptz")
NAMES = ("x", "y", "z")
COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    ex.EqualTo: operator.eq,
    ex.NotEqualTo: operator.ne,
    ex.LessThan: operator.lt,
    ex.LessThanOrEqual: operator.le,
    ex.GreaterThan: operator.gt,
    ex.GreaterThanOrEqual: operator.ge,
}
KEY = 1  # the field id of the column `k`, which every row has


class Evolving:
    """The table, the rows that it must have, and a source of chance."""

    def __init__(self, catalog: Any, seed: int) -> None:
        self.chance = random.Random(seed)
        self.catalog = catalog
        modes = {
            f"write.{act}.mode": self.chance.choice(["copy-on-write", "merge-on-read"]) for act in ("delete", "update")
        }
        properties = {
            "encryption.key-id": "hr",
            "write.format.default": self.chance.choice(["parquet", "avro"]),
            "commit.manifest.min-count-to-merge": self.chance.choice(["2", "5"]),
            **modes,
        }
        self.table = catalog.create_table("hr.t", Schema(NestedField(KEY, "k", LongType())), properties=properties)
        self.kinds = {KEY: "long"}
        self.rows: list[Row] = []
        self.keys = 0
        self.log: list[str] = []

    # -- rows ----------------------------------------------------------------------------------

    def append(self) -> None:
        made = [self._row() for _ in range(self.chance.randint(1, 6))]
        self.table.append(self._arrow(made))
        self.rows += made

    def delete(self) -> None:
        row_filter, matches = self._filter()
        self.table.delete(row_filter)
        self.rows = [row for row in self.rows if not matches(row)]

    def overwrite(self) -> None:
        row_filter, matches = self._filter()
        made = [self._row()]
        self.table.overwrite(self._arrow(made), overwrite_filter=row_filter)
        self.rows = [row for row in self.rows if not matches(row)] + made

    def upsert(self) -> None:
        old = self.chance.sample(self.rows, min(3, len(self.rows)))
        made = [self._row(), *(self._row(row[KEY]) for row in old)]
        self.table.upsert(self._arrow(made), join_cols=["k"])
        replaced = {row[KEY] for row in made}
        self.rows = [row for row in self.rows if row[KEY] not in replaced] + made

    def _row(self, key: int | None = None) -> Row:
        if key is None:
            key, self.keys = self.keys, self.keys + 1
        drawn = {field_id: self.chance.choice([None, *KINDS[kind][1]]) for field_id, _, kind in self._columns()}
        return {**drawn, KEY: key}

    def _arrow(self, rows: list[Row]) -> pa.Table:
        schema = self.table.schema()
        fields = zip(schema.fields, schema.as_arrow(), strict=True)
        columns = [pa.array([row.get(field.field_id) for row in rows], arrow.type) for field, arrow in fields]
        return pa.Table.from_arrays(columns, schema=schema.as_arrow())

    # -- columns and partition fields --------------------------------------------------------------

    def add_column(self) -> None:
        name, kind = self.chance.choice(NAMES), self.chance.choice(list(KINDS))
        if name not in self._names():
            with self._may_clash(), self.table.update_schema() as change:
                change.add_column(name, KINDS[kind][0])
        if name in self._names():
            self.kinds.setdefault(self.table.schema().find_field(name).field_id, kind)

    def drop_column(self) -> None:
        used = {field.source_id for field in self.table.spec().fields} | {KEY}
        self._change(
            [each for each in self._columns() if each[0] not in used], lambda change, name: change.delete_column(name)
        )

    def rename_column(self) -> None:
        free = [name for name in NAMES if name not in self._names()]
        if free:
            new = self.chance.choice(free)
            columns = [each for each in self._columns() if each[0] != KEY]
            self._change(columns, lambda change, name: change.rename_column(name, new))

    def widen_column(self) -> None:
        columns = [each for each in self._columns() if each[2] in WIDER]
        for field_id, _, kind in self._change(
            columns, lambda change, name: change.update_column(name, WIDER[self._kind(name)][1])
        ):
            self.kinds[field_id] = WIDER[kind][0]

    def add_partition_field(self) -> None:
        _, name, kind = self.chance.choice(self._columns())
        able: list[Any] = [IdentityTransform(), BucketTransform(4), TruncateTransform(2)]
        able += [YearTransform(), MonthTransform(), DayTransform(), HourTransform()] if kind in TIMES else []
        transform = self.chance.choice([each for each in able if each.can_transform(KINDS[kind][0])])
        with self._may_clash(), self.table.update_spec() as change:
            change.add_field(name, transform, self.chance.choice([None, "p"]))

    def remove_partition_field(self) -> None:
        if self.table.spec().fields:
            with self.table.update_spec() as change:
                change.remove_field(self.chance.choice(self.table.spec().fields).name)

    def _change(self, columns: list[tuple[int, str, str]], act: Any) -> list[tuple[int, str, str]]:
        """Change one of these columns; returns it."""
        if not columns:
            return []
        chosen = self.chance.choice(columns)
        with self._may_clash(), self.table.update_schema() as change:
            act(change, chosen[1])
        return [chosen]

    @staticmethod
    def _may_clash() -> Any:
        """Names that a partition field has, and fields that are there already, are refused, as in Java."""
        return _Refused("Cannot create", "Cannot add", "uplicate", "Already added", "conflicts", "has to be unique")

    def _columns(self) -> list[tuple[int, str, str]]:
        return [(field.field_id, field.name, self.kinds[field.field_id]) for field in self.table.schema().fields]

    def _names(self) -> set[str]:
        return {field.name for field in self.table.schema().fields}

    def _kind(self, name: str) -> str:
        return self.kinds[self.table.schema().find_field(name).field_id]

    # -- jobs ----------------------------------------------------------------------------------

    def compact(self) -> None:
        compact.plan("hr.t", catalog=self.catalog, options={"rewrite-all": "true"}).execute()

    def rewrite_manifests(self) -> None:
        rewrite_manifests.plan("hr.t", catalog=self.catalog).execute()

    def rekey(self) -> None:
        rekey.plan("hr.t", catalog=self.catalog).execute()

    def expire(self) -> None:
        expire.plan("hr.t", catalog=self.catalog, older_than=timedelta(0), retain_last=2).execute()

    # -- the same rows ---------------------------------------------------------------------------

    def step(self) -> None:
        act = self.chance.choices(ACTS, WEIGHTS)[0]
        self.log.append(act.__name__)
        act(self)
        self.table = self.catalog.load_table("hr.t")
        assert self._found() == self._expected(lambda _: True), self.log
        for _ in range(2):
            row_filter, matches = self._filter()
            assert self._found(row_filter=row_filter) == self._expected(matches), (self.log, row_filter)
        assert self.table.scan().count() == len(self.rows)
        counted = self.table.inspect.partitions()["record_count"].to_pylist()
        assert sum(counted) >= len(self.rows), "rows of deletion vectors are counted"
        assert self.table.inspect.files().num_rows <= self.table.inspect.entries().num_rows

    def _filter(self) -> tuple[Any, Callable[[Row], bool]]:
        """A filter, and whether a row of the model matches it."""
        chance = self.chance.random()
        if chance > 0.3:
            return self._predicate()
        (left, is_left), (right, is_right) = self._predicate(), self._predicate()
        if chance < 0.15:
            return ex.And(left, right), lambda row: is_left(row) and is_right(row)
        return ex.Or(left, right), lambda row: is_left(row) or is_right(row)

    def _predicate(self) -> tuple[Any, Callable[[Row], bool]]:
        """Null matches no comparison and no NOT of one; null and NaN match NOT IN, as in Arrow."""
        field_id, name, kind = self.chance.choice(self._columns())
        value = self.chance.choice(KINDS[kind][1])
        if _is_nan(value):
            if self.chance.random() < 0.5:
                return ex.NotNaN(name), lambda row: row.get(field_id) is not None and not _is_nan(row[field_id])
            return ex.IsNaN(name), lambda row: _is_nan(row.get(field_id))
        chance = self.chance.random()
        if chance < 0.1:
            return ex.IsNull(name), lambda row: row.get(field_id) is None
        if chance < 0.2:
            return ex.Not(ex.IsNull(name)), lambda row: row.get(field_id) is not None
        if chance < 0.4:
            values = [each for each in KINDS[kind][1] if not _is_nan(each) and self.chance.random() < 0.5]
            if chance < 0.3:
                return ex.In(name, _literals(kind, values)), lambda row: row.get(field_id) in values
            hidden = [None, *values] if len(values) == 1 else values  # NOT IN of one value is !=
            return ex.NotIn(name, _literals(kind, values)), lambda row: row.get(field_id) not in hidden
        ordered = kind not in ("bool", "uuid", "fixed", "binary")
        comparison = self.chance.choice(list(COMPARISONS) if ordered else [ex.EqualTo, ex.NotEqualTo])
        holds = COMPARISONS[comparison]
        made = comparison(name, *_literals(kind, [value]))
        if self.chance.random() < 0.2:
            made, holds = ex.Not(made), COMPARISONS[type(~made)]
        return made, lambda row: row.get(field_id) is not None and holds(row[field_id], value)

    def _found(self, **scan: Any) -> list[str]:
        return sorted(_text(row.values()) for row in self.table.scan(**scan).to_arrow().to_pylist())

    def _expected(self, matches: Callable[[Row], bool]) -> list[str]:
        fields = [field.field_id for field in self.table.schema().fields]
        return sorted(_text(row.get(field_id) for field_id in fields) for row in self.rows if matches(row))


ACTS: list[Callable[[Evolving], None]] = [
    Evolving.append,
    Evolving.delete,
    Evolving.overwrite,
    Evolving.upsert,
    Evolving.add_column,
    Evolving.drop_column,
    Evolving.rename_column,
    Evolving.widen_column,
    Evolving.add_partition_field,
    Evolving.remove_partition_field,
    Evolving.compact,
    Evolving.rewrite_manifests,
    Evolving.rekey,
    Evolving.expire,
]
WEIGHTS = [10, 4, 3, 4, 6, 3, 2, 2, 6, 3, 1, 2, 1, 1]


class _Refused:
    """Lets errors with one of these words pass."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, ValueError) and any(word in str(error) for word in self._words)


def _literals(kind: str, values: list[Any]) -> list[Any]:
    if kind == "uuid":
        return [uuid.UUID(bytes=each) for each in values]
    return [each.isoformat() if isinstance(each, dt.date | dt.time) else each for each in values]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _text(values: Any) -> str:
    return repr([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.bytes
    # Arrow's UTC is a ZoneInfo, Python's is not.
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


@pytest.mark.parametrize("seed", range(8))
def test_rows_stay_the_same_while_columns_and_partitions_change(tmp_path: Path, seed: int) -> None:
    with sealed_catalog(tmp_path) as catalog:
        evolving = Evolving(catalog, seed)
        evolving.append()
        for _ in range(25):
            evolving.step()
        found = verify.plan("hr.t", catalog=catalog, level="deep").execute().findings
        assert [each for each in found if each.severity == "error"] == []
