"""Iceberg Java still does with three commits what vectors/conflicts says of it.

All cases take some minutes; `python -m kit.tables.conflict_java` (in the folder `tests`) asks for all and writes the
file anew. Here one (B, C) for each B is asked for, another C from one B to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.tables.conflict_cases import SECOND, by_second, verdicts
from kit.tables.conflict_java import derive

if TYPE_CHECKING:
    from pathlib import Path


def test_java_does_what_is_written_down(tmp_path: Path) -> None:
    choices = [by_second(operation["name"]) for operation in SECOND]
    sample = [of_second[number % len(of_second)] for number, of_second in enumerate(choices)]
    kept = verdicts()
    assert derive(tmp_path, sample) == {pair["name"]: kept[pair["name"]] for pair in sample}
