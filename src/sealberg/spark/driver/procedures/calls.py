"""The calls of procedures that are under way, each on a thread of its own.

    CallProcedure ──> thread: procedure(..., runner) ──rows──────────────────────────────> ProcedureRows
                              └─ runner.run(work, tasks) ──batch──> ProcedureTasks ──> the JVM runs them
                                                         <──results── ContinueProcedure

A request of the JVM never waits for a Spark job: it returns with the next batch of tasks, and the thread of the call
waits until the JVM brings their results. A call whose Spark job has failed or was cancelled ends with that reason, and
the job cleans up as after any other error.
"""

from __future__ import annotations

import pickle
import queue
import threading
import uuid
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sealberg.errors import ConfigError, SealbergError
from sealberg.spark.protocol.procedures import ProcedureRows, ProcedureTasks
from sealberg.spark.worker.payload import TaskPayload, python_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.spark.protocol.procedures import CancelProcedure, ContinueProcedure, ProcedureStep

BATCH: Final = 512  # tasks of one Spark job: the driver holds few files at a time
_Outcome: TypeAlias = "ProcedureStep | BaseException"


class CancelledError(SealbergError):
    """The Spark job of a call has failed, or somebody has cancelled it."""


@dataclass
class _Call:
    """One call: what the thread has for the JVM, and what the JVM has for the thread."""

    description: str
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    steps: queue.SimpleQueue[_Outcome] = field(default_factory=queue.SimpleQueue)
    results: queue.SimpleQueue[tuple[bytes, ...] | CancelledError] = field(default_factory=queue.SimpleQueue)

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """A `Runner` whose tasks the JVM runs."""
        rest = iter(tasks)
        while batch := [TaskPayload(work, task).pickled() for task in islice(rest, BATCH)]:
            self.steps.put(ProcedureTasks(self.identity, self.description, python_program(), tuple(batch)))
            results = self.results.get()
            if isinstance(results, CancelledError):
                raise results
            yield from map(pickle.loads, results)


class Calls:
    """The calls of one catalog that wait for results of tasks; safe to share among threads."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Call] = {}

    def begin(self, description: str, answer: Callable[[_Call], ProcedureRows]) -> ProcedureStep:
        """Run `answer`, with a runner, until it has rows or tasks."""
        call = _Call(description)

        def run() -> None:
            try:
                call.steps.put(answer(call))
            except BaseException as error:  # noqa: BLE001 (the thread of the request raises it)
                call.steps.put(error)

        threading.Thread(target=run, name=f"sealberg-{description}", daemon=True).start()
        return self._next(call)

    def resume(self, request: ContinueProcedure) -> ProcedureStep:
        call = self._taken(request.call)
        call.results.put(request.results)
        return self._next(call)

    def cancel(self, request: CancelProcedure) -> None:
        """End a call, and wait until it has cleaned up."""
        call = self._taken(request.call)
        call.results.put(CancelledError(request.reason))
        call.steps.get()

    def _next(self, call: _Call) -> ProcedureStep:
        step = call.steps.get()
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, ProcedureTasks):
            self._waiting[call.identity] = call
        return step

    def _taken(self, identity: str) -> _Call:
        call = self._waiting.pop(identity, None)
        if call is None:
            raise ConfigError("internal error: a call of a procedure was continued that is not under way")
        return call
