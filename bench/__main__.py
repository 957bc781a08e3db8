"""Run the benchmarks and print a table, and JSON where asked."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from bench import ags1, spark, tables

BENCHES = {"ags1": ags1.figures, "tables": tables.figures, "spark": spark.figures}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Ratios against the anchors, both sides in one run.")
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(BENCHES)} (all if left out)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds; the best of each counts")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    found = [figure for name in given.names or BENCHES for figure in BENCHES[name](given.rounds)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, best of {given.rounds}\n")
    for figure in found:
        sign, mark = (">=" if figure.at_least else "<="), ("kept" if figure.kept else "MISSED")
        print(f"{figure.value:10.2f} {figure.unit:6} {sign} {figure.bound:<8g} {mark:7} {figure.name}  {figure.note}")
    if given.json:
        given.json.write_text(json.dumps([{**asdict(figure), "kept": figure.kept} for figure in found], indent=2))


if __name__ == "__main__":
    main()
