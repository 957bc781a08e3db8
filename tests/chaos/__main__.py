"""Chaos for as long as one likes: rounds of every scenario in turns, each with a seed of its own.

    python -m chaos --minutes 60 --json build/chaos.json       CHAOS_MINUTES=60 make chaos
    python -m chaos --only kills --seed 7                      one round again
    python -m chaos --jobs 20 --json build/jobs.json           20 kills of each job that moves a table (`job_kills`)

The first seed is printed, and each round prints its own; the summary has the figures of all rounds, added up. The exit
status is 1 if a promise was broken; the folder of such a round is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos import job_kills
from chaos.scenarios import SCENARIOS, play


def main() -> int:
    asked = _arguments()
    warnings.simplefilter("ignore")
    if asked.jobs:
        return job_kills.main(asked.jobs, asked.seed, asked.only, asked.json, asked.folder)
    names = asked.only.split(",") if asked.only else list(SCENARIOS)
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    again = asked.seed is not None and asked.only and "," not in asked.only
    minutes = asked.minutes if asked.minutes is not None else 0.0 if again else 60.0
    print(f"chaos: seed {seed}, scenarios {', '.join(names)}", flush=True)
    root = Path(asked.folder or tempfile.mkdtemp(prefix="sealberg-chaos-"))
    began, rounds = time.monotonic(), list[dict[str, Any]]()
    while not rounds or time.monotonic() - began < minutes * 60:
        number = len(rounds)
        name = names[number % len(names)]
        folder = root / f"{name}-{seed + number}"
        rounds.append(_round(name, seed + number, asked.seconds, folder))
        played = round((time.monotonic() - began) / 60, 1)
        summary = {"seed": seed, "minutes": played, **added(rounds), "rounds": rounds}
        if asked.json:
            Path(asked.json).write_text(json.dumps(summary, indent=1))
    total = added(rounds)
    print(json.dumps(total, indent=1))
    return 1 if total["violations"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, help="60, or one round if it is said which one and by which seed")
    parser.add_argument("--seconds", type=float, default=40.0, help="of one round")
    parser.add_argument("--seed", type=int, help="of the first round; each further one adds 1")
    parser.add_argument("--jobs", type=int, help="kill each job that moves a table so often, instead of the rounds")
    parser.add_argument(
        "--only", help=f"scenarios, with commas between: {', '.join(SCENARIOS)}; of jobs: threads, spark"
    )
    parser.add_argument("--folder", help="where tables and logs go")
    parser.add_argument("--json", help="a file for the figures")
    return parser.parse_args()


def _round(name: str, seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    try:
        verdict = play(name, seed, seconds, folder, say=lambda text: print(text, flush=True))
        figures, violations, kinds = verdict.figures, verdict.violations, dict(verdict.kinds)
    except (Exception, pytest.fail.Exception) as error:  # a round that could not be played is no round that was passed
        figures, violations, kinds = {}, [f"the round failed: {type(error).__name__}: {error}"], {"round failed": 1}
    took = round(time.monotonic() - began, 1)
    told = {key: figures.get(key) for key in ("operations", "acknowledged", "failed", "unknown", "killed", "orphans")}
    print(f"  {took} s: {told}; violations {kinds}", flush=True)
    for violation in violations[:10]:
        print(f"  {violation[:500]}", file=sys.stderr, flush=True)
    if violations:
        print(f"  kept: {folder}", file=sys.stderr, flush=True)
        (folder / "violations.txt").write_text("\n".join(violations))
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return {"scenario": name, "seed": seed, "seconds": took, "violations": kinds, **figures}


def added(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of all rounds: numbers added, counts added by name."""
    total: Counter[str] = Counter()
    by_name: dict[str, Counter[str]] = {}
    for each in rounds:
        for key, value in each.items():
            if isinstance(value, dict):
                by_name.setdefault(key, Counter()).update(value)
            elif isinstance(value, int) and key != "seed":
                total[key] += value
    return {"rounds played": len(rounds), **total, **{key: dict(sorted(each.items())) for key, each in by_name.items()}}


if __name__ == "__main__":
    sys.exit(main())
