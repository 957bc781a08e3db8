"""Spark and Iceberg Java beside the workers, as writers, and as readers with opinions of their own.

with driver(settings, port) as spark:
    spark.go()            it writes, while the round is played
    spark.compare(...)    at the end: what Python, Spark and Iceberg Java read of every branch and tag
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from chaos import contents
from chaos.director import TESTS
from chaos.plan import Row
from chaos.round import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from chaos.model import Rows
    from chaos.round import Round
    from chaos.verdict import Verdict

PATIENCE_S = 180.0


@dataclass
class SparkDriver:
    """A running driver, told what to do by lines."""

    settings: Round
    process: subprocess.Popen[str]

    def go(self) -> None:
        self._say("go")

    def end(self) -> None:
        """Wait for the last statement."""
        assert self._hear() == "done"

    def compare(self, history: History, states: dict[int, Rows], verdict: Verdict) -> None:
        self._say("read")
        told = json.loads(self._hear())
        refs = history.versions[-1].refs
        for reader, by_ref in told.items():
            if by_ref.keys() != refs.keys():
                verdict.violated("opinions", f"{reader} knows {sorted(by_ref)}, not {sorted(refs)}")
            for name in by_ref.keys() & refs.keys():
                rows = [Row(*row) for row in by_ref[name]]
                contents.compare(rows, states[refs[name]], f"{name} as {reader} reads it", verdict)
        verdict.figures["refs read alike by"] = {"python": len(refs), **{name: len(told[name]) for name in told}}

    def _say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def _hear(self) -> str:
        out: IO[str] | None = self.process.stdout
        assert out is not None
        if not select.select([out], [], [], PATIENCE_S)[0]:
            raise TimeoutError(f"Spark says nothing, see {self.settings.logs}/spark.err")
        line = out.readline()
        assert line, f"Spark has ended, see {self.settings.logs}/spark.err"
        return line.strip()


@contextmanager
def driver(settings: Round, port: int) -> Iterator[SparkDriver]:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}"}
    command: list[Any] = [sys.executable, "-m", "chaos.spark_writer", settings.folder, str(port)]
    with (
        (settings.logs / "spark.err").open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
        ) as process,
    ):
        started = SparkDriver(settings, process)
        try:
            assert started._hear() == "ready", NAME
            yield started
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
