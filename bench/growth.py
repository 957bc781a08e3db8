"""How time and memory grow with the work: each act at three sizes, each in a process of its own.

    growth = (time at the largest size / time at the smallest) / (largest size / smallest size)

1 is linear, less is better: some of the time does not grow at all. Other figures compare two acts at one size.
`--rounds 9`, the default, is the whole run; fewer rounds measure smaller sizes, in a few minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

LINEAR = 1.2  # linear, with room for noise
LEAST_MIB = 20.0  # less memory than this is noise
WHOLE = 9  # rounds of a whole run; fewer rounds measure smaller sizes

Sizes = tuple[int, int, int]
ROWS: Sizes = (10_000_000, 30_000_000, 90_000_000)
FEWER_ROWS: Sizes = (3_000_000, 6_000_000, 12_000_000)
ACTS: tuple[tuple[str, Sizes, Sizes, str], ...] = (
    ("append 3 M rows into partitions", (20, 100, 500), (20, 100, 500), "partitions"),
    ("append a stream", ROWS, FEWER_ROWS, "rows"),
    ("append a stream into 12 partitions", ROWS, FEWER_ROWS, "rows"),
    ("upsert 5,000 keys over files", (5, 20, 80), (5, 20, 80), "files"),
    ("append Avro", (100_000, 300_000, 1_000_000), (100_000, 300_000, 1_000_000), "rows"),
    ("scan Avro", (100_000, 300_000, 1_000_000), (100_000, 300_000, 1_000_000), "rows"),
    ("expire snapshots", (500, 1_500, 5_000), (100, 300, 1_000), "snapshots"),
    ("commit onto snapshots", (100, 300, 1_000), (100, 300, 1_000), "snapshots"),
    ("plan files again", (10_000, 30_000, 100_000), (3_000, 10_000, 30_000), "files"),
    ("inspect files", (10_000, 30_000, 100_000), (3_000, 10_000, 30_000), "files"),
    ("inspect partitions of files", (10_000, 30_000, 100_000), (3_000, 10_000, 30_000), "files"),
    ("rewrite manifests of files", (10_000, 30_000, 100_000), (3_000, 10_000, 30_000), "files"),
    ("delete rows by positions", (100_000, 300_000, 1_000_000), (100_000, 300_000, 1_000_000), "rows"),
)


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu: float
    mib: float


def measure(name: str, size: int, repeat: int = 1) -> Measured:
    """The shortest time and the smallest peak of several processes."""
    command = [sys.executable, "-m", "bench.growth_cases", name, str(size)]
    runs = []
    for _ in range(repeat):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return Measured(*(min(run[name] for run in runs) for name in ("seconds", "cpu", "mib")))


def figures(rounds: int) -> Iterator[Figure]:
    repeat = 2 if rounds >= WHOLE else 1
    for name, sizes, fewer, unit in ACTS:
        yield from _growth(name, sizes if rounds >= WHOLE else fewer, unit, repeat)
    yield from _ratios(repeat)


def _growth(name: str, sizes: Sizes, unit: str, repeat: int) -> Iterator[Figure]:
    found = {size: measure(name, size, repeat) for size in sizes}
    small, large = found[sizes[0]], found[sizes[-1]]
    more = sizes[-1] / sizes[0]
    note = "; ".join(
        f"{size:,} {unit}: {one.seconds:.2f} s (cpu {one.cpu:.2f}), {one.mib:.0f} MiB" for size, one in found.items()
    )
    times = tuple((float(size), one.seconds) for size, one in found.items())
    memory = tuple((float(size), one.mib) for size, one in found.items())
    spent = large.seconds / small.seconds
    yield Figure(f"{name}: growth of time", spent / more, LINEAR, False, note=note, points=times)
    grown = max(large.mib, LEAST_MIB) / max(small.mib, LEAST_MIB)
    yield Figure(f"{name}: growth of memory", grown / more, LINEAR, False, points=memory)
    bounds = {"append a stream": 400.0, "append a stream into 12 partitions": 600.0}
    if name in bounds:
        yield Figure(f"{name}: peak memory at {sizes[-1]:,} rows", large.mib, bounds[name], False, "MiB", points=memory)
    ratios = {"upsert 5,000 keys over files": 2.0, "expire snapshots": 12.0}
    if name in ratios:
        yield Figure(f"{name}: {sizes[-1]:,} {unit} over {sizes[0]:,}", spent, ratios[name], False)


def _ratios(repeat: int) -> Iterator[Figure]:
    for name, size, other, other_size, bound in (
        ("append 12 M rows into partitions", 500, "append a stream", 12_000_000, 2.5),
        ("append Avro", 1_000_000, "append Parquet", 1_000_000, 8),
        ("scan Avro", 1_000_000, "scan Parquet", 1_000_000, 8),
    ):
        slow, fast = measure(name, size, repeat), measure(other, other_size, repeat)
        note = f"{slow.seconds:.2f} s (cpu {slow.cpu:.2f}) against {fast.seconds:.2f} s (cpu {fast.cpu:.2f})"
        yield Figure(f"{name} ({size:,}) over {other}", slow.seconds / fast.seconds, bound, False, note=note)
