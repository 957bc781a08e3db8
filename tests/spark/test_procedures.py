"""CALL: procedures with Iceberg's names, arguments and result columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from sealberg.spark.driver.procedures.registry import BY_NAME
from sealberg.spark.driver.procedures.signature import OPTIONS

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit
    from sealberg.spark.protocol.procedures import ProcedureParameter


def history(kit: SparkKit, count: int = 3, more: str = "") -> tuple[str, list[int]]:
    """A table with one row for each snapshot, and the ids of its snapshots."""
    name = kit.fresh("calls")
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr'{more})")
    for number in range(count):
        kit.sql(f"INSERT INTO {name} VALUES ({number})")
    return name, [snapshot.snapshot_id for snapshot in kit.table(name).metadata.snapshots]


def call(kit: SparkKit, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in kit.spark.sql(f"CALL {kit.catalog.name}.system.{text}").collect()]


def ids(kit: SparkKit, name: str) -> list[int]:
    return sorted(row[0] for row in kit.sql(f"SELECT id FROM {name}"))


def test_a_table_is_rolled_back_by_position_and_by_name(kit: SparkKit) -> None:
    name, (first, second, third) = history(kit)
    short = name.split(".", 1)[1]
    assert call(kit, f"rollback_to_snapshot('{short}', {second})") == [(third, second)]
    assert ids(kit, name) == [0, 1]
    assert call(kit, f"rollback_to_snapshot(snapshot_id => {first}, table => '{name}')") == [(second, first)]
    assert ids(kit, name) == [0]
    with pytest.raises(AnalysisException, match="not an ancestor of the current state"):
        call(kit, f"rollback_to_snapshot('{short}', {third})")
    assert call(kit, f"set_current_snapshot('{short}', {third})") == [(first, third)]
    assert ids(kit, name) == [0, 1, 2]


def test_a_table_is_rolled_back_to_a_time_and_set_to_a_ref(kit: SparkKit) -> None:
    name, (first, second, third) = history(kit)
    table = kit.table(name)
    moment = table.metadata.snapshots[1].timestamp_ms
    table.manage_snapshots().create_tag(first, "start").commit()
    stamp = f"timestamp_millis({moment + 1})"
    assert call(kit, f"rollback_to_timestamp('{name}', {stamp})") == [(third, second)]
    assert call(kit, f"set_current_snapshot(table => '{name}', ref => 'start')") == [(second, first)]
    assert ids(kit, name) == [0]
    with pytest.raises(AnalysisException, match="exactly one of the arguments snapshot_id and ref"):
        call(kit, f"set_current_snapshot('{name}', {first}, 'start')")


def test_staged_changes_are_published_and_picked(kit: SparkKit) -> None:
    name, (first,) = history(kit, 1, ", 'write.wap.enabled' = 'true'")
    staged = []
    for number in (7, 8):
        kit.spark.conf.set("spark.wap.id", f"night{number}")
        kit.sql(f"INSERT INTO {name} VALUES ({number})")
        kit.spark.conf.unset("spark.wap.id")
        staged.append(kit.table(name).metadata.snapshots[-1].snapshot_id)
    assert call(kit, f"publish_changes('{name}', 'night7')") == [(staged[0], staged[0])]  # a fast-forward
    ((source, current),) = call(kit, f"cherrypick_snapshot('{name}', {staged[1]})")
    assert source == staged[1]
    assert current not in (first, *staged)
    assert ids(kit, name) == [0, 7, 8]
    with pytest.raises(AnalysisException, match="Cannot apply unknown WAP ID 'noon'"):
        call(kit, f"publish_changes('{name}', 'noon')")


def test_a_branch_is_moved_forward_and_only_forward(kit: SparkKit) -> None:
    name, (first, second, third) = history(kit)
    kit.table(name).manage_snapshots().create_branch(first, "audit").commit()
    assert call(kit, f"fast_forward('{name}', 'audit', 'main')") == [("audit", first, third)]
    assert call(kit, f"fast_forward('{name}', 'fresh', 'audit')") == [("fresh", None, third)]
    call(kit, f"rollback_to_snapshot('{name}', {second})")
    with pytest.raises(AnalysisException, match="Cannot fast-forward: audit is not an ancestor of main"):
        call(kit, f"fast_forward('{name}', 'audit', 'main')")
    with pytest.raises(AnalysisException, match="Ref does not exist: nowhere"):
        call(kit, f"fast_forward('{name}', 'audit', 'nowhere')")


def test_the_ancestors_of_a_snapshot_are_listed_newest_first(kit: SparkKit) -> None:
    name, snapshots = history(kit)
    times = {each.snapshot_id: each.timestamp_ms for each in kit.table(name).metadata.snapshots}
    assert call(kit, f"ancestors_of('{name}')") == [(each, times[each]) for each in reversed(snapshots)]
    assert call(kit, f"ancestors_of('{name}', {snapshots[0]})") == [(snapshots[0], times[snapshots[0]])]


def test_a_metadata_file_becomes_a_table(kit: SparkKit) -> None:
    name, (_, last) = history(kit, 2)
    location = kit.table(name).metadata_location
    kit.catalog.drop_table(name.removeprefix("prod."))
    assert call(kit, f"register_table('{name}', '{location}')") == [(last, 2, 2)]
    assert ids(kit, name) == [0, 1]


def test_verify_checks_every_file_in_tasks_of_the_session(kit: SparkKit) -> None:
    name, (*_, last) = history(kit, 2)
    short = name.removeprefix("prod.")
    ((table, result, code, file, snapshot, message),) = call(kit, f"verify('{short}')")
    assert (table, result, code, file, snapshot) == (short, "passed", None, None, last)
    assert message == "9 files checked, nothing found"
    broken = kit.data_files(name)[0]
    stored = bytearray(broken.read_bytes())
    stored[100] ^= 1
    broken.write_bytes(stored)
    found = call(kit, f"verify(table => '{name}', level => 'full')")
    assert [(row[0], row[1]) for row in found] == [(short, "error")]
    assert str(found[0][3]).endswith(broken.name)


def test_inspect_names_the_format_of_every_file(kit: SparkKit) -> None:
    name, _ = history(kit, 1)
    found = call(kit, f"inspect('{name}')")
    assert sorted((row[1], row[2], row[3]) for row in found) == [
        ("data", "parquet-encrypted", True),
        ("manifest", "ags1", True),
        ("manifest-list", "ags1", True),
    ]


def test_procedures_are_shown_and_described(kit: SparkKit) -> None:
    shown = {row.procedure_name for row in kit.spark.sql("SHOW PROCEDURES IN prod.system").collect()}
    assert {"verify", "rollback_to_snapshot", "register_table"} <= shown
    described = [row[0] for row in kit.spark.sql("DESCRIBE PROCEDURE prod.system.ancestors_of").collect()]
    assert described == [
        "Procedure:   ancestors_of",
        "Description: Lists a snapshot, by default the current one, and its ancestors",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rollback_to_snapshot('hr.nothing', 1)", "hr.*nothing"),
        ("rollback_to_snapshot()", "table"),
        ("rollback_to_snapshot(table => 'hr.t', snapshot => 1)", "snapshot"),
        ("rollback_to_snapshot('hr.t', 'x')", "(?s)CAST_INVALID_INPUT|type"),
        ("rollback_to_snapshot(NULL, 1)", "argument table is missing or NULL"),
        ("verify('hr.', 'full')", "expected the name of a table"),
        ("no_such('hr.t')", "Failed to load routine `prod`.`system`.`no_such`"),
        ("verify('hr.t', 'thorough')", "thorough"),
    ],
)
def test_a_wrong_argument_is_named(kit: SparkKit, text: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        call(kit, text)


MORE = {"migrate": 2, "set_current_snapshot": 2, "snapshot": 4}  # arguments, of which not all are required


def value(parameter: ProcedureParameter) -> str:
    known = {"long": "17", "timestamp": "timestamp '2026-01-01'", "string": f"'hr.of_{parameter.name}'"}
    if parameter.type == OPTIONS:
        return "map('encryption.key-id', 'hr')"
    return known.get(str(parameter.type), "array('id')")


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_call_by_position_means_what_it_means_by_name(kit: SparkKit, name: str) -> None:
    """Both reach the procedure, which says what it was given: no such table exists."""
    parameters = BY_NAME[name].parameters
    needed = parameters[: MORE.get(name) or max(1, sum(each.required for each in parameters))]
    by_position = ", ".join(map(value, needed))
    by_name = ", ".join(f"{each.name} => {value(each)}" for each in reversed(needed))
    said = []
    for arguments in (by_position, by_name):
        with pytest.raises(Exception, match="of_") as caught:
            call(kit, f"{name}({arguments})")
        said.append(str(caught.value).partition("JVM stacktrace")[0])
    assert said[0] == said[1]
