"""Who starts the workers, and strikes: kills, stops, restarts and lost answers, by seed and over and over.

play(round, faults) ──> what was done, counted

Fault(name, every_s, strike)    strike(crew, dice) is called about every so many seconds
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaos.log import last_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chaos.round import Round

GRACE_S: Final = 90.0  # for the last operations of a round
LEAST: Final = 8  # operations of each worker
MOST_S: Final = 90.0
TESTS: Final = Path(__file__).parents[1]


@dataclass
class Crew:
    """The workers of a round, by number."""

    settings: Round
    process: subprocess.Popen[bytes]
    alive: dict[int, int] = field(default_factory=dict)
    lives: Counter[int] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    crashed: list[int] = field(default_factory=list)
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _rest: bytes = b""

    def spawn(self, worker: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"spawn {worker} {self.lives[worker]}\n".encode())
        self.process.stdin.flush()
        self.lives[worker] += 1

    def listen(self, seconds: float) -> None:
        """Hear who was born and who has ended; whoever was killed is born again."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], seconds)[0]:
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError(f"the nursery of {self.settings.folder} has ended: {self.process.poll()}")
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._hear(*line.decode().split())
            seconds = 0

    def _hear(self, event: str, worker: str, value: str) -> None:
        number = int(worker)
        if event == "born":
            self.alive[number] = int(value)
            return
        self.alive.pop(number, None)
        if int(value) < 0 and not (self.settings.root / "stop").exists():
            self.spawn(number)
        elif int(value) > 0:
            self.crashed.append(number)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((time.monotonic() + seconds, call))

    def catch_up(self, *, all_of_it: bool = False) -> None:
        now = time.monotonic()
        due = [each for each in self.later if all_of_it or each[0] <= now]
        self.later = [each for each in self.later if each not in due]
        for _, call in due:
            call()


@dataclass(frozen=True)
class Fault:
    """Something bad that happens about every so many seconds."""

    name: str
    every_s: float
    strike: Callable[[Crew, random.Random], None]


def play(settings: Round, faults: Sequence[Fault] = ()) -> Counter[str]:
    """Let the workers work and the faults strike until the time is over."""
    dice = random.Random(f"director {settings.seed}")
    with _nursery(settings) as crew:
        for worker in range(settings.workers):
            crew.spawn(worker)
        while len(crew.alive) < settings.workers and crew.process.poll() is None:
            crew.listen(0.2)
        began = time.monotonic()
        due = {fault.name: began + _pause(fault, dice) for fault in faults}
        while _goes_on(settings, (now := time.monotonic()) - began):
            for fault in faults:
                if now >= due[fault.name]:
                    fault.strike(crew, dice)
                    crew.done[fault.name] += 1
                    due[fault.name] = time.monotonic() + _pause(fault, dice)
            crew.catch_up()
            crew.listen(0.05)
            if crew.process.poll() is not None:
                raise RuntimeError("the nursery has died")
        crew.catch_up(all_of_it=True)
        (settings.root / "stop").touch()
        _await_end(crew)
    assert not crew.crashed, f"workers crashed, see {settings.logs}: {crew.crashed}"
    return crew.done


def _goes_on(settings: Round, seconds: float) -> bool:
    """For the time of the round; on a machine that is busy, until there is something to check."""
    if seconds < settings.seconds:
        return True
    begun = sum(last_attempt(settings.log(worker)) + 1 for worker in range(settings.workers))
    return begun < LEAST * settings.workers and seconds < MOST_S


def _pause(fault: Fault, dice: random.Random) -> float:
    return dice.uniform(0.5, 1.5) * fault.every_s


def _await_end(crew: Crew) -> None:
    deadline = time.monotonic() + GRACE_S
    while crew.alive and time.monotonic() < deadline:
        crew.listen(0.2)
    for pid in crew.alive.values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        crew.done["killed at the end"] += 1


@contextmanager
def _nursery(settings: Round) -> Iterator[Crew]:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "chaos.nursery", settings.folder]
    with (
        (settings.logs / "nursery.err").open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process,
    ):
        assert process.stdin is not None
        crew = Crew(settings, process)
        try:
            yield crew
        finally:
            process.stdin.close()
            process.wait(30)


# -- faults -------------------------------------------------------------------------------------------------------


def kill(crew: Crew, dice: random.Random) -> None:
    """SIGKILL to one worker; it is born again."""
    if crew.alive:
        with suppress(ProcessLookupError):
            os.kill(dice.choice(sorted(crew.alive.values())), signal.SIGKILL)


def stop(crew: Crew, dice: random.Random) -> None:
    """SIGSTOP to one worker, and SIGCONT some seconds later."""
    if not crew.alive:
        return
    pid = dice.choice(sorted(crew.alive.values()))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)

    def resume() -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    crew.after(dice.uniform(1.0, 4.0), resume)


def trouble(state: str) -> Callable[[Crew, random.Random], None]:
    """Storage is full, or read-only, for a second or two; see `chaos.storage`."""

    def strike(crew: Crew, dice: random.Random) -> None:
        sign = crew.settings.root / "trouble"
        sign.write_text(state)
        crew.after(dice.uniform(0.5, 2.0), lambda: sign.unlink(missing_ok=True))

    return strike
