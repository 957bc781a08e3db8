"""Every type that Spark can hold goes in and comes out, in Parquet and in Avro; the others are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, parse_transform
from pyiceberg.types import (
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)

from kit.tables.small_tables import SmallTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit

PLAIN = """flag boolean, i int, l bigint NOT NULL, f float, d double, s string, b binary, day date, at timestamp,
    local timestamp_ntz, small decimal(9,2), large decimal(38,10), list array<string>, nested array<array<int>>,
    m map<string,int>, n map<int,struct<a:int,b:string>>, r struct<x:int,y:struct<z:string,w:array<double>>>"""
NULLS = ", ".join(["null"] * 14)
ROWS = f"""SELECT id % 2 = 0, cast(id as int), id, cast(id / 3 as float), if(id = 3, double('NaN'), id / 7),
    concat('ß', id), cast(concat('b', id) as binary), date'1969-12-30' + cast(id as int),
    timestamp'2021-03-01 12:00:00.000001' + make_interval(0, 0, 0, 0, cast(id as int)),
    timestamp_ntz'1960-03-01 00:00:00.5', cast(-id / 4 as decimal(9,2)),
    cast(concat('12345678901234567.', id) as decimal(38,10)), array('a', null, concat('t', id)),
    array(array(1, null), null),
    map('k', cast(id as int), 'z', null), map(1, named_struct('a', 1, 'b', null), 2, null),
    named_struct('x', null, 'y', named_struct('z', 'deep', 'w', array(1.5d, null))) FROM range(20)
    UNION ALL SELECT null, null, -1, {NULLS}"""
SPECIAL = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "u", UUIDType()),
    NestedField(3, "f", FixedType(3)),
    NestedField(4, "t", TimeType()),
    NestedField(5, "s", StructType(NestedField(6, "u", UUIDType()), NestedField(7, "f", FixedType(2)))),
    NestedField(8, "l", ListType(9, UUIDType(), element_required=False)),
    NestedField(10, "m", MapType(11, StringType(), 12, TimeType(), value_required=False)),
)
ONE, OTHER = "f79c3e09-677c-4bbd-a479-3f349cb785e7", "0012ffff-0000-4bbd-a479-3f349cb785e7"


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_every_plain_type_goes_in_and_comes_out(kit: SparkKit, form: str) -> None:
    name = kit.fresh()
    keyed = f"TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.format.default' = '{form}')"
    kit.sql(f"CREATE TABLE {name} ({PLAIN}) PARTITIONED BY (bucket(2, l)) {keyed}")
    kit.sql(f"INSERT INTO {name} {ROWS}")
    assert {path.suffix for path in kit.data_files(name)} == {f".{form}"}
    assert {path.read_bytes()[:4] for path in kit.data_files(name)} == {b"PARE" if form == "parquet" else b"AGS1"}
    assert kit.agrees(name, columns="*, _file, _pos, _row_id, _last_updated_sequence_number") == 21
    names = [one.split()[0] for one in PLAIN.replace("\n", " ").split(", ")]
    kit.spark.sql(ROWS).toDF(*names).createOrReplaceTempView("given")
    everything = "array_sort(map_entries(m)) m, array_sort(map_entries(n)) n"
    query = f"SELECT * EXCEPT (m, n), {everything} FROM {{}}"
    assert repr(kit.sql(query.format(name))) == repr(kit.sql(query.format("given"))), "repr: NaN is not NaN"
    assert kit.sql(f"SELECT r.y.w[0], n[1].a FROM {name} WHERE l = 7") == [(1.5, 1)], "fields of structs by themselves"
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(21,)]
    kit.sql(f"UPDATE {name} SET s = 'changed' WHERE l = 7")
    kit.sql(f"DELETE FROM {name} WHERE l = 8")
    assert kit.agrees(name) == 20
    assert kit.sql(f"SELECT l, _last_updated_sequence_number FROM {name} WHERE s = 'changed'") == [(7, 2)]


@pytest.fixture
def times(kit: SparkKit) -> Iterator[None]:
    """Spark 4.1 reads and writes times, and compares and casts them if it is told to."""
    kit.spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    kit.spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("transform", [None, IdentityTransform(), BucketTransform(4)])
def test_uuid_fixed_and_time(kit: SparkKit, form: str, transform: Any) -> None:
    name = kit.fresh()
    spec = PartitionSpec(PartitionField(2, 1000, transform, "part")) if transform else PartitionSpec()
    properties = {"encryption.key-id": "hr", "format-version": "3", "write.format.default": form}
    kit.catalog.create_table(name.removeprefix("prod."), SPECIAL, partition_spec=spec, properties=properties)
    kit.sql(
        f"""INSERT INTO {name} VALUES (1, '{ONE}', X'010203', time'01:02:03.000004', named_struct('u', '{OTHER}',
        'f', X'0102'), array('{ONE}', null), map('a', time'23:59:59.999999')), (2, '{OTHER}', X'000000', null,
        named_struct('u', null, 'f', null), array(), map('a', null)), (3, null, null, null, null, null, null)"""
    )
    assert kit.agrees(name) == 3
    assert kit.sql(f"SELECT u, s.u FROM {name}") == [(OTHER, None), (ONE, OTHER), (None, None)]
    for where, expected in {
        f"u = '{ONE}'": [(1,)],
        f"u = '{ONE.upper()}'": [],
        f"u <> '{ONE.upper()}'": [(1,), (2,)],
        f"u > '{OTHER}'": [(1,)],
        f"u IN ('{OTHER}', 'x')": [(2,)],
        "u LIKE 'f79c%'": [(1,)],
        "u IS NULL": [(3,)],
        f"s.u = '{OTHER}'": [(1,)],
        "f = X'010203'": [(1,)],
        "t < time'01:02:04'": [(1,)],
    }.items():
        assert kit.sql(f"SELECT id FROM {name} WHERE {where}") == expected, where
    source = kit.table(name).scan(selected_fields=("u", "_file")).to_arrow().to_pylist()
    partitions = {str(task.file.file_path): task.file.partition for task in kit.table(name).scan().plan_files()}
    for row in source if transform else []:
        value = row["u"].bytes if row["u"] is not None else None
        assert partitions[row["_file"]][0] == parse_transform(str(transform)).transform(UUIDType())(value)
    bad = {
        "VALUES (1, 'f79c', null, null, null, null, null)": "(u|of a partition): found a string that is not a UUID",
        "VALUES (1, null, X'0102', null, null, null, null)": r"column f: .*fixed\[3\]",
    }
    for rows, text in bad.items():
        with pytest.raises(Exception, match=text):
            kit.sql(f"INSERT INTO {name} {rows}")


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_defaults_inside_structs_fill_older_files(kit: SparkKit, tmp_path: Path, form: str) -> None:
    before = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "s", StructType(NestedField(3, "a", IntegerType()))),
        NestedField(4, "l", ListType(5, StructType(NestedField(6, "a", IntegerType())), element_required=False)),
    )
    new = NestedField(7, "b", IntegerType(), initial_default=42, write_default=43)
    text = NestedField(8, "c", StringType(), required=True, initial_default="it's", write_default="x")
    after = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "s", StructType(NestedField(3, "a", IntegerType()), new, text)),
        NestedField(
            4,
            "l",
            ListType(
                5,
                StructType(NestedField(6, "a", IntegerType()), new.model_copy(update={"field_id": 9})),
                element_required=False,
            ),
        ),
        NestedField(10, "u", UUIDType(), initial_default=ONE),
        NestedField(11, "t", TimeType(), initial_default=1_000_001),
    )
    small = SmallTable(tmp_path, before, after)
    make = small.parquet if form == "parquet" else small.avro
    small.snapshot(make([{"id": 1, "s": {"a": 1}, "l": [{"a": 2}, None]}, {"id": 2, "s": None, "l": None}], before))
    small.snapshot(make([{"id": 3, "s": {"a": 1, "b": None, "c": "c"}, "l": [{"a": 1, "b": 2}]}], after))
    name = kit.fresh("d")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    assert kit.agrees(name) == 3
    assert kit.sql(f"SELECT id, s.b, s.c, l[0].b FROM {name}") == [
        (1, 42, "it's", 42),
        (2, None, None, None),
        (3, None, "c", 2),
    ]
    assert kit.sql(f"SELECT id FROM {name} WHERE s.b = 42") == [(1,)]
    assert kit.sql(f"SELECT id FROM {name} WHERE u = '{ONE}'") == [(1,), (2,)]


@pytest.mark.parametrize("kind", [TimestampNanoType(), TimestamptzNanoType()])
def test_types_that_spark_has_not_are_refused_by_name(kit: SparkKit, kind: IcebergType) -> None:
    """Spark's timestamps end at microseconds, and nothing may be lost in silence."""
    name = kit.fresh()
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StructType(NestedField(3, "fine", kind))))
    properties = {"encryption.key-id": "hr", "format-version": "3"}
    kit.catalog.create_table(name.removeprefix("prod."), schema, properties=properties)
    with pytest.raises(Exception, match=rf"column s\.fine is a {kind}, which Spark has no type for") as caught:
        kit.sql(f"SELECT id FROM {name}")
    assert type(caught.value).__name__ == "AnalysisException"


def test_avro_files_are_for_encrypted_tables(kit: SparkKit) -> None:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('write.format.default' = 'avro')")
    with pytest.raises(Exception, match="Avro data files are written for encrypted tables only"):
        kit.sql(f"INSERT INTO {name} VALUES (1)")
    with pytest.raises(Exception, match="data files are Parquet or Avro; ORC cannot be written"):
        kit.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default' = 'orc')")
