"""A figure: what was measured, compared with what, and the bound that it should keep."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Figure:
    """One line of the report."""

    name: str
    value: float
    bound: float
    at_least: bool
    unit: str = ""
    note: str = ""
    points: tuple[tuple[float, float], ...] = ()  # (size, value) for a curve on the page

    @property
    def kept(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign, mark = (">=" if self.at_least else "<="), ("kept" if self.kept else "MISSED")
        return f"{self.value:10.2f} {self.unit:6} {sign} {self.bound:<8g} {mark:7} {self.name}  {self.note}"


def best(acts: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The shortest time of each act over several rounds; the acts take turns, so that noise affects all of them."""
    times: dict[str, float] = {}
    for _ in range(rounds):
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            spent = time.perf_counter() - began
            times[name] = min(spent, times.get(name, spent))
    return times
