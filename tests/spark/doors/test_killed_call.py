"""The driver of a CALL is killed while its tasks run: Python ends with it, and the table is whole."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.doors import Lake, spark_sql
from sealberg.jobs import compact
from sealberg.jobs.verify import plan as verification

if TYPE_CHECKING:
    from collections.abc import Callable

FILES, ROWS = 60, 120_000
OPTIONS = {"rewrite-all": "true", "max-file-group-input-files": "1"}
CALL = (
    "CALL prod.system.rewrite_data_files(table => 'hr.many', options => "
    "map('rewrite-all', 'true', 'max-file-group-input-files', '1'))"
)


def test_a_driver_that_is_killed_leaves_a_whole_table(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    with spark_sql(lake) as door:
        door.run("CREATE NAMESPACE prod.hr")
        door.run("CREATE TABLE prod.hr.many (id bigint, text string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        rows = f"SELECT /*+ REPARTITION({FILES}) */ id, repeat(uuid(), 20) FROM range({ROWS})"
        door.run(f"INSERT INTO prod.hr.many {rows}")
        assert len(lake.data_files()) == FILES
        killer = threading.Thread(target=kill_when, args=(door.pid, lambda: len(lake.data_files()) >= FILES + 4))
        killer.start()
        with pytest.raises(AssertionError, match="the door closed"):
            door.run(CALL)
    killer.join()
    wait_for(lambda: not processes_of(lake), "Python has ended")
    catalog: Any = sealberg.load_catalog(
        "prod",
        type="sql",
        uri=f"sqlite:///{tmp_path}/prod.db",
        warehouse=f"file://{tmp_path}/prod",
        **{"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16},
    )
    table = catalog.load_table("hr.many")
    assert len(table.metadata.snapshots) == 1, "nothing was committed"
    found = verification(table).execute().findings
    assert [each.code for each in found if each.severity == "error"] == []
    done = compact.plan(table, options=OPTIONS, manifests=False).execute()
    assert done.rewritten_data_files_count == FILES
    assert sum(table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()) == sum(range(ROWS))


def kill_when(pid: int, due: Callable[[], bool]) -> None:
    wait_for(due, "tasks have written files")
    os.kill(pid, signal.SIGKILL)


def wait_for(due: Callable[[], bool], what: str) -> None:
    for _ in range(3000):
        if due():
            return
        time.sleep(0.02)
    raise AssertionError(f"not within a minute: {what}")


def processes_of(lake: Lake) -> list[str]:
    """The Python processes of the lake: the driver's, and those beside tasks."""
    home = f"PYICEBERG_HOME={lake.environment['PYICEBERG_HOME']}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if home in (process / "environ").read_bytes() and b"sealberg.spark" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:  # ended meanwhile
            continue
    return found
