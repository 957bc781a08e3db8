"""What the JVM runs tasks for, each on a thread of its own: calls of procedures, and plans of scans.

    CallProcedure ──> thread: procedure(..., runner) ──rows──────────────────────────────> ProcedureRows
                              ├─ runner.run(work, tasks) ──batch──> ProcedureTasks ──> the JVM runs them
                              │                          <──results── ContinueProcedure
                              └─ call.resolve(where) ──text──> ProcedureFilter <──filter── ContinueWithFilter

    ScanRequest   ──> thread: the same with PlanTasks, ContinuePlan and at the end ScanPlan
                              └─ call.tell(files) ──> PlanFiles <── ContinuePlan

A request of the JVM never waits for a Spark job: it returns with the next batch of tasks, and the thread of the call
waits until the JVM brings their results. If the Spark job has failed or was cancelled, the call gets the results of the
tasks that were finished, and then ends as by Ctrl-C: the job cleans up, with what these tasks have written.

A query that is cancelled gives up the request for its plan without an answer. So the JVM gives each plan its id, and
can cancel a plan of which it has heard nothing.
"""

from __future__ import annotations

import pickle
import queue
import threading
import uuid
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sealberg.errors import ConfigError
from sealberg.spark.protocol.procedures import ProcedureFilter, ProcedureTasks
from sealberg.spark.protocol.scans import CancelPlan, PlanFiles, PlanTasks
from sealberg.spark.worker.payload import TaskPayload, python_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.spark.protocol.filters import Filter
    from sealberg.spark.protocol.procedures import (
        CancelProcedure,
        ContinueProcedure,
        ContinueWithFilter,
        ProcedureRows,
    )
    from sealberg.spark.protocol.scans import ContinuePlan, ScanPlan

BATCH: Final = 512  # tasks of one Spark job: the driver holds few files at a time
CLEANUP_SECONDS: Final = 60  # for which the statement that was cancelled waits
_Question: TypeAlias = ProcedureTasks | ProcedureFilter | PlanTasks | PlanFiles
_Outcome: TypeAlias = "_Question | ProcedureRows | ScanPlan | BaseException"
_Request: TypeAlias = "ContinueProcedure | ContinueWithFilter | CancelProcedure | ContinuePlan | CancelPlan"


class CallCancelled(BaseException):
    """The Spark job of a call has failed, or somebody has cancelled it. The JVM knows why, and tells the user.

    As KeyboardInterrupt, it is no Exception: no job takes it for the error of a file.
    """


@dataclass
class Call:
    """One call: what the thread has for the JVM, and what the JVM has for the thread."""

    description: str
    tasks_message: type[ProcedureTasks | PlanTasks] = ProcedureTasks
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    steps: queue.SimpleQueue[_Outcome] = field(default_factory=queue.SimpleQueue)
    answers: queue.SimpleQueue[_Request] = field(default_factory=queue.SimpleQueue)
    is_cancelled: bool = False

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """A `Runner` whose tasks the JVM runs."""
        rest = iter(tasks)
        while batch := [TaskPayload(work, task).pickled() for task in islice(rest, BATCH)]:
            answer = self._ask(self.tasks_message(self.identity, self.description, python_program(), tuple(batch)))
            if not isinstance(answer, CancelPlan):
                yield from map(pickle.loads, answer.results)
            if self.is_cancelled:
                raise CallCancelled

    def resolve(self, table: tuple[str, ...], text: str) -> Filter:
        """The filter as Spark's analyzer and optimizer understand it."""
        answer: ContinueWithFilter = self._ask(ProcedureFilter(self.identity, table, text))
        if self.is_cancelled:
            raise CallCancelled
        return answer.filter

    def tell(self, files: Any) -> None:
        """Some files of a plan, before the others."""
        self._ask(PlanFiles(self.identity, files))
        if self.is_cancelled:
            raise CallCancelled

    def _ask(self, step: _Question) -> Any:
        if self.is_cancelled:
            raise CallCancelled
        self.steps.put(step)
        return self.answers.get()


class Calls:
    """The calls of one catalog that are under way; safe to share among threads."""

    def __init__(self) -> None:
        self._begun: dict[str, Call] = {}
        self._waiting: dict[str, Call] = {}  # of these, those that wait for an answer of the JVM
        self._lock = threading.Lock()

    def begin(
        self,
        description: str,
        answer: Callable[[Call], Any],
        tasks_message: type[ProcedureTasks | PlanTasks] = ProcedureTasks,
        identity: str | None = None,
    ) -> Any:
        """Run `answer`, with a runner, until it has what the JVM asked for, or needs the JVM."""
        call = Call(description, tasks_message, identity or uuid.uuid4().hex)
        self._begun[call.identity] = call

        def run() -> None:
            try:
                call.steps.put(answer(call))
            except BaseException as error:  # noqa: BLE001 (the thread of the request raises it)
                call.steps.put(error)
            finally:
                self._begun.pop(call.identity, None)

        whole = copy_context()  # with the user for whom keys are used
        threading.Thread(target=whole.run, args=(run,), name=f"sealberg-{description}", daemon=True).start()
        return self._next(call)

    def resume(self, request: ContinueProcedure | ContinueWithFilter | ContinuePlan) -> Any:
        call = self._taken(request.call)
        call.answers.put(request)
        return self._next(call)

    def cancel(self, request: CancelProcedure | CancelPlan) -> None:
        """End a call, and wait until it has cleaned up. A plan may have ended, or may be at its first request still."""
        with self._lock:
            begun = self._begun.get(request.call)
            if begun is not None:
                begun.is_cancelled = True
            if isinstance(request, CancelPlan) and request.call not in self._waiting:
                return
        call = self._taken(request.call)
        call.answers.put(request)
        with suppress(queue.Empty):
            call.steps.get(timeout=CLEANUP_SECONDS)

    def _next(self, call: Call) -> Any:
        step = call.steps.get()
        if isinstance(step, CallCancelled):
            raise ConfigError(f"{call.description} was cancelled")
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, _Question):
            with self._lock:
                if not call.is_cancelled:
                    self._waiting[call.identity] = call
                    return step
            call.answers.put(CancelPlan(call.identity))  # nobody waits for this step
        return step

    def _taken(self, identity: str) -> Call:
        call = self._waiting.pop(identity, None)
        if call is None:
            raise ConfigError("internal error: a call was continued that is not under way")
        return call
