"""Every planted fault is found, and nothing is found in a clean table."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from jobs.forge import Lake
from jobs.forged import FORGED
from jobs.planted import FAULTS
from sealberg.jobs.verify import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobs.planted import Fault
    from sealberg.jobs.findings import Level, Verification


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(autouse=True)
def _restored(lake: Lake) -> Iterator[None]:
    yield
    lake.restore()


def verified(lake: Lake, level: Level = "full") -> Verification:
    with lake.catalog() as catalog:
        return plan(lake.name, catalog=catalog, level=level, orphan_age=timedelta(0)).execute()


@pytest.mark.parametrize("level", ["fast", "full", "deep"])
def test_a_clean_table_is_sound(lake: Lake, level: Level) -> None:
    result = verified(lake, level)
    assert (result.verdict, result.exit_code, result.findings) == ("sound", 0, ())
    (table,) = result.tables
    assert {kind.kind: kind.files for kind in table.kinds} == {
        "metadata": 6,
        "manifest-list": 4,
        "manifest": 4,
        "data": 6,
        "deletion-vectors": 1,
    }
    assert all(kind.checked_files == kind.files for kind in table.kinds)
    assert all(snapshot.checked for snapshot in table.snapshots)


def test_there_are_more_than_sixty_faults() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 60


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FAULTS])
def test_a_planted_fault_is_found(lake: Lake, fault: Fault) -> None:
    with lake.forge() as forge:
        fault.plant(forge)
    result = verified(lake, fault.level)
    codes = {finding.code for finding in result.findings}
    assert (result.exit_code, fault.code in codes) == (1, True), str(result)


def test_each_forged_state_has_a_name() -> None:
    assert len({fault.name for fault in FORGED}) == len(FORGED) > 60


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.name) for fault in FORGED])
def test_a_forged_state_is_told(lake: Lake, fault: Fault) -> None:
    with lake.forge() as forge:
        fault.plant(forge)
    result = verified(lake, fault.level)
    codes = {finding.code for finding in result.findings}
    assert (result.exit_code, fault.code in codes) == (1, True), str(result)
