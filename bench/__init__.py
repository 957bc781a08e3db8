"""Ratios, measured: both sides in one run, interleaved, the best of several.

    python -m bench [--json FILE] [--rounds N] [NAME ...]

A figure is a ratio or a count with a bound; the machine's own speed cancels out. Nothing here is a test:
a slow neighbour must not fail a build.
"""

import sys
from pathlib import Path

# The servers that some of them need are started as the tests start them.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
