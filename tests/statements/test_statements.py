"""Every statement of vectors/statements gives on encrypted tables what it gives on tables of Iceberg Java.

What differs is in differences.json, with a reason each. A new difference fails, and so does one that is gone.
`python -m kit.tables.statement_differences` (from the folder `tests`) writes the file anew.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kit.programs.statement_runner import both_catalogs, run_both
from kit.tables.statement_differences import found_differences, same
from kit.tables.statement_page import PAGE, between, page
from kit.tables.statement_reasons import REASONS
from kit.tables.statements import chapters, differences

if TYPE_CHECKING:
    from pathlib import Path

LEAST = 600


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # Spark's own
def test_statements_do_what_they_do_on_tables_of_java(tmp_path: Path) -> None:
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it writes the stack of every refusal
    with both_catalogs(tmp_path) as sides:
        outcomes = run_both(sides, chapters().values())
    crashed = {known: ours for by in outcomes.values() for known, (ours, _) in by.items() if "crashed: " in ours}
    assert not crashed
    kept = _by_statement({name: {k: (v.ours, v.java) for k, v in by.items()} for name, by in differences().items()})
    found = _by_statement(found_differences(outcomes))
    new = {known: found[known] for known in found if kept.get(known) != found[known]}
    gone = {known: kept[known] for known in kept if known not in found}
    assert (new, gone) == ({}, {})
    assert sum(map(len, outcomes.values())) >= LEAST


def _by_statement(differences: dict[str, dict[str, tuple[str, str]]]) -> dict[tuple[str, str], tuple[str, str]]:
    return {(name, known): one for name, by in differences.items() for known, one in by.items()}


def test_every_difference_is_of_a_statement_and_has_a_reason() -> None:
    known = chapters()
    for name, by in differences().items():
        assert by.keys() <= known[name].statements.keys()
        assert {one.reason for one in by.values()} <= REASONS.keys()
    assert REASONS.keys() == {one.reason for by in differences().values() for one in by.values()}


def test_the_page_shows_every_difference() -> None:
    assert between(PAGE.read_text()) == page()


@pytest.mark.parametrize(
    ("ours", "java", "expected"),
    [
        ("id int | (1)", "id int | (1)", True),
        ("id int | (1)", "id int | (2)", False),
        ("id int | (1)", "id bigint | (1)", False),
        ("refused: ConfigError", "refused: IllegalArgumentException", True),
        ("refused: ConfigError", "id int", False),
        ("refused: PARSE_SYNTAX_ERROR", "refused: PARSE_SYNTAX_ERROR", True),
        ("refused: PARSE_SYNTAX_ERROR", "refused: DIVIDE_BY_ZERO", False),
        ("crashed: NullPointerException", "refused: IllegalArgumentException", False),
        ("refused: ConfigError then id int | (1)", "refused: ValidationException then id int | (1)", True),
        ("refused: ConfigError then id int | (1)", "refused: ValidationException then id int", False),
    ],
)
def test_two_outcomes_are_the_same_or_not(ours: str, java: str, expected: bool) -> None:
    assert same(ours, java) is expected
