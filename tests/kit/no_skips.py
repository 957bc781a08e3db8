"""In CI (the variable CI is set) nothing is skipped.

A test that would be skipped because a program, a package or a download is missing fails with that reason.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)


def is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false", "no"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _no_skip(report, item.nodeid) if is_ci() else report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _no_skip(report, collector.nodeid) if is_ci() else report


def _no_skip(report: R, where: str) -> R:
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{where} would be skipped, and in CI nothing is: {reason}"
    return report
