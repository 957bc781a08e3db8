"""How time and memory grow with the work: each act at three sizes, each in a process of its own.

    growth = (time at the largest size / time at the smallest) / (largest size / smallest size)

1 is linear, less is better: some of the time does not grow at all. Other figures compare two acts at one size.
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


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu: float
    mib: float


def measure(name: str, size: int, rounds: int = 1) -> Measured:
    """The shortest time and the smallest peak of several processes."""
    command = [sys.executable, "-m", "bench.growth_cases", name, str(size)]
    runs = []
    for _ in range(rounds):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return Measured(*(min(run[name] for run in runs) for name in ("seconds", "cpu", "mib")))


def figures(rounds: int) -> Iterator[Figure]:
    rounds = min(rounds, 3)
    for name, sizes, unit in (
        ("append 3 M rows into partitions", (20, 100, 500), "partitions"),
        ("append a stream", (10_000_000, 30_000_000, 90_000_000), "rows"),
        ("append a stream into 12 partitions", (10_000_000, 30_000_000, 90_000_000), "rows"),
        ("upsert 5,000 keys over files", (5, 20, 80), "files"),
        ("append Avro", (100_000, 300_000, 1_000_000), "rows"),
        ("scan Avro", (100_000, 300_000, 1_000_000), "rows"),
        ("expire snapshots", (100, 300, 1_000), "snapshots"),
        ("commit onto snapshots", (100, 300, 1_000), "snapshots"),
        ("plan files again", (10_000, 30_000, 100_000), "files"),
    ):
        yield from _growth(name, sizes, unit, rounds)
    yield from _ratios(rounds)


def _growth(name: str, sizes: tuple[int, int, int], unit: str, rounds: int) -> Iterator[Figure]:
    found = {size: measure(name, size, rounds) for size in sizes}
    small, large = found[sizes[0]], found[sizes[-1]]
    note = "; ".join(
        f"{size:,} {unit}: {one.seconds:.2f} s (cpu {one.cpu:.2f}), {one.mib:.0f} MiB" for size, one in found.items()
    )
    points = tuple((float(size), one.seconds) for size, one in found.items())
    growth = large.seconds / small.seconds / (sizes[-1] / sizes[0])
    yield Figure(f"{name}: growth of time", growth, LINEAR, False, note=note, points=points)
    bounds = {"append a stream": 400.0, "append a stream into 12 partitions": 600.0}
    if name in bounds:
        memory = tuple((float(size), one.mib) for size, one in found.items())
        yield Figure(f"{name}: peak memory at 90 M rows", large.mib, bounds[name], False, "MiB", points=memory)
    if name.startswith("upsert"):
        yield Figure(f"{name}: 80 files over 5", large.seconds / small.seconds, 2, False)


def _ratios(rounds: int) -> Iterator[Figure]:
    for name, size, other, other_size, bound in (
        ("append 12 M rows into partitions", 500, "append a stream", 12_000_000, 2.5),
        ("append Avro", 1_000_000, "append Parquet", 1_000_000, 8),
        ("scan Avro", 1_000_000, "scan Parquet", 1_000_000, 8),
    ):
        slow, fast = measure(name, size, rounds), measure(other, other_size, rounds)
        note = f"{slow.seconds:.2f} s (cpu {slow.cpu:.2f}) against {fast.seconds:.2f} s (cpu {fast.cpu:.2f})"
        yield Figure(f"{name} ({size:,}) over {other}", slow.seconds / fast.seconds, bound, False, note=note)
