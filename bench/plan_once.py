"""Plan a table in a process of its own: first and again, with the memory that the plans take.

`python -m bench.plan_once WARM-UP TABLE FILTER < properties-of-the-catalog.json` prints JSON: seconds of the first and
of the best later plan, MiB by which the peak and the resident memory grew, and the weight of what is kept.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

import sealberg
from bench.stream_memory import peak_mib
from sealberg.metadata import decode_cache


def main() -> None:
    warm_up, name, row_filter = sys.argv[1:]
    given = json.load(sys.stdin)
    with sealberg.load_catalog("plan", **given["properties"]) as catalog:
        list(catalog.load_table(warm_up).scan(row_filter=row_filter).plan_files())
        decode_cache.clear()
        table = catalog.load_table(name)
        firsts, agains, peak, resident = [], [], 0.0, 0.0
        for _ in range(given["rounds"]):
            decode_cache.clear()
            gc.collect()
            before, held = peak_mib(), resident_mib()
            firsts.append(_seconds(table, row_filter))
            peak = max(peak, peak_mib() - before)
            gc.collect()
            resident = max(resident, resident_mib() - held)
            agains.append(min(_seconds(table, row_filter) for _ in range(3)))
        found = len(list(table.scan(row_filter=row_filter).plan_files()))
        kept = sum(cache.weight for cache in decode_cache._ALL)
    told = {"first": min(firsts), "again": min(agains), "peak": peak, "resident": resident, "kept": kept}
    print(json.dumps({**told, "files": found}))


def _seconds(table: object, row_filter: str) -> float:
    began = time.perf_counter()
    list(table.scan(row_filter=row_filter).plan_files())  # type: ignore[attr-defined]
    return time.perf_counter() - began


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


if __name__ == "__main__":
    main()
