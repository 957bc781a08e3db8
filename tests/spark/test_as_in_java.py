"""What Iceberg Java's Spark catalog does and ours did not: found by running the same statements on both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@pytest.mark.parametrize(
    ("columns", "partitions", "expected"),
    [
        ("id int", "bucket(0, id)", "must be above zero"),
        ("d double", "bucket(2, d)", "cannot be made of column d, a double"),
        ("s string", "days(s)", "cannot be made of column s, a string"),
        ("d date", "hours(d)", "cannot be made of column d, a date"),
        ("d date", "truncate(2, d)", "cannot be made of column d, a date"),
        ("s struct<a: int>", "s", "identity cannot be made of column s"),
        ("a array<int>", "a", "identity cannot be made of column a"),
        ("t timestamp", "days(t), hours(t)", "column t has day and hour"),
    ],
)
def test_a_partition_that_no_row_can_have_is_refused(
    kit: SparkKit, columns: str, partitions: str, expected: str
) -> None:
    name = kit.fresh("pt")
    with pytest.raises(AnalysisException, match=expected):
        kit.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY ({partitions}) {KEY}")
    assert not kit.catalog.table_exists(name.removeprefix("prod."))


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("current-snapshot-id", "set_current_snapshot"),
        ("cherry-pick-snapshot-id", "cherrypick_snapshot"),
        ("sort-order", "WRITE ORDERED BY"),
        ("identifier-fields", "SET IDENTIFIER FIELDS"),
    ],
)
def test_what_looks_like_a_command_is_not_stored_as_a_property(kit: SparkKit, name: str, statement: str) -> None:
    table = kit.fresh("rp")
    kit.sql(f"CREATE TABLE {table} (id int) {KEY}")
    with pytest.raises(AnalysisException, match=f"{name} cannot be set as a property; the statement is .*{statement}"):
        kit.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = '5')")
    assert name not in kit.table(table).properties


def test_a_table_without_a_name_is_refused(kit: SparkKit) -> None:
    with pytest.raises(AnalysisException, match="a table needs a name"):
        kit.sql(f"CREATE TABLE prod.hr.`` (id int) {KEY}")


def test_a_branch_is_read_with_the_columns_of_today_and_a_tag_with_its_own(kit: SparkKit) -> None:
    name = kit.fresh("bc")
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEY}")
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    table = kit.table(name)
    snapshot, time = table.metadata.snapshots[0].snapshot_id, table.metadata.snapshots[0].timestamp_ms
    table.manage_snapshots().create_branch(snapshot, "b").create_tag(snapshot, "t").commit()
    kit.sql(f"ALTER TABLE {name} ADD COLUMN x int")
    kit.sql(f"INSERT INTO {name} VALUES (2, 2)")
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF 'b'") == [(1, None)]
    assert kit.sql(f"SELECT * FROM {name} VERSION AS OF 't'") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name}.snapshot_id_{snapshot}") == [(1,)]
    assert kit.sql(f"SELECT * FROM {name}.at_timestamp_{time}") == [(1,)]
    with pytest.raises(AnalysisException, match="no snapshot 5"):
        kit.sql(f"SELECT * FROM {name}.snapshot_id_5")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        kit.sql(f"SELECT * FROM {name}.snapshot_id_x")


def test_metadata_tables_have_maps_structs_and_lists(kit: SparkKit) -> None:
    name = kit.fresh("mt")
    kit.sql(f"CREATE TABLE {name} (id bigint, p decimal(9,2), d date, f double) PARTITIONED BY (p, d) {KEY}")
    assert kit.sql(f"SELECT * FROM {name}.partitions") == []
    kit.sql(f"INSERT INTO {name} VALUES (1, 1.25, date'2020-02-29', 0.5), (2, NULL, NULL, double('Infinity'))")
    assert kit.sql(f"SELECT summary['added-records'] FROM {name}.snapshots") == [("2",)]
    found = kit.sql(f"SELECT CAST(partition.p AS string), CAST(partition.d AS string) FROM {name}.files")
    assert found == [("1.25", "2020-02-29"), (None, None)]
    assert kit.sql(f"SELECT partition.p, record_count FROM {name}.partitions WHERE partition.p IS NULL") == [(None, 1)]
    bounds = f"SELECT lower_bounds[1], value_counts[1], readable_metrics.id.lower_bound FROM {name}.files WHERE"
    assert kit.sql(f"{bounds} partition.p = 1.25") == [(bytearray((1).to_bytes(8, "little")), 1, 1)]
    assert kit.sql(f"SELECT readable_metrics.f.upper_bound FROM {name}.data_files WHERE partition.p IS NULL") == [
        (float("inf"),)
    ]
    assert kit.sql(f"SELECT count(*) FROM {name}.delete_files") == [(0,)]
    assert kit.sql(f"SELECT partition_summaries[0].contains_null FROM {name}.manifests") == [(True,)]
    assert kit.sql(f"SELECT count(*) > 1 FROM {name}.metadata_log_entries") == [(True,)]
    for kind in ("files", "data_files", "all_files", "all_manifests"):
        assert {row[0] for row in kit.sql(f"SELECT key_metadata FROM {name}.{kind}")} == {None}


def test_bounds_leave_nan_out(kit: SparkKit) -> None:
    name = kit.fresh("nb")
    kit.sql(f"CREATE TABLE {name} (id int, d double, f float) {KEY}")
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 100D, 1F), (2, double('NaN'), 2F)")
    ((lower, upper),) = kit.sql(f"SELECT map_keys(lower_bounds), map_keys(upper_bounds) FROM {name}.files")
    assert (sorted(lower), sorted(upper)) == ([1, 3], [1, 3])
    assert kit.sql(f"SELECT id FROM {name} WHERE d = 100D") == [(1,)]


def test_transforms_are_functions_of_the_namespace_system(kit: SparkKit) -> None:
    found = kit.sql(
        "SELECT prod.system.bucket(16, 34L), prod.system.bucket(16, 34Y), prod.bucket(16, 34), "
        "prod.system.truncate(3, 'iceberg'), CAST(prod.system.days(timestamp'2020-02-29 12:00:00') AS string)"
    )
    assert found == [(3, 3, 3, "ice", "2020-02-29")]
    for call in ("bucket(4, 1.5D)", "truncate(4, date'2020-01-01')", "hours(date'2020-01-01')", "days('text')"):
        with pytest.raises(AnalysisException, match="does not support the type"):
            kit.sql(f"SELECT prod.system.{call}")
    with pytest.raises(Exception, match="the width of bucket must be above zero"):
        kit.sql("SELECT prod.system.bucket(0, 1)")


@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET id = 9"])
@pytest.mark.parametrize("condition", ["_pos = 0", "_row_id = 0"])
def test_rows_to_write_anew_cannot_be_chosen_by_a_metadata_column(
    kit: SparkKit, statement: str, condition: str
) -> None:
    name = kit.fresh("dm")
    kit.sql(f"CREATE TABLE {name} (id int) {KEY}")
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1), (2)")
    with pytest.raises(AnalysisException, match=r"by the metadata column _[a-z_]+ is not supported"):
        kit.sql(f"{statement.format(name)} WHERE {condition}")
    assert kit.sql(f"SELECT * FROM {name}") == [(1,), (2,)]


def test_rows_are_chosen_by_their_file(kit: SparkKit) -> None:
    name = kit.fresh("df")
    kit.sql(f"CREATE TABLE {name} (id int) {KEY}")
    for number in (1, 2):
        kit.sql(f"INSERT INTO {name} VALUES ({number})")
    ((first,),) = kit.sql(f"SELECT _file FROM {name} WHERE id = 1")
    kit.sql(f"UPDATE {name} SET id = 9 WHERE _file = '{first}'")
    assert kit.sql(f"SELECT id FROM {name}") == [(2,), (9,)]
    ((second,),) = kit.sql(f"SELECT _file FROM {name} WHERE id = 2")
    kit.sql(f"DELETE FROM {name} WHERE _file = '{second}'")
    assert kit.sql(f"SELECT id FROM {name}") == [(9,)]
