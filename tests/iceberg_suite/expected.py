"""The list of what Iceberg's own tests are expected to do on sealberg's catalog: `expected.toml`.

    [[left_out]]   reason, tests          may do either, or never run
    [[fails]]      kind, reason, tests    run and expected to fail

    kind         why it fails
    "design"     sealberg does it otherwise, on purpose; `decision` is the page that says so
    "missing"    sealberg cannot do it; `feature` names it
    "harness"    the test asks for objects of Iceberg's connector, and says nothing about sealberg's

No kind stands for a wrong answer, or for a statement that sealberg takes and Iceberg refuses: they are mended.

A test is named `sql.TestSelect#testSelect`, in the package org.apache.iceberg.spark, and fails with every row of
parameters; `... [row]` is one of them, and a class stands for all its tests. A test that fails and is not in the list
is a complaint, and so is a listed one that passes, or a name that is no test's.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_suite.runner import Result

LIST: Final = Path(__file__).with_name("expected.toml")
DECISIONS: Final = Path(__file__).parents[2] / "docs" / "decisions"
Kind = Literal["design", "missing", "harness"]


@dataclass(frozen=True)
class Expected:
    """Names of tests with the reason of each."""

    out: dict[str, str]
    failures: dict[str, str]

    def complaints(self, classes: list[str], results: list[Result]) -> Iterator[str]:
        """What is otherwise than expected, after a run of these classes."""
        seen = set[str]()
        for one in results:
            known = (f"{one.name} [{one.row}]", one.name, one.name.partition("#")[0])
            reason = next((self.failures[name] for name in known if name in self.failures), None)
            if one.status in ("aborted", "skipped"):  # by an assumption of its own
                continue
            seen.update(known)
            if any(name in self.out for name in known):
                continue
            if one.status == "failed" and reason is None:
                yield f"{known[0]} fails, and is not in {LIST.name}: {one.error[:1000]}"
            elif one.status != "failed" and reason is not None:
                yield f"{known[0]} passes, but {LIST.name} expects that it fails: {reason}"
        for name in classes:
            if name not in seen:
                yield f"{name}: no test has run"
        for name in sorted({name for name in self.failures if name.partition("#")[0] in classes} - seen):
            yield f"{name} is in {LIST.name}, and is no test that runs"


def read_expected() -> Expected:
    """The list; a name that stands in it twice is an error, and so is a reason that says nothing."""
    read = tomllib.loads(LIST.read_text(encoding="utf-8"))
    for group in read["fails"]:
        _check(group)
    out, failures = _names(read.get("left_out", [])), _names(read["fails"])
    if both := out.keys() & failures.keys():
        raise ValueError(f"{LIST.name} leaves out and expects to fail: {', '.join(sorted(both))}")
    return Expected(out, failures)


def _check(group: dict[str, object]) -> None:
    kind, reason = group["kind"], group["reason"]
    if kind not in get_args(Kind):
        raise ValueError(f"{LIST.name}: the kind {kind} is none of {', '.join(get_args(Kind))}: {reason}")
    if kind == "design" and not (DECISIONS / f"{group['decision']}.md").is_file():
        raise ValueError(f"{LIST.name}: there is no decision {group['decision']} in {DECISIONS}: {reason}")
    if kind == "missing" and not group["feature"]:
        raise ValueError(f"{LIST.name}: what is missing has no name: {reason}")


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
