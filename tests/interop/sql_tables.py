"""Tables of every kind, as SQL makes them: the same statements for Iceberg Java and for us on Spark.

{t} is the table; `CREATE` and the like are the beginnings that many share.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = (
    "SELECT id, CASE WHEN id % 7 <> 3 THEN concat('d', id, 'é') END AS data, "
    "element_at(array('x', 'y', NULL, 'z/ ü'), CAST(1 + id % 4 AS int)) AS kind, "
    "timestampadd(HOUR, CAST(11 * id AS int), TIMESTAMP '1969-12-30 12:00:00.123456') AS at FROM range({}, {})"
)
IN_PLACE: Final = (
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read'"
)


def create(partitions: str = "", properties: str = "", columns: str = "") -> str:
    columns = columns or "id bigint, data string, kind string, at timestamp"
    by = f"PARTITIONED BY ({partitions})" if partitions else ""
    more = f", {properties}" if properties else ""
    return (
        f"CREATE TABLE {{t}} ({columns}) USING iceberg {by} "
        f"TBLPROPERTIES ('format-version' = '3', 'encryption.key-id' = 'keyA'{more})"
    )


def insert(start: int, stop: int) -> str:
    return f"INSERT INTO {{t}} {ROWS.format(start, stop)}"


def merge(first: int) -> str:
    return (
        f"MERGE INTO {{t}} AS t USING ({ROWS.format(first, first + 4)}) AS s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET data = 'merged' "
        "WHEN NOT MATCHED THEN INSERT *"
    )


CHANGES: Final = (
    "DELETE FROM {t} WHERE id = 3",
    "UPDATE {t} SET data = 'new' WHERE id IN (5, 12)",
    merge(8),
    "DELETE FROM {t} WHERE id = 4",
)
TYPES: Final = (
    "id bigint NOT NULL, data string COMMENT 'a \"doc\" é', b boolean, i int, f float, d double, small decimal(9,2), "
    "middle decimal(18,6), large decimal(38,10), day date, at timestamp, ts timestamp_ntz, bin binary"
)
TYPED: Final = (
    "INSERT INTO {t} SELECT id, IF(id % 4 = 1, NULL, concat('é€😀', id)), id % 2 = 0, CAST(id * 1000 - 5000 AS int), "
    "element_at(array(float('1.5'), float('NaN'), float('inf'), float('-0.0')), CAST(1 + id % 4 AS int)), "
    "element_at(array(double('1e10'), double('NaN'), NULL, double('-1e-5')), CAST(1 + id % 4 AS int)), "
    "CAST((id - 5) * 1234.56 AS decimal(9,2)), CAST(id * -123456789.123456 AS decimal(18,6)), "
    "CAST(id * CAST('123456789012345678901234.1234567890' AS decimal(37,10)) AS decimal(38,10)), "
    "date_add(DATE '1960-01-02', CAST(id * 3650 AS int)), "
    "timestampadd(DAY, CAST(id * 3000 AS int), TIMESTAMP '1965-03-04 05:06:07.890123'), "
    "timestampadd(DAY, CAST(id * 3000 AS int), TIMESTAMP_NTZ '1965-03-04 05:06:07.890123'), "
    "IF(id % 3 = 0, NULL, CAST(repeat('ÿ', CAST(id AS int)) AS binary)) FROM range(12)"
)
NESTED: Final = (
    "id bigint, data string, st struct<a: int, `in`: struct<x: string>>, ls array<struct<q: double>>, "
    "mm map<string, array<bigint>>"
)
NESTING: Final = (
    "INSERT INTO {t} SELECT id, concat('d', id), IF(id % 5 = 1, NULL, named_struct('a', CAST(id AS int), 'in', "
    "IF(id % 3 = 0, NULL, named_struct('x', concat('s', id))))), "
    "IF(id % 4 = 3, NULL, slice(array(named_struct('q', double(id) / 3), NULL, named_struct('q', double(NULL))), 1, "
    "CAST(id % 4 AS int))), "
    "IF(id % 5 = 4, NULL, map_from_arrays(transform(sequence(0, id % 3), x -> concat('k', x)), "
    "transform(sequence(0, id % 3), x -> array(x, NULL)))) FROM range(20)"
)
EVOLVING: Final = (
    create(columns="id int, data string, f float, dec decimal(9,2), st struct<a: int>"),
    "INSERT INTO {t} SELECT CAST(id AS int), concat('d', id), id / 4, id, named_struct('a', CAST(id AS int)) "
    "FROM range(5)",
    "ALTER TABLE {t} ADD COLUMNS (extra string COMMENT 'later', st.b bigint)",
    "INSERT INTO {t} SELECT CAST(id AS int), concat('d', id), id / 4, id, named_struct('a', CAST(id AS int), 'b', id), "
    "'e' FROM range(5, 8)",
    "ALTER TABLE {t} RENAME COLUMN f TO g",
    "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
    "ALTER TABLE {t} ALTER COLUMN g TYPE double",
    "ALTER TABLE {t} ALTER COLUMN dec TYPE decimal(18,2)",
    "ALTER TABLE {t} DROP COLUMN extra",
    "ALTER TABLE {t} ADD COLUMN extra int",
    "ALTER TABLE {t} ALTER COLUMN g FIRST",
    "INSERT INTO {t} VALUES (0.1, 100, 'late', 1, named_struct('a', 1, 'b', 2L), 7)",
    "DELETE FROM {t} WHERE id IN (1, 6)",
)
BY_EVERYTHING: Final = "kind, bucket(3, id), truncate(2, data), days(at)"

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "appended": (create(), insert(0, 10), insert(10, 20), insert(20, 30)),
    "empty": (create(),),
    "of_no_rows": (create(), insert(0, 0), insert(1, 4)),
    "types": (create(columns=TYPES), TYPED, TYPED),
    "types_in_avro": (create(columns=TYPES, properties="'write.format.default' = 'avro'"), TYPED),
    "nested": (create(columns=NESTED), NESTING),
    "nested_in_avro": (create(columns=NESTED, properties="'write.format.default' = 'avro'"), NESTING),
    "partitioned": (create(BY_EVERYTHING), insert(0, 12), "DELETE FROM {t} WHERE id = 5 OR kind = 'y'"),
    "by_years": (create("years(at)"), insert(0, 12), *CHANGES),
    "by_months": (create("months(at), truncate(10, id)"), insert(0, 12), *CHANGES),
    "by_hours": (create("hours(at), bucket(5, data)"), insert(0, 6), "DELETE FROM {t} WHERE id = 3"),
    "evolved": EVOLVING,
    "copied_on_write": (create(), insert(0, 10), insert(10, 20), *CHANGES),
    "merged_on_read": (create(properties=IN_PLACE), insert(0, 10), insert(10, 20), *CHANGES),
    "merged_on_read_in_partitions": (create("kind", IN_PLACE), insert(0, 10), insert(10, 20), *CHANGES),
    "in_avro": (
        create(properties=f"'write.format.default' = 'avro', {IN_PLACE}"),
        insert(0, 10),
        insert(10, 20),
        *CHANGES,
    ),
    "overwritten": (
        create("kind"),
        insert(0, 10),
        "INSERT OVERWRITE {t} PARTITION (kind = 'x') SELECT id, 'over', at FROM {t} WHERE id < 3",
        f"INSERT OVERWRITE {{t}} {ROWS.format(40, 44)}",
    ),
    "with_merged_manifests": (
        create(properties="'commit.manifest.min-count-to-merge' = '3'"),
        *(insert(i * 5, i * 5 + 5) for i in range(5)),
        "DELETE FROM {t} WHERE id = 7",
    ),
    "under_keys_of_24_bytes": (
        create(properties=f"'encryption.data-key-length' = '24', {IN_PLACE}"),
        insert(0, 5),
        "DELETE FROM {t} WHERE id = 3",
    ),
    "under_keys_of_32_bytes": (
        create(properties=f"'encryption.data-key-length' = '32', {IN_PLACE}"),
        insert(0, 5),
        "DELETE FROM {t} WHERE id = 3",
    ),
    "with_packed_metadata": (
        create(properties="'write.metadata.compression-codec' = 'gzip'"),
        insert(0, 5),
        "DELETE FROM {t} WHERE id = 3",
    ),
}

# What only Java has a statement for; {name} is the table for procedures of the catalog {c}.
JAVA_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "partitioned_in_several_ways": (
        create(),
        insert(0, 5),
        "ALTER TABLE {t} ADD PARTITION FIELD kind",
        insert(5, 10),
        "ALTER TABLE {t} REPLACE PARTITION FIELD kind WITH bucket(3, id)",
        insert(10, 15),
        "ALTER TABLE {t} WRITE ORDERED BY data DESC NULLS LAST",
        insert(15, 20),
        "DELETE FROM {t} WHERE id IN (1, 6, 11, 16)",
    ),
    "with_branches_and_tags": (
        create(),
        insert(0, 5),
        "ALTER TABLE {t} CREATE TAG v1",
        "ALTER TABLE {t} CREATE BRANCH dev RETAIN 7 DAYS",
        insert(5, 8),
        insert(20, 23).replace("{t}", "{t}.branch_dev"),
        "DELETE FROM {t}.branch_dev WHERE id = 1",
    ),
    "rolled_back": (
        create(),
        insert(0, 5),
        "ALTER TABLE {t} CREATE TAG back",
        insert(5, 8),
        "CALL {c}.system.set_current_snapshot(table => '{name}', ref => 'back')",
        insert(8, 10),
    ),
    "expired": (
        create(properties=IN_PLACE),
        insert(0, 5),
        insert(5, 10),
        "DELETE FROM {t} WHERE id = 3",
        "CALL {c}.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 2)",
    ),
    "rewritten": (
        create(properties=IN_PLACE),
        insert(0, 5),
        insert(5, 10),
        "DELETE FROM {t} WHERE id = 3",
        "CALL {c}.system.rewrite_manifests('{name}')",
        insert(10, 12),
        "CALL {c}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        "DELETE FROM {t} WHERE id = 4",
    ),
}
