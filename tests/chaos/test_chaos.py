"""A short round of every scenario: what `make chaos` plays for hours. `make test` plays three of them.

CHAOS_SEED chooses other operations and faults; CHAOS_SECONDS makes rounds longer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from chaos.scenarios import SCENARIOS, play

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("CHAOS_SEED", "1"))
SECONDS = float(os.environ.get("CHAOS_SECONDS", "12"))
USUAL = {"kills", "lost-answers", "postgresql"}
ROUNDS = [pytest.param(name, marks=() if name in USUAL else pytest.mark.deep) for name in SCENARIOS]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyIceberg, when an operation matches nothing
@pytest.mark.parametrize("name", ROUNDS)
def test_nothing_acknowledged_is_lost_and_nothing_that_failed_is_seen(name: str, tmp_path: Path) -> None:
    verdict = play(name, SEED, SECONDS, tmp_path / "round")
    print(verdict.figures)
    assert not verdict.violations, f"scenario {name}, seed {SEED}:\n{verdict}\n{verdict.figures}"
    assert verdict.figures["acknowledged"] > 0
