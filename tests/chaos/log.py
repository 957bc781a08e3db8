"""What each worker says before and after each operation, in lines that survive its death.

worker 3  ──>  logs/3.jsonl:  {"e": "attempt", "i": 7, ...}  {"e": "acknowledged", "i": 7, ...}

read(path)  ──>  Attempt 0, 1, ... each with its outcome; without one, its process was killed
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

OUTCOMES: Final = ("acknowledged", "failed", "unknown")
KILLED: Final = "killed"


class Log:
    """Appends lines; each is one write to the kernel, which keeps it when the process is killed."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.operation = -1  # the one under way: files are logged with it

    def __call__(self, event: str, **values: Any) -> None:
        line = {
            "e": event,
            "i": self.operation,
            "t": round(time.monotonic(), 3),
            "ms": time.time_ns() // 10**6,
            **values,
        }
        os.write(self._file, (json.dumps(line) + "\n").encode())


@dataclass
class Attempt:
    """One operation and what became of it."""

    index: int
    outcome: str = KILLED
    at: str = ""  # the metadata that were current after it, as its process saw
    seconds: float = 0.0
    began: float = 0.0
    began_ms: int = 0  # by the clock of its process, which may be wrong
    ended_ms: int = 0
    error: str = ""
    message: str = ""
    aim: Any = None  # what could not be known when the plan was made: a snapshot id, or several
    planned: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] | None = None  # what a read found
    created: list[str] = field(default_factory=list)
    undeleted: list[str] = field(default_factory=list)


@dataclass
class WorkerLog:
    """All that one worker said."""

    worker: int
    attempts: dict[int, Attempt] = field(default_factory=dict)
    notes: list[dict[str, Any]] = field(default_factory=list)  # errors outside of operations


def events(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # a full disk or a kill can cut a line
    return found


def read(path: Path) -> WorkerLog:
    log = WorkerLog(int(path.stem))
    for event in events(path):
        kind, index = event["e"], event["i"]
        if kind == "attempt":
            log.attempts[index] = Attempt(index, planned=event["plan"], began=event["t"], began_ms=event["ms"])
        elif kind == "note":
            log.notes.append(event)
        elif index in log.attempts:
            _take(log.attempts[index], kind, event)
    return log


def _take(attempt: Attempt, kind: str, event: dict[str, Any]) -> None:
    if kind in OUTCOMES:
        attempt.outcome, attempt.at = kind, event.get("at", "")
        attempt.error, attempt.message = event.get("error", ""), event.get("message", "")
        attempt.seconds, attempt.ended_ms = event["t"] - attempt.began, event["ms"]
    elif kind == "aim":
        attempt.aim = event["at"]
    elif kind == "seen":
        attempt.seen = event
    elif kind == "created":
        attempt.created.append(event["file"])
    elif kind == "undeleted":
        attempt.undeleted.append(event["file"])


def last_attempt(path: Path) -> int:
    """The index of the last operation that a worker began, or -1."""
    return max((event["i"] for event in events(path) if event["e"] == "attempt"), default=-1)
