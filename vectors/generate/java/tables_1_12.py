"""The tables of Iceberg Java 1.12.0. The first eight are those of java-1.12-tables.tar.gz, the others came later."""

from __future__ import annotations

from typing import Any, Final

from vectors.generate.java.steps import (
    Recipe,
    add_column,
    append,
    at_snapshot,
    create,
    create_by_api,
    delete_equal,
    new_default,
)

MERGE_ON_READ: Final = {f"write_{verb}_mode": "merge-on-read" for verb in ("delete", "update", "merge")}
PLAIN: Final = "id bigint, data string, f float"
TYPES: Final = (
    "id int not null, b boolean, i int, l bigint, f float, d double, d9 decimal(9,2), d20 decimal(20,5), "
    "d38 decimal(38,10), dt date, ts timestamp, tsn timestamp_ntz, s string, bin binary, "
    "st struct<a: int, b: struct<c: string, d: array<int>>>, li array<struct<x: int, y: string>>, "
    "m map<string, bigint>, mm map<int, struct<p: date, q: array<string>>>"
)
EXTREMES: Final = """insert into {t} values
 (1, true, -2147483648, -9223372036854775808, 1.1, 2.2, -1234567.89, cast('-123456789012345.12345' as decimal(20,5)),
  cast('-1234567890123456789012345678.0123456789' as decimal(38,10)), date'1582-10-15',
  timestamp'1969-12-31 23:59:59.999999', timestamp_ntz'2024-02-29 12:34:56.123456', 'söme', X'00ff10',
  named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1, null, 3))),
  array(named_struct('x', 1, 'y', 'one'), null, named_struct('x', null, 'y', 'two')), map('k1', 1L, 'k2', null),
  map(1, named_struct('p', date'2020-01-01', 'q', array('a', 'b')))),
 (2, false, 2147483647, 9223372036854775807, float('NaN'), double('-Infinity'), 9999999.99,
  cast('999999999999999.99999' as decimal(20,5)), cast('9999999999999999999999999999.9999999999' as decimal(38,10)),
  date'9999-12-31', timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'0001-01-01 00:00:00', '', X'',
  named_struct('a', null, 'b', null), array(), map(), map())"""
MANY: Final = """insert into {t} select cast(id as int) + 10, id % 2 = 0, cast(id as int), id * 1000000007,
  cast(id as float) / 3, id / 7.0D, cast(id as decimal(9,2)) / 4, cast(id as decimal(20,5)) / 8,
  cast(id as decimal(38,10)) / 16, date_add(date'1970-01-01', cast(id as int) - 50),
  timestamp_micros(id * 86399999999 - 1),
  cast(timestamp_micros(id * 123456789012) as timestamp_ntz), concat('s', id), encode(concat('b', id), 'utf-8'),
  named_struct('a', cast(id as int), 'b', named_struct('c', concat('c', id), 'd', array(cast(id as int)))),
  array(named_struct('x', cast(id as int), 'y', concat('y', id))), map(concat('k', id % 3), id),
  map(cast(id as int), named_struct('p', date'2024-01-01', 'q', array(concat('q', id)))) from range(0, 100, 1, 1)"""
RARE: Final = [
    ("id", "long"), ("u", "uuid"), ("x4", "fixed[4]"), ("t", "time"), ("d", "decimal(21, 3)"), ("bin", "binary"),
]  # fmt: skip
RARE_ROWS: Final[list[list[Any]]] = [
    [1, "f79c3e09-677c-4bbd-a479-3f349cb785e7", "00010aff", "00:00:00", "-1.500", "00ff"],
    [2, "00000000-0000-0000-0000-000000000000", "ffffffff", "23:59:59.999999", "123456789012345678.999", ""],
    [3, None, None, None, None, None],
]


def _span(start: int, stop: int) -> str:
    return "insert into {t} select id, concat('d', id), cast(id as float) / 2 " + f"from range({start}, {stop}, 1, 1)"


def _procedure(name: str, more: str = "") -> str:
    return f"call h.system.{name}(table => '{{n}}'{more})"


FIRST: Final = (
    Recipe(
        "basic128", "three appends, nulls and NaN, 16-byte keys", ["append-only", "parquet"],
        [
            create(PLAIN),
            "insert into {t} values (1,'a',1.5),(2,'b',float('NaN')),(3,null,null)",
            "insert into {t} values (4,'d',float('Infinity')),(5,'e',-0.0),(6,'ünïcødé ☃ 𝄞',3.25)",
            "insert into {t} values (7,'',float('-Infinity')),(-9223372036854775808,'min',1e-38),"
            "(9223372036854775807,'max',3.4e38)",
        ],
    ),
    Recipe(
        "key256", "32-byte keys, with a deletion vector", ["parquet", "deletion-vectors"],
        [
            create(PLAIN, encryption_data__key__length="32", write_delete_mode="merge-on-read"),
            "insert into {t} values (1,'a',1.5),(2,'b',float('NaN')),(3,'c',null)",
            "insert into {t} values (4,'d',1)",
            "delete from {t} where id = 3",
        ],
    ),
    Recipe(
        "alltypes", "boolean to decimal(38,10), dates, timestamps, binary, struct, list, map",
        ["append-only", "parquet", "nested"],
        [create(TYPES), EXTREMES, "insert into {t} (id) values (3)", MANY],
    ),
    Recipe(
        "partitioned", "days, bucket, truncate, identity; the partition spec changes between appends",
        ["parquet", "partitioned"],
        [
            create(
                "id bigint, ts timestamp, name string, cat string",
                partitioned="days(ts), bucket(4, id), truncate(2, name), cat", write_distribution__mode="hash",
            ),
            *(
                "insert into {t} select id, "
                "timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, cast(id % 2 as int)), "
                "concat(substr('aabbcc', cast((id % 3) * 2 + 1 as int), 2), '-', id), "
                f"case when id % 5 = 0 then null else concat('c', id % 2) end from range({i}, {i + 6}, 1, 1)"
                for i in (0, 6, 12)
            ),
            "alter table {t} drop partition field cat",
            "alter table {t} drop partition field truncate(2, name)",
            "alter table {t} replace partition field days(ts) with months(ts)",
            "alter table {t} add partition field bucket(3, name) as nb",
            *(
                "insert into {t} select id, "
                "timestamp'2024-03-01 00:00:00' + make_interval(0, 0, 0, cast(id * 9 as int)), "
                f"concat('zz-', id), null from range({i}, {i + 6}, 1, 1)"
                for i in (18, 24)
            ),
            "delete from {t} where cat = 'c1' and id < 4",
        ],
    ),
    Recipe(
        "mor_deletes",
        "merge-on-read DELETE, UPDATE, MERGE: several deletion vectors in one Puffin file, one replaced later",
        ["parquet", "deletion-vectors"],
        [
            create("id bigint, data string, f float, p int", **MERGE_ON_READ, write_distribution__mode="none"),
            *(
                "insert into {t} select id, concat('d', id), cast(id as float) / 2, cast(id % 4 as int) "
                f"from range({i}, {i + 200}, 1, 2)"
                for i in (0, 200, 400)
            ),
            "delete from {t} where id % 10 = 3",
            "delete from {t} where id % 10 = 4 and id < 200",
            "update {t} set data = concat(data, '-upd'), f = null where id % 50 = 7",
            "merge into {t} t using (select id, concat('merged', id) as data, float('NaN') f, 9 p "
            "from range(590, 610, 1, 1)) s on t.id = s.id when matched and t.id % 2 = 0 then delete "
            "when matched then update set * when not matched then insert *",
            "delete from {t} where p = 1",
            "insert into {t} values (10000, 'last', 0.5, 0)",
        ],
    ),
    Recipe(
        "avro", "Avro data files of two AGS1 blocks, with deletes", ["avro", "deletion-vectors"],
        [
            create("id bigint, data string, r binary", **MERGE_ON_READ, write_format_default="avro",
                   write_avro_compression__codec="uncompressed"),
            "insert into {t} values (-1,'small',X'00'),(-2,null,null)",
            "insert into {t} select id, concat('row-', id), "
            "encode(repeat(concat('x', lpad(id, 7, '0')), 125), 'utf-8') from range(0, 1100, 1, 1)",
            "delete from {t} where id % 100 = 7",
            "update {t} set data = 'updated' where id in (-1, 1099)",
        ],
    ),
    Recipe(
        "rotated", "two KEKs; the first was made 800 days old", ["parquet", "several-keks"],
        [
            create("id bigint, data string"),
            append([[1, "old-kek-1"], [2, "old-kek-2"]], days=-800),
            append([[3, "old-kek-3"]], days=-800),
            "insert into {t} values (10, 'new-kek-10'), (11, 'new-kek-11')",
            "delete from {t} where id = 2",
            "insert into {t} values (12, 'new-kek-12')",
        ],
    ),
    Recipe(
        "gzmeta", "gzip-compressed metadata.json, odd characters in a property", ["append-only", "parquet"],
        [
            create(PLAIN, write_metadata_compression__codec="gzip", comment='sl/ash "quote" ü <&> tab'),
            "insert into {t} values (1,'a',1.5),(2,'b',2.5)",
            "insert into {t} values (3,'c',null)",
        ],
    ),
)  # fmt: skip
MORE: Final = (
    Recipe(
        "key192", "24-byte keys", ["append-only", "parquet"],
        [create(PLAIN, encryption_data__key__length="24"), _span(0, 3), _span(3, 5)],
    ),
    Recipe(
        "under_key_b", "the master key is keyB", ["append-only", "parquet"],
        [create(PLAIN, key="keyB"), _span(0, 3)],
    ),
    Recipe(
        "key_length_changed", "16-byte keys, then 32-byte keys under the same 16-byte KEK", ["append-only", "parquet"],
        [
            create(PLAIN), _span(0, 3), "alter table {t} set tblproperties('encryption.data-key-length'='32')",
            _span(3, 6),
        ],
    ),
    Recipe(
        "three_keks", "three KEKs, made 1600 and 800 days ago and now", ["append-only", "parquet", "several-keks"],
        [
            create("id bigint, data string"),
            append([[1, "a"]], days=-1600), append([[2, "b"]], days=-800), "insert into {t} values (3, 'c')",
        ],
    ),
    Recipe("empty", "a table without a snapshot", ["append-only", "parquet"], [create(PLAIN)]),
    Recipe(
        "no_rows", "a snapshot of no rows, then one of some", ["append-only", "parquet"],
        [create(PLAIN), "insert into {t} select * from {t}", _span(0, 2)],
    ),
    Recipe(
        "alltypes_avro", "all types in Avro data files", ["append-only", "avro", "nested"],
        [create(TYPES, write_format_default="avro"), EXTREMES, "insert into {t} (id) values (3)", MANY],
    ),
    *(
        Recipe(
            f"rare_types{'' if kind == 'parquet' else '_' + kind}", f"uuid, fixed, time, decimal and binary in {kind}",
            ["append-only", kind, "uuid", "fixed", "time"],
            [create_by_api(RARE), append(RARE_ROWS[:2], file_format=kind), append(RARE_ROWS[2:], file_format=kind)],
            generic=True,
        )
        for kind in ("parquet", "avro")
    ),
    Recipe(
        "transforms", "years, months, days, hours, bucket, truncate and identity of many types; nulls in all of them",
        ["append-only", "parquet", "partitioned"],
        [
            create(
                "id int, l bigint, s string, bin binary, dec decimal(9,2), dt date, ts timestamp, tsn timestamp_ntz, "
                "b boolean",
                partitioned="bucket(2, id), truncate(10, l), truncate(3, s), bucket(2, bin), truncate(100, dec), "
                "years(dt), months(ts), hours(tsn), b",
                write_distribution__mode="none", write_spark_fanout_enabled="true",
            ),
            "insert into {t} values (1, -15, 'ünïcødé', X'00ff', -1.05, date'1969-12-31', "
            "timestamp'1969-12-31 23:00:00', "
            "timestamp_ntz'1969-12-31 23:59:59.999999', true), (2, 15, '', X'', 99.99, date'2024-02-29', "
            "timestamp'2024-02-29 12:00:00', timestamp_ntz'2024-02-29 12:34:56', false), "
            "(3, null, null, null, null, null, null, null, null)",
            "alter table {t} add partition field days(dt)",
            "alter table {t} drop partition field b",
            "insert into {t} values (4, 20, 'abcd', X'01', 0.00, date'1970-01-01', timestamp'1970-01-01 00:00:00', "
            "timestamp_ntz'1970-01-01 00:00:00', true)",
        ],
    ),
    Recipe(
        "void_partition", "partitioned by void(id) and data", ["append-only", "parquet", "partitioned"],
        [
            create_by_api([("id", "long"), ("data", "string")], voids=True),
            append([[1, "a"], [2, "b"], [3, "a"], [4, None]]),
        ],
    ),
    Recipe(
        "evolved", "columns added, renamed, widened, moved, dropped and added again",
        ["append-only", "parquet", "schema-evolution"],
        [
            create("id int, data string, f float, dec decimal(9,2), st struct<a: int>, li array<int>"),
            "insert into {t} values (1, 'a', 0.5, 1.25, named_struct('a', 1), array(1, 2))",
            "alter table {t} add columns (extra string, st.b bigint)",
            "insert into {t} values (2, 'b', 1.5, 2.25, named_struct('a', 2, 'b', 20), array(3), 'x')",
            "alter table {t} alter column id type bigint",
            "alter table {t} alter column f type double",
            "alter table {t} alter column dec type decimal(18,2)",
            "alter table {t} alter column li.element type bigint",
            "alter table {t} rename column f to g",
            "alter table {t} alter column g first",
            "alter table {t} drop column extra",
            "alter table {t} add column extra int after id",
            "insert into {t} values (0.1, 9223372036854775807, 3, 'c', 99.99, named_struct('a', null, 'b', 30), null)",
        ],
    ),
    Recipe(
        "defaults", "columns added with default values, one of which changed later",
        ["append-only", "parquet", "schema-evolution", "defaults"],
        [
            create("id bigint, data string"),
            append([[1, "before"], [2, None]]),
            add_column("n_int", "int", 42), add_column("n_str", "string", 'dé"f'), add_column("n_dbl", "double", 1e10),
            add_column("n_flt", "float", 0.1), add_column("n_dec", "decimal(9, 2)", "1.50"),
            add_column("n_day", "date", "2020-01-02"), add_column("n_bool", "boolean", False),
            add_column("n_bin", "binary", "00FF"), add_column("n_ts", "timestamptz", "2020-01-02T03:04:05.5+00:00"),
            append([[3, "after", 7, "s", 2.5, 0.25, "3.25", "2021-01-01", True, "01", "2021-01-01T00:00:00+00:00"]]),
            new_default("n_int", 43),
            append([[4, "with nulls", None, None, None, None, None, None, None, None, None]]),
        ],
    ),
    Recipe(
        "cow", "copy-on-write DELETE, UPDATE, MERGE, and INSERT OVERWRITE", ["parquet", "copy-on-write"],
        [
            create(PLAIN), _span(0, 10), _span(10, 20), "delete from {t} where id % 7 = 3",
            "update {t} set data = 'updated' where id in (1, 12)",
            "merge into {t} t using (select id from range(18, 23, 1, 1)) s on t.id = s.id "
            "when matched then update set f = 0 when not matched then insert (id, data) values (s.id, 'merged')",
            "insert overwrite {t} select id, data, f from {t} where id < 15",
        ],
    ),
    *(
        Recipe(
            f"equality_deletes{'' if kind == 'parquet' else '_' + kind}",
            f"equality deletes in {kind}, by one column and by two, of nulls too, some rows added again",
            [kind, "equality-deletes"],
            [
                create("id bigint, data string"),
                append([[1, "a"], [2, "b"], [3, None], [4, "d"]], file_format=kind),
                append([[1, "again"], [5, "e"]], file_format=kind),
                delete_equal(["id"], [[1], [4]], [[1, "anew"]], file_format=kind),
                delete_equal(["id", "data"], [[3, None], [5, "other"], [2, "b"]], file_format=kind),
            ],
        )
        for kind in ("parquet", "avro")
    ),
    Recipe(
        "refs", "branches, tags, rollback, cherry-pick and fast-forward", ["append-only", "parquet", "refs"],
        [
            create(PLAIN), _span(0, 3), _span(3, 6),
            at_snapshot("alter table {t} create tag v1 as of version {id} retain 36500 days", 0),
            "alter table {t} create branch dev",
            "insert into {t}.branch_dev values (100, 'dev', null)",
            _span(6, 9),
            at_snapshot("call h.system.rollback_to_snapshot('{n}', {id})", 1),
            "alter table {t} create branch other",
            "insert into {t}.branch_other values (200, 'other', 2.5)",
            "call h.system.fast_forward('{n}', 'main', 'other')",
            at_snapshot("call h.system.cherrypick_snapshot('{n}', {id})", 2),
        ],
    ),
    Recipe(
        "expired", "snapshots expired; their keys remain", ["append-only", "parquet", "expired"],
        [
            create(PLAIN), _span(0, 3), _span(3, 6), _span(6, 9), _span(9, 12),
            _procedure("expire_snapshots", ", older_than => timestamp '2100-01-01 00:00:00', retain_last => 2"),
        ],
    ),
    Recipe(
        "rewritten", "rewrite_data_files after deletion vectors, and rewrite_manifests",
        ["parquet", "deletion-vectors", "rewritten"],
        [
            create(PLAIN, **MERGE_ON_READ), _span(0, 20), _span(20, 40), "delete from {t} where id % 10 = 3",
            _procedure("rewrite_manifests"),
            _procedure("rewrite_data_files", ", options => map('rewrite-all', 'true')"),
            _span(40, 45), _procedure("rewrite_manifests"), "delete from {t} where id = 41",
        ],
    ),
    Recipe(
        "partitioned_deletes", "deletion vectors in partitions, Parquet and Avro data files in one table",
        ["parquet", "avro", "partitioned", "deletion-vectors"],
        [
            create("id bigint, data string, p int", partitioned="p", **MERGE_ON_READ),
            "insert into {t} select id, concat('d', id), cast(id % 3 as int) from range(0, 12, 1, 1)",
            "alter table {t} set tblproperties('write.format.default'='avro')",
            "insert into {t} select id, concat('d', id), cast(id % 3 as int) from range(12, 24, 1, 1)",
            "delete from {t} where id in (1, 2, 13, 14, 15)",
            "delete from {t} where id in (4, 16)",
            "update {t} set p = 9 where id = 17",
        ],
    ),
)  # fmt: skip
# Values of 27 kB: paths without them, manifests not compressed. Lists always are, so that one has random values.
HUGE: Final = {
    "write_manifest_compression__codec": "uncompressed", "write_object__storage_enabled": "true",
    "write_object__storage_partitioned__paths": "false", "write_distribution__mode": "none",
    "write_spark_fanout_enabled": "true",
}  # fmt: skip
LARGE: Final = (
    Recipe(
        "long_manifest", "a manifest of two AGS1 blocks", ["append-only", "parquet", "partitioned"],
        [
            create("id bigint, k string", partitioned="k", **HUGE),
            "insert into {t} select id, concat(lpad(id, 2, '0'), repeat('k', 27000)) from range(0, 40, 1, 1)",
        ],
    ),
    Recipe(
        "long_list", "a manifest list of two AGS1 blocks", ["append-only", "parquet", "partitioned", "rewritten"],
        [
            create("id bigint, k binary", partitioned="k", **HUGE),
            "insert into {t} select id, unhex(aggregate(sequence(1, 844), '', (made, i) -> "
            "concat(made, sha2(concat(id, '-', i), 256)))) from range(0, 40, 1, 1)",
            "alter table {t} set tblproperties('commit.manifest.target-size-bytes'='54000')",
            "call h.system.rewrite_manifests('{n}')",
            _procedure("expire_snapshots", ", older_than => timestamp '2100-01-01 00:00:00', retain_last => 1"),
        ],
    ),
)  # fmt: skip
RECIPES: Final = (*FIRST, *MORE, *LARGE)
