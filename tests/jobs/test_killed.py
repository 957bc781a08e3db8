"""The kit that kills jobs does what it says, so that tests of jobs can rely on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kit.programs import killed
from kit.tables.tables import sealed_catalog

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def append(folder: Path) -> int:
    with sealed_catalog(folder) as catalog:
        table = catalog.create_table_if_not_exists("hr.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        return table.scan().count()


def test_an_undisturbed_run_returns_and_counts_its_operations(tmp_path: Path) -> None:
    run = killed.run(append, tmp_path)
    assert (run.killed, run.error, run.returned) == (False, "", 3)
    assert run.operations > 10


def test_a_run_dies_at_each_chosen_operation(tmp_path: Path) -> None:
    total = killed.run(append, tmp_path / "whole").operations
    for at in killed.points(total, 4, seed=1):
        assert killed.run(append, tmp_path / str(at), at=at).killed


def test_a_full_disk_and_a_kms_that_is_down_end_the_work_with_their_errors(tmp_path: Path) -> None:
    assert "No space left on device" in killed.run(append, tmp_path / "disk", fault="disk full", at=2).error
    assert "KmsUnavailableError" in killed.run(append, tmp_path / "kms", fault="KMS down", at=0).error
