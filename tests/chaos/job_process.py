"""The process of a driver that will be killed, as its parent sees it.

driver = Driver("spark", master, log)      starts at once
driver.run(cells, points)                  all jobs go on to their operations; gives what each has said
driver.kill()                              SIGKILL; driver.outlived(): whether its JVM is still there
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.job_cells import Cell

STOP_S: Final = 120.0  # until every cell has stopped at its operation
END_S: Final = 600.0  # until every cell has finished, where none is killed


class Driver:
    """A process of `job_driver`, which is ready or soon will be."""

    def __init__(self, where: str, master: str, log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.job_driver", where, master],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log
        self.jvm: int | None = None

    def run(self, cells: Sequence[Cell], points: dict[str, int | None]) -> dict[str, dict[str, Any]]:
        """Let all cells go on to their operations, or to their ends; gives what each has said."""
        out, to = self._process.stdout, self._process.stdin
        assert out is not None
        assert to is not None
        line = out.readline()
        assert line, f"no driver: {self._log.read_text()[-3000:]}"
        self.jvm = json.loads(line)["ready"]
        to.write(json.dumps([{"cell": cell.to_json(), "at": points.get(cell.name)} for cell in cells]) + "\n")
        to.flush()
        said: dict[str, dict[str, Any]] = {}
        # A cell that waits for another, which has stopped with a lock of the process, is killed where it is.
        watch = threading.Timer(STOP_S if points else END_S, self._process.kill)
        watch.start()
        try:
            while len(said) < len(cells) and (line := out.readline()):
                told = json.loads(line)
                said[told["cell"]] = told
        finally:
            watch.cancel()
        return said

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Of a driver without a kill."""
        if self._process.poll() is None:
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def outlived(self) -> bool:
        """Whether the JVM is still there a while after its Python."""
        for _ in range(300):
            if self.jvm is None or not Path(f"/proc/{self.jvm}/stat").exists():
                return False
            if Path(f"/proc/{self.jvm}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
            time.sleep(0.1)
        return True
