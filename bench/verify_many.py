"""Verify a table of many files in this process; print the time and the peak memory as JSON.

python -m bench.verify_many FOLDER threads|MASTER FILES ROWS_PER_FILE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from bench.stream_memory import peak_mib
from kit.tables.tables import local
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.jobs.runner import Threads
from sealberg.jobs.verify import plan
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import values_of

SCHEMA = Schema(NestedField(1, "id", LongType()))


def connect(folder: Path) -> EncryptedSqlCatalog:
    settings = {
        "uri": f"sqlite:///{folder}/c.db",
        "warehouse": f"file://{folder}/w",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": "00" * 16,
    }
    return EncryptedSqlCatalog("bench", **settings)


def make(folder: Path, files: int, rows: int) -> None:
    """A table whose files are links to one file under one key, so that it is made in no time."""
    catalog = connect(folder)
    catalog.create_namespace("hr")
    table: Any = catalog.create_table("hr.many", SCHEMA, properties={"encryption.key-id": "hr"})
    ids = np.random.default_rng(1).integers(0, 1 << 62, rows)  # numbers that do not compress
    table.append(pa.table({"id": pa.array(ids, pa.int64())}))
    (first,) = (task.file for task in table.scan().plan_files())
    path = local(first.file_path)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for number in range(files - 1):
            copy = path.with_name(f"{number:05}.parquet")
            os.link(path, copy)
            made = DataFileV3(*values_of(first))
            made[1] = f"file://{copy}"
            made.first_row_id = None
            made.spec_id = 0
            append.append_data_file(made)


def main(folder: Path, where: str, files: int, rows: int) -> None:
    if where == "make":
        make(folder, files, rows)
        return
    # In a process of its own, whose memory does not count.
    subprocess.run([sys.executable, "-m", "bench.verify_many", str(folder), "make", str(files), str(rows)], check=True)
    made = plan("hr.many", catalog=connect(folder))
    if where == "threads":
        runner: Any = nullcontext(Threads())
    else:
        from sealberg.spark.job_runner import spark_runner

        runner = spark_runner(where)
    with runner as opened:
        list(opened.run(abs, range(64)))  # starts threads, executors and Python workers
        began = time.perf_counter()
        result = made.execute(runner=opened)
        seconds = time.perf_counter() - began
    assert result.verdict == "sound", str(result)[-3000:]
    found = {"seconds": seconds, "peak": peak_mib(), "files": result.totals.checked_files}
    print(json.dumps(found | {"bytes": result.totals.checked_bytes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
