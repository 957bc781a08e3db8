"""What a run prints at its end: how many tests passed, why others were skipped, where the minutes went.

    ---- minutes by group ----
      4.1  spark             482 tests
      2.2  interop            61 tests
    ---- slowest ten ----
     61.3 s  tests/statements/test_statements.py::test_...
    9,214 passed, 3 skipped

A group is what runs on one worker in one piece, or the folder of a module. Its minutes are of the clock, setup and
teardown of fixtures included; workers run side by side, so they add up to more than the whole run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from _pytest.terminal import TerminalReporter

SLOWEST = 10


class Summary:
    """A plugin of pytest that collects the reports of all workers."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.passed = 0
        self.skipped: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        self.passed += report.passed and report.when == "call"
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[reason.removeprefix("Skipped: ")] += 1

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if len(self.seconds) < 100:  # of a few tests a developer wants to know whether they pass
            return
        write: Any = terminalreporter.write_line
        groups: defaultdict[str, float] = defaultdict(float)
        sizes: Counter[str] = Counter()
        for test, seconds in self.seconds.items():
            groups[group_of(test)] += seconds
            sizes[group_of(test)] += 1
        terminalreporter.section("minutes by group")
        for group, seconds in sorted(groups.items(), key=by_time):
            write(f"{seconds / 60:7.1f}  {group:<24}{sizes[group]:>6,} tests")
        terminalreporter.section("slowest ten")
        for test, seconds in sorted(self.seconds.items(), key=by_time)[:SLOWEST]:
            write(f"{seconds:7.1f} s  {test.partition('@')[0]}")
        terminalreporter.section("passed and skipped")
        for reason, count in self.skipped.most_common():
            write(f"{count:>6,} skipped: {reason}")
        write(f"{self.passed:>6,} passed, {sum(self.skipped.values()):,} skipped")


def group_of(test: str) -> str:
    """`tests/jobs/test_verify.py::test_x[a]@jobs/test_verify` -> jobs, `tests/spark/...@spark` -> spark."""
    group = test.rpartition("@")[2] if test.rfind("@") > test.rfind("]") else ""
    if group and "/" not in group:
        return group
    path = test.partition("::")[0].split("/")
    return path[1] if len(path) > 2 else path[-1]


def by_time(taken: tuple[str, float]) -> float:
    return -taken[1]
