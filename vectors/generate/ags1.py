"""Vectors of AGS1 streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vectors.generate import ags1_altered, ags1_good, ags1_lengths

if TYPE_CHECKING:
    from vectors.text import Vector


def every_vector() -> list[Vector]:
    return [v for module in (ags1_good, ags1_lengths, ags1_altered) for v in module.case.vectors()]
