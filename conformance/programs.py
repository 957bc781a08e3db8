"""Starts the program under test: once for each operation, or once for all of them.

Exit codes, which a program in one process writes as a line: 0 done, 10 refused, 11 not supported. All others are
crashes, and so is no answer in time.
"""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DONE: Final = 0
REFUSED: Final = 10
NOT_SUPPORTED: Final = 11


class CrashError(Exception):
    """The program ended in a way that is no answer."""


class Program(Protocol):
    def run(self, operation: str, folder: Path) -> int: ...

    def close(self) -> None: ...


class ProcessEach:
    """`COMMAND OPERATION FOLDER`, again and again."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self._command, self._timeout = command, timeout

    def run(self, operation: str, folder: Path) -> int:
        command = [*self._command, operation, str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise CrashError(f"no answer in {self._timeout:g} seconds") from error
        return _answer(done.returncode, "exit code", done.stderr)

    def close(self) -> None:
        pass


class OneProcess:
    """`COMMAND`, which reads lines `OPERATION FOLDER` and answers each with a line: its exit code."""

    def __init__(self, command: Sequence[str], timeout: float, log: Path) -> None:
        self._command, self._timeout, self._log = command, timeout, log
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, operation: str, folder: Path) -> int:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(self._timeout, process.kill)
        late.start()
        try:
            process.stdin.write(f"{operation} {folder}\n".encode())
            process.stdin.flush()
            line = process.stdout.readline().strip()
        except BrokenPipeError:
            line = b""
        finally:
            late.cancel()
        if line.isdigit():
            return _answer(int(line), "answer", b"")
        self.close()  # the next operation gets a new process
        what = (
            f"the answer is {line[:80]!r}, not a number" if line else f"no answer: it ended with {process.returncode}"
        )
        raise CrashError(f"{what}{_last_line(self._log.read_bytes())}")

    def close(self) -> None:
        if self._process is None:
            return
        with self._process as process:
            assert process.stdin is not None
            try:
                process.stdin.close()
                process.wait(self._timeout)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                process.kill()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=log)
        return self._process


def _answer(code: int, what: str, said: bytes) -> int:
    if code not in (DONE, REFUSED, NOT_SUPPORTED):
        raise CrashError(f"{what} {code}{_last_line(said)}")
    return code


def _last_line(said: bytes) -> str:
    """The last one that is not indented, as the frames of a stack are in Java."""
    lines = said.decode(errors="replace").splitlines()
    return next((f": {line[:200]}" for line in reversed(lines) if line.strip() and not line[0].isspace()), "")
