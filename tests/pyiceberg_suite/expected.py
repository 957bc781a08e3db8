"""The list of what PyIceberg's own tests are expected to do on sealberg's catalogs: `expected.toml`.

    [[left_out]]   reason, tests          not run: never touch sealberg's code, or cannot run without Docker
    [[fails]]      reason, on, tests      run and expected to fail, in the modes `on` ("plain", "encrypted")

A test is named as pytest names it, from `tests/`; a file or a function stands for all of its cases. A test that fails
and is not in the list fails the run, and so does a listed test that passes, or a name that is no test's.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIST: Final = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Expected:
    """What is expected in one mode: names of tests with the reason of each."""

    out: dict[str, str]
    failures: dict[str, str]

    def left_out(self, nodeid: str) -> str | None:
        return _find(self.out, nodeid)

    def failure(self, nodeid: str) -> str | None:
        return _find(self.failures, nodeid)

    def unknown(self, nodeids: set[str]) -> set[str]:
        """Names in the list that are no test's, among the files that were collected."""
        files = {nodeid.partition("::")[0] for nodeid in nodeids}
        known = nodeids | files | {_function(nodeid) for nodeid in nodeids}
        return {name for name in self.failures.keys() | self.out.keys() if name.partition("::")[0] in files} - known


def read_expected(mode: str) -> Expected:
    """The list for one mode; a name that stands in it twice is an error."""
    read = tomllib.loads(LIST.read_text())
    out = _names(read.get("left_out", []))
    failures = _names([group for group in read.get("fails", []) if mode in group["on"]])
    return Expected(out, failures)


def _names(groups: list[dict[str, object]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in groups:
        tests = group["tests"]
        assert isinstance(tests, list)
        for name in tests:
            if name in found:
                raise ValueError(f"{LIST.name} names {name} twice")
            found[str(name)] = str(group["reason"])
    return found


def _find(names: dict[str, str], nodeid: str) -> str | None:
    known = (nodeid, _function(nodeid), nodeid.partition("::")[0])
    return next((names[one] for one in known if one in names), None)


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]
