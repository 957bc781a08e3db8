"""Run the benchmarks: print each figure as it is measured; optionally write JSON and an HTML page with bars."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from bench.page import page

BENCHES = (
    "ags1",
    "tables",
    "stores",
    "verify",
    "life",
    "compact",
    "calls",
    "growth",
    "long_metadata",
    "plans",
    "move",
    "move_keys",
    "statistics",
    "spark",
    "spark_growth",
    "spark_stores",
    "doors",
    "rewrap",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Ratios against the anchors, both sides in one run.")
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(BENCHES)} (all if left out)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds; the best of each counts")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--page", type=Path, help="and a page with bars here")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    machine = _machine(given.rounds)
    print(", ".join(f"{name} {value}" for name, value in machine.items()), flush=True)
    found = []
    for name in given.names or BENCHES:
        # One benchmark at a time: the Spark session of one must not influence another.
        for figure in importlib.import_module(f"bench.{name}").figures(given.rounds):
            found.append(figure)
            print(figure, flush=True)
    missed = [figure.name for figure in found if not figure.kept]
    print("\nall figures kept" if not missed else "\nfalls short:\n  " + "\n  ".join(missed))
    if given.json:
        told = {"machine": machine, "figures": [{**asdict(figure), "kept": figure.kept} for figure in found]}
        given.json.write_text(json.dumps(told, indent=2))
    if given.page:
        given.page.write_text(page(found, machine))


def _machine(rounds: int) -> dict[str, str]:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before",
        "Python": platform.python_version(),
        **{name: version(name) for name in ("pyarrow", "pyiceberg", "cryptography", "pyspark")},
        "best of": str(rounds),
    }


if __name__ == "__main__":
    main()
