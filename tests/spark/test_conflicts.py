"""Statements of Spark whose table changes between their query and their commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sealberg.spark.driver import commits as writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.programs.spark import SparkKit

pytestmark = pytest.mark.slow

MODES = "'write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}'"


def two_files(kit: SparkKit, mode: str) -> str:
    """The rows 1-4 in one file and 11-14 in another."""
    name = kit.fresh()
    properties = f"TBLPROPERTIES ('encryption.key-id' = 'hr', {MODES.format(mode=mode)})"
    kit.sql(f"CREATE TABLE {name} (id bigint, p int) PARTITIONED BY (p) {properties}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 0), (3, 0), (4, 0), (11, 1), (12, 1), (13, 1), (14, 1)")
    return name


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Do this once, when the tasks of the next statement are done and nothing of it is committed."""
    real = writes.Writes._data_files

    def late(self: writes.Writes, *arguments: Any) -> Any:
        monkeypatch.setattr(writes.Writes, "_data_files", real)
        act()
        return real(self, *arguments)

    monkeypatch.setattr(writes.Writes, "_data_files", late)


def row(key: int, p: int) -> pa.Table:
    return pa.table({"id": pa.array([key], pa.int64()), "p": pa.array([p], pa.int32())})


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_delete_that_found_nothing_does_not_overlook_a_row_that_came(
    kit: SparkKit, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    name = two_files(kit, mode)
    before_commit(monkeypatch, lambda: kit.table(name).append(row(5, 0)))
    with pytest.raises(Exception, match="Found conflicting files that can contain records matching"):
        kit.sql(f"DELETE FROM {name} WHERE id % 10 = 5")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(9,)]


def test_deletes_that_a_third_commit_rewrites_stop_an_update(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = two_files(kit, "merge-on-read")

    def two_deletes() -> None:
        kit.table(name).delete("id in (2, 11)")
        kit.table(name).delete("id == 12")

    before_commit(monkeypatch, two_deletes)
    with pytest.raises(Exception, match=r"concurrently added deletes|conflicting delete files"):
        kit.sql(f"UPDATE {name} SET id = 100 WHERE id = 1")
    assert sorted(kit.sql(f"SELECT id FROM {name}")) == [(1,), (3,), (4,), (13,), (14,)]


def test_a_history_that_was_expired_stops_a_merge(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = two_files(kit, "merge-on-read")

    def delete_and_expire() -> None:
        kit.table(name).delete("id == 2")
        kit.table(name).append(row(21, 2))
        table = kit.table(name)
        ids = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != table.metadata.current_snapshot_id]
        table.maintenance.expire_snapshots().by_ids(ids).commit()

    before_commit(monkeypatch, delete_and_expire)
    with pytest.raises(Exception, match="Cannot determine history between starting snapshot"):
        kit.sql(f"MERGE INTO {name} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(8,)]
