"""What holds for all tests.

Hypothesis judges answers, not the speed of a machine that others use too. In CI (the variable CI is set) nothing is
skipped: a test that would be skipped because a program, a package or a download is missing fails with that reason.

The jar for Spark is compiled before the first test where a Java source has changed, so that a bare `pytest` tests the
present sources.

Tests are marked by what they need (`spark`, `java`, `server`), which shows in what their module imports of `kit` and in
their fixtures: `pytest -m "not java and not server"`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)

settings.register_profile("sealberg", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("sealberg"), max_examples=20)
settings.load_profile("sealberg")


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.option.markexpr:  # `make quick`; all examples run in `make test`
        settings.load_profile("quick")
    if not hasattr(config, "workerinput"):  # once, before the workers of xdist start
        # Where it fails, a test that needs the jar says so.
        subprocess.run([sys.executable, Path(__file__).parents[1] / "jvm" / "jar.py"], check=False)


SPARK: Final = (
    r"kit\.programs\.(spark|one_spark|doors|iceberg_java|statement_runner)\w*|kit\.tables\.three|import pyspark"
)
SERVERS: Final = (
    "glue|hostile_server|metastore|openbao|postgres|postgres_proxy|rest_faults|rest_server|softhsm|store_servers|"
    "store_proxy_server|thrift_proxy"
)
JAVA: Final = rf"{SPARK}|kit\.programs\.maven|servers(\.| import )(metastore|rest_server)\b"
NEEDS: Final = {  # a mark: what a module imports that needs it, and the fixtures that do
    "spark": (re.compile(SPARK), {"kit", "java", "three"}),
    "java": (re.compile(JAVA), {"kit", "java", "three"}),
    "server": (re.compile(rf"kit\.servers(\.| import )({SERVERS})\b"), {"java", "three"}),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for mark in needs_of(item.path) | {mark for mark, (_, names) in NEEDS.items() if fixtures & names}:
            item.add_marker(mark)


@cache
def needs_of(module: Path) -> frozenset[str]:
    text = module.read_text(encoding="utf-8")
    return frozenset(mark for mark, (pattern, _) in NEEDS.items() if pattern.search(text))


def _is_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false", "no"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _no_skip(report, item.nodeid) if _is_ci() else report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _no_skip(report, collector.nodeid) if _is_ci() else report


def _no_skip(report: R, where: str) -> R:
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{where} would be skipped, and in CI nothing is: {reason}"
    return report
