"""What holds for all tests.

Hypothesis judges answers, not the speed of a machine that others use too. In CI nothing is skipped (kit/no_skips.py).

The jar for Spark is compiled before the first test where a Java source has changed, so that a bare `pytest` tests the
present sources.

Tests are marked by what they need (`spark`, `java`, `server`), which shows in what their module imports of `kit` and in
their fixtures: `pytest -m "not java and not server"`.

`make test` runs all tests but those marked `deep`, which `make deep` runs, with more examples for Hypothesis. At the
end of both, Iceberg Java loads every metadata.json that a test has written (kit/java_loads.py).

With several workers (`--dist loadgroup`) the tests of one module run on one worker, and so do all that share an
engine: one Spark session, one session with Iceberg Java. What takes longest begins first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from kit import java_loads, leftovers, no_skips
from kit.summary import Summary

TESTS: Final = Path(__file__).parent

settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("ci"), max_examples=1000)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=20)
settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    leftovers.watch(config)
    config.pluginmanager.register(no_skips)
    java_loads.watch(config)
    if "not slow" in config.option.markexpr:  # `make quick`
        settings.load_profile("quick")
    if not hasattr(config, "workerinput"):  # once, before the workers of xdist start
        config.pluginmanager.register(Summary())
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


# Groups of tests that take long, longest first: those of a fixture, of a folder or of a module.
LONG: Final = ("spark", "interop", "statements", "iceberg_suite", "releases", "pyiceberg_suite", "chaos")


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups, and pytest for marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        for mark in needs_of(item.path) | {mark for mark, (_, names) in NEEDS.items() if fixtures & names}:
            item.add_marker(mark)
        if _is_another_catalog(item):
            item.add_marker("deep")
        if item.get_closest_marker("deep"):
            item.add_marker("slow")
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    slow = {_group_of(item) for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _rank(_group_of(item), slow))  # stable: within a group the order stays


def _is_another_catalog(item: pytest.Item) -> bool:
    """Whether a test of all catalogs (kit/tables/catalogs.py) runs on another than SQLite without need."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    kind = parameters.get("lake") or parameters.get("vouching") or "sqlite"
    return kind != "sqlite" and item.get_closest_marker("every_catalog") is None


def _group(item: pytest.Item) -> str:
    """Its module, or the engine that it shares with others."""
    folder = item.path.relative_to(TESTS).parts[0]
    if "kit" in getattr(item, "fixturenames", ()):
        return "spark"
    if folder in ("interop", "statements"):
        return folder
    return item.path.relative_to(TESTS).with_suffix("").as_posix()


def _group_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return str(mark.args[0])


def _rank(group: str, slow: set[str]) -> int:
    """Where a group stands in the queue: the long ones first, then those with slow tests."""
    name = group.partition("/")[0] if group.startswith(("chaos/", "iceberg_suite/", "pyiceberg_suite/")) else group
    return LONG.index(name) if name in LONG else len(LONG) + (group not in slow)


@cache
def needs_of(module: Path) -> frozenset[str]:
    text = module.read_text(encoding="utf-8")
    return frozenset(mark for mark, (pattern, _) in NEEDS.items() if pattern.search(text))
