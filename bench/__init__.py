"""Benchmarks as ratios: both sides are measured in one run, in turns, and the best of several rounds counts.

    python -m bench [--json FILE] [--rounds N] [NAME ...]

A figure is a ratio or a count with a bound, so the speed of the machine cancels out. Benchmarks are not tests:
other load on the machine must not fail a build.
"""

import sys
from pathlib import Path

# Some benchmarks start servers with tests/kit, as the tests do.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
