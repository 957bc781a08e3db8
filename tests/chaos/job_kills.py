"""Jobs whose driver is killed: encrypt, decrypt, rekey, change-master, compact, each on SQLite and on PostgreSQL.

    python -m chaos --jobs 20 --seed 1              20 kills of each job, on threads and on Spark with two workers
    python -m chaos.job_kills --only spark --kills 3 --jobs rekey,compact

    tables are made ──> a driver runs all jobs, each stops at its operation ──> a writer commits to each table
                    ──> SIGKILL of the driver, whose JVM dies with it       ──> the tables open, rows equal the model
                    ──> another driver runs the jobs again, beside the writer
                    ──> rows equal the model, the jobs are done, nothing foreign remains

The cluster stays up; a driver is started per kill, and one kill is a kill of every cell (see `job_driver`). A first
run without a kill tells the operations; a seed chooses among them, of every kind as often.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
import uuid
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chaos.job_cells import JOBS, KINDS, Cell, Meddling, lineage, new_cell, opens, prepare, violations, work
from chaos.job_process import Driver
from kit.programs.spark import FRUGAL
from kit.programs.spark_failures import CLUSTER
from kit.programs.two_workers import cluster
from kit.servers.postgres import new_postgres
from sealberg.jobs.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from chaos.job_cells import Writer
    from sealberg.jobs.runner import Runner

T = TypeVar("T")
R = TypeVar("R")

WHERE: Final = ("threads", "spark")
CORES: Final = 18  # of each worker; a task that hangs must not keep others from their slot
CONF: Final = {
    **CLUSTER,
    "spark.cores.max": "12",
    "spark.python.daemon.module": "chaos.python_daemon",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": FRUGAL,
    "spark.executor.extraJavaOptions": FRUGAL,
    "spark.log.level": "ERROR",
}
MEANWHILE_S: Final = 2.0  # for the writer while all jobs stand still; a job may hold the lock that the writer needs
AT_A_TIME: Final = 4


@dataclass
class Tally:
    """What was met in one cell, over all kills."""

    killed: Counter[str] = field(default_factory=Counter)  # by operation
    finished: int = 0  # before its operation was reached
    left: Counter[str] = field(default_factory=Counter)  # by code, before `orphans`; nothing without a kill
    violations: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "killed": sum(self.killed.values()),
            "at": dict(self.killed),
            "finished": self.finished,
            "left": dict(self.left),
            "violations": self.violations,
        }


@dataclass
class Matrix:
    """All cells of one runner.

    Args:
        where: threads or spark.
        runner: of the jobs that are run again.
    """

    where: str
    master: str
    runner: Runner
    folder: Path
    seed: int
    postgres: Any
    jobs: tuple[str, ...] = JOBS
    tallies: dict[str, Tally] = field(default_factory=dict)
    operations: dict[str, list[str]] = field(default_factory=dict)
    jvms_left: int = 0

    def play(self, kills: int, say: Callable[[str], None]) -> None:
        driver = self._driver()
        with self._cells("whole") as cells:
            self.tallies = {cell.name: Tally() for cell in cells}
            writers = dict(zip(self._names(cells), self._each(prepare, cells), strict=True))
            said = driver.run(cells, {})
            driver.end()
            for cell in cells:
                told = said.get(cell.name, {"state": "silent", "operations": []})
                self.operations[cell.name] = told["operations"]
                if told["state"] != "finished":
                    self._wrong(cell, "whole", f"{told['state']}: {told.get('error')}")
            self._each(lambda cell: self._again(cell, writers[cell.name], "whole"), cells)
        points = {name: chosen(seen, kills, self.seed, name) for name, seen in self.operations.items()}
        for number in range(kills):
            began = time.monotonic()
            self.kill(number, {name: each[number] for name, each in points.items() if each})
            say(f"{self.where}, kill {number + 1} of {kills}: {time.monotonic() - began:.0f} s, {self._summary()}")

    def kill(self, number: int, points: dict[str, int | None]) -> None:
        """One kill of every cell, at its point."""
        driver = self._driver()  # which starts while the tables are made
        with self._cells(f"kill{number}") as cells:
            writers = dict(zip(self._names(cells), self._each(prepare, cells), strict=True))
            said = driver.run(cells, points)
            writing = [threading.Thread(target=self._written, args=(cell, writers[cell.name])) for cell in cells]
            for thread in writing:
                thread.start()
            deadline = time.monotonic() + MEANWHILE_S
            for thread in writing:
                thread.join(max(0.0, deadline - time.monotonic()))
            driver.kill()
            for thread in writing:
                thread.join()
            for cell in cells:
                told = said.get(cell.name, {"state": "elsewhere", "operations": ["elsewhere"]})
                if told["state"] in ("stopped", "elsewhere"):
                    self.tallies[cell.name].killed[told["operations"][-1]] += 1
                elif told["state"] == "finished":
                    self.tallies[cell.name].finished += 1
                else:
                    self._wrong(cell, f"kill {number}", f"{told['state']}: {told.get('error')}")
            self._each(lambda cell: self._again(cell, writers[cell.name], f"kill {number}"), cells)
            self.jvms_left += driver.outlived()

    def _written(self, cell: Cell, writer: Writer) -> None:
        try:
            writer.step()
        except Exception:
            self._wrong(cell, "writer", traceback.format_exc()[-1500:])

    def _again(self, cell: Cell, writer: Writer, when: str) -> None:
        """The table opens; the job is run again beside the writer, and once more without it; then all is as it must."""
        at = f"{when}, seed {self.seed}"
        try:
            for wrong in opens(cell, writer):
                self._wrong(cell, at, wrong)
            before = lineage(cell)
            for runner in (Meddling(self.runner, writer), Threads(1)):
                if code := work(cell, runner):
                    self._wrong(cell, at, f"run again, it ended with {code}")
            found, left = violations(cell, writer, before)
            self.tallies[cell.name].left.update(each.partition(" ")[0] for each in left)
            if when == "whole":
                found += [f"left without a kill: {each}" for each in left]
            for wrong in found:
                self._wrong(cell, at, wrong)
        except Exception:
            self._wrong(cell, at, traceback.format_exc()[-1500:])

    def _wrong(self, cell: Cell, when: str, what: str) -> None:
        self.tallies[cell.name].violations.append(f"{self.where} {cell.name}, {when}: {what}")
        print(self.tallies[cell.name].violations[-1], file=sys.stderr, flush=True)

    def _driver(self) -> Driver:
        return Driver(self.where, self.master, self.folder / f"{self.where}-drivers.log")

    @contextmanager
    def _cells(self, name: str) -> Iterator[list[Cell]]:
        """New cells in a folder of their own, which is kept if anything in it is wrong."""
        folder = self.folder / self.where / name
        made = []
        for job in self.jobs:
            for kind in KINDS:
                (folder / f"{job}-{kind}").mkdir(parents=True)
                uri = f"sqlite:///{folder}/{job}-{kind}/catalog.db"
                if kind != "sqlite":
                    database = f"{job}-{kind}-{uuid.uuid4().hex[:8]}"
                    self.postgres.run(f'CREATE DATABASE "{database}"')
                    uri = self.postgres.uri(database)
                made.append(new_cell(job, kind, uri, folder))
        before = sum(len(tally.violations) for tally in self.tallies.values())
        yield made
        if sum(len(tally.violations) for tally in self.tallies.values()) == before:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def _names(cells: Iterable[Cell]) -> list[str]:
        return [cell.name for cell in cells]

    @staticmethod
    def _each(act: Callable[[Cell], R], cells: Sequence[Cell]) -> list[R]:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return list(pool.map(act, cells))

    def _summary(self) -> dict[str, int]:
        tallies = self.tallies.values()
        return {
            "killed": sum(tally.killed.total() for tally in tallies),
            "finished": sum(tally.finished for tally in tallies),
            "violations": sum(len(tally.violations) for tally in tallies),
        }

    def to_json(self) -> dict[str, Any]:
        cells = {name: tally.to_json() for name, tally in sorted(self.tallies.items())}
        return {**self._summary(), "JVMs left": self.jvms_left, "cells": cells}


def chosen(operations: list[str], count: int, seed: int, name: str) -> list[int]:
    """Operations at which to kill: the first, the last, and others by chance, of every kind as often.

    Most operations open a file, and the rare ones are those that change something.
    """
    dice = random.Random(f"{seed} {name}")
    if not operations:
        return []
    places: dict[str, list[int]] = {}
    for at, each in enumerate(operations):
        places.setdefault(each, []).append(at)
    made = [0, len(operations) - 1][: max(0, count - 2)]
    while len(made) < count:
        kinds = sorted(places)
        dice.shuffle(kinds)
        made += [dice.choice(places[kind]) for kind in kinds[: count - len(made)]]
    dice.shuffle(made)
    return made


def play(
    where: Sequence[str], kills: int, seed: int, folder: Path, say: Callable[[str], None], jobs: tuple[str, ...] = JOBS
) -> dict[str, Any]:
    """The whole matrix; the report, with `violations` in each cell."""
    report: dict[str, Any] = {"seed": seed, "kills": kills}
    server = new_postgres()
    try:
        for each in where:
            with ExitStack() as opened:
                runner: Runner = Threads(1)
                master = ""
                if each == "spark":
                    master, runner = opened.enter_context(_spark(folder))
                matrix = Matrix(each, master, runner, folder, seed, server, jobs)
                began = time.monotonic()
                matrix.play(kills, say)
                report[each] = {"seconds": round(time.monotonic() - began), **matrix.to_json()}
    finally:
        server.stop()
    return report


@contextmanager
def _spark(folder: Path) -> Iterator[tuple[str, Runner]]:
    from sealberg.spark.job_runner import spark_runner

    conf = folder / "conf"
    conf.mkdir()
    local = {"spark.local.dir": f"{folder}/local"}
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in {**CONF, **local}.items()))
    os.environ["SPARK_CONF_DIR"] = str(conf)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with cluster(folder, cores=CORES, memory="6g") as master, spark_runner(master) as runner:
        yield master, runner


def wrong_in(report: dict[str, Any]) -> list[str]:
    cells = [cell for where in WHERE for cell in report.get(where, {}).get("cells", {}).values()]
    alive = [f"{report[where]['JVMs left']} JVMs" for where in WHERE if report.get(where, {}).get("JVMs left")]
    return [each for cell in cells for each in cell["violations"]] + alive


def main(
    kills: int,
    seed: int | None,
    only: str | None = None,
    json_file: str | None = None,
    folder_name: str | None = None,
    jobs: tuple[str, ...] = JOBS,
) -> int:
    warnings.simplefilter("ignore")
    seed = random.randrange(1_000_000) if seed is None else seed
    folder = Path(folder_name or tempfile.mkdtemp(prefix="sealberg-jobs-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"killed jobs: seed {seed}, {folder}", flush=True)
    report = play([only] if only else WHERE, kills, seed, folder, lambda text: print(text, flush=True), jobs)
    if json_file:
        Path(json_file).write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
    wrong = wrong_in(report)
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    for each in wrong[:20]:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="chaos.job_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", choices=WHERE)
    parser.add_argument("--jobs", default=",".join(JOBS), help="with commas between")
    parser.add_argument("--folder", help="where tables and logs go")
    parser.add_argument("--json")
    asked = parser.parse_args()
    sys.exit(main(asked.kills, asked.seed, asked.only, asked.json, asked.folder, tuple(asked.jobs.split(","))))
