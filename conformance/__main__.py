"""Run the vectors against a program: `python -m conformance -- COMMAND`; README.md says what the program must do."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vectors.cases import DifferenceError

from conformance.operations import every_operation
from conformance.programs import DONE, NOT_SUPPORTED, CrashError, OneProcess, ProcessEach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from conformance.operations import Operation
    from conformance.programs import Program


@dataclass(frozen=True)
class Outcome:
    """What a program did with one operation; `difference` is None where it did what it must."""

    name: str
    tried: bool
    difference: str | None = None


def run(operations: Iterable[Operation], program: Program, folder: Path) -> list[Outcome]:
    found = []
    for operation in operations:
        place = folder / operation.name.translate(str.maketrans(" /", "--"))
        place.mkdir()
        operation.give(place)
        found.append(_run_one(operation, program, place))
        shutil.rmtree(place)
    return found


def _run_one(operation: Operation, program: Program, folder: Path) -> Outcome:
    try:
        code = program.run(operation.name.partition(" ")[0], folder)
        if code == NOT_SUPPORTED:
            return Outcome(operation.name, tried=False)
        if operation.good or code != DONE:
            operation.check(folder, done=code == DONE)
        if operation.good != (code == DONE):
            did, must = ("done", "be refused") if code == DONE else ("refused", "succeed")
            return Outcome(operation.name, tried=True, difference=f"{did}, must {must}: {operation.why}")
    except (CrashError, DifferenceError) as error:
        return Outcome(operation.name, tried=True, difference=f"{error}: {operation.why}")
    return Outcome(operation.name, tried=True)


def read_known(path: Path) -> dict[str, str]:
    """Lines `OPERATION VECTOR: REASON`; empty lines and lines after # say nothing."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, reason = line.partition(":")
            if not reason.strip():
                raise SystemExit(f"{path}: a line is `OPERATION VECTOR: REASON`, found {line!r}")
            found[name.strip()] = reason.strip()
    return found


def report(outcomes: Sequence[Outcome], known: Mapping[str, str]) -> tuple[list[str], bool]:
    """The lines to print, and whether the program did what was expected of it."""
    ok = Counter(o.name.split()[0] for o in outcomes if o.tried and o.difference is None)
    other = Counter(o.name.split()[0] for o in outcomes if o.difference is not None)
    left = Counter(o.name.split()[0] for o in outcomes if not o.tried)
    lines = ["operation  as expected  different  not supported"]
    verbs = dict.fromkeys(outcome.name.split()[0] for outcome in outcomes)
    lines += [f"{verb:<9}  {ok[verb]:>11}  {other[verb]:>9}  {left[verb]:>13}" for verb in verbs]
    different = {o.name: o.difference for o in outcomes if o.difference is not None}
    new = {name: why for name, why in different.items() if name not in known}
    gone = [o.name for o in outcomes if o.name in known and o.name not in different]
    strangers = [name for name in known if name not in {o.name for o in outcomes}]
    lines += [f"known      {name}: {known[name]}" for name in different if name in known]
    lines += [f"DIFFERENT  {name}: {why}" for name, why in new.items()]
    lines += [f"STALE      {name}: is known as different, and is not; remove the line" for name in gone]
    lines += [f"STALE      {name}: is known as different, and is no operation of this run" for name in strangers]
    return lines, not (new or gone or strangers)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m conformance",
        description="Run the vectors against a program; conformance/README.md has the rest.",
    )
    parser.add_argument("command", nargs="+", help="the program, after --")
    parser.add_argument(
        "--one-process", action="store_true", help="start it once; operations come as lines on its stdin"
    )
    parser.add_argument("--known", type=Path, metavar="FILE", help="differences that are expected, with their reasons")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="operations whose name has this text: 'open ags1/key'"
    )
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for one operation (600)")
    options = parser.parse_args(arguments)
    operations = [each for each in every_operation() if options.only in each.name]
    if not operations:
        parser.error(f"no operation has {options.only!r} in its name")
    known = read_known(options.known) if options.known else {}
    known = {name: reason for name, reason in known.items() if options.only in name}
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        folder = Path(scratch)
        program: Program = (
            OneProcess(options.command, options.timeout, folder / "stderr")
            if options.one_process
            else ProcessEach(options.command, options.timeout)
        )
        with contextlib.closing(program):
            outcomes = run(operations, program, folder)
    lines, good = report(outcomes, known)
    print("\n".join(lines))
    if not any(outcome.tried for outcome in outcomes):
        print("NOTHING    was tried: the program supports none of these operations")
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
