"""Verify a table that has a page and an Avro file of hundreds of MB; print the peak memory.

python -m bench.verify_large FOLDER make     writes the table
python -m bench.verify_large FOLDER full     verifies it in this process; prints its peak memory as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.stream_memory import peak_mib
from bench.verify_many import connect
from sealberg.jobs.verify import plan

PLAIN = 400 << 20  # of one page
VALUE = 1 << 20
PROPERTIES = {
    "encryption.key-id": "hr",
    "write.parquet.page-size-bytes": str(1 << 30),
    "write.parquet.row-group-size-bytes": str(1 << 31),
    "write.parquet.compression-codec": "uncompressed",
}


def make(folder: Path) -> None:
    some = np.random.default_rng(1)
    values = pa.array([some.bytes(VALUE) for _ in range(PLAIN // VALUE)], pa.large_binary())
    catalog = connect(folder)
    catalog.create_namespace("hr")
    table: Any = catalog.create_table("hr.large", pa.schema([pa.field("b", pa.large_binary())]), properties=PROPERTIES)
    table.append(pa.table({"b": values}))
    with table.transaction() as change:
        change.set_properties({"write.format.default": "avro"})
    table.append(pa.table({"b": values}))


def main(folder: Path, what: str) -> None:
    if what == "make":
        make(folder)
        return
    result = plan("hr.large", catalog=connect(folder), level=what).execute()  # type: ignore[arg-type]  # from the user
    assert not result.findings, str(result)[-3000:]
    found = {"peak": peak_mib(), "largest": PLAIN >> 20, "bytes": result.totals.checked_bytes}
    print(json.dumps(found | {"not_checked": len(result.not_checked)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
