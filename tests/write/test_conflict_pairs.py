"""A plans, B commits, C commits, A commits: sealberg decides as Iceberg Java does, or differs for a reason on the list.

What Java does is in vectors/conflicts; tests/interop/test_conflict_pairs_java.py asks Java again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.tables.conflict_cases import PLANNED, SECOND, by_second, differences, pairs, verdicts
from kit.tables.conflict_differences import REASONS, reason
from kit.tables.conflict_page import END, PAGE, START, tables
from kit.tables.conflict_python import PairsTable

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA = verdicts()
DIFFERENT = {
    (pair, planned): (why, ours)
    for why, found in differences().items()
    for pair, by in found.items()
    for planned, ours in by.items()
}
# The ones in which sealberg once lost an acknowledged change, and one of each other kind.
QUICK = (
    "delete near and far row mor / replace a far vector",
    "delete near and far row mor / append, expire the rest",
    "append matching / rewrite manifests",
    "overwrite same file / merge manifests",
    "remove branch / roll back before it",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PairsTable]:
    with PairsTable(tmp_path_factory.mktemp("pairs")) as opened:
        yield opened


def check(table: PairsTable, pair: dict[str, Any]) -> None:
    name = pair["name"]
    found = table.verdicts(pair)
    why = {planned: reason(name, planned, JAVA[name], ours) for planned, ours in found.items()}
    wanted = {planned: DIFFERENT.get((name, planned), (None, ours)) for planned, ours in found.items()}
    assert {planned: (why[planned], ours) for planned, ours in found.items()} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_pair_ends_as_in_java(table: PairsTable, name: str) -> None:
    check(table, next(pair for pair in pairs() if pair["name"] == name))


@pytest.mark.slow
@pytest.mark.parametrize("second", [operation["name"] for operation in SECOND])
def test_all_pairs_end_as_in_java(table: PairsTable, second: str) -> None:
    for pair in by_second(second):
        if pair["name"] not in QUICK:
            check(table, pair)


def test_java_has_a_verdict_on_every_case() -> None:
    names = {operation["name"] for operation in PLANNED}
    assert list(JAVA) == [pair["name"] for pair in pairs()]
    assert all(names <= set(by) for by in JAVA.values())


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    assert {why for why, _ in DIFFERENT.values()} == set(REASONS)
    for (pair, planned), (why, ours) in DIFFERENT.items():
        assert reason(pair, planned, JAVA[pair], ours) == why


def test_no_row_of_another_commit_is_lost_where_java_would_keep_it() -> None:
    """Where both allow A and the rows differ, sealberg has more of them."""
    both = [
        (JAVA[pair][planned], ours)
        for (pair, planned), (_, ours) in DIFFERENT.items()
        if ours.startswith("allowed") and JAVA[pair][planned].startswith("allowed")
    ]
    assert both
    assert all(set(java.split()) < set(ours.split()) for java, ours in both)


def test_the_page_shows_these_verdicts() -> None:
    assert PAGE.read_text().partition(START)[2].partition(END)[0] == tables()
