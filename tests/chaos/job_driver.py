"""A driver that is killed: runs the jobs of all cells at once, each up to an operation of its own, and waits there.

    python -m chaos.job_driver threads|spark MASTER
        stdin    one line of JSON: the cells, each with the operation at which it stops; null lets it finish
        stdout   lines of JSON: {"ready": pid of the JVM}, then one per cell: {"cell", "state", "operations", "error"}

    cell 1  ──open, create, commit, unwrap ...──> stops at its operation ──┐
    cell 2  ──────────────────────────────> stops ─────────────────────────┼──> the parent kills the process
    ...                                                                    ┘

So one kill meets every job at a point that was chosen for it, and one start of Spark serves all cells. Operations are
those of `kit.programs.killed`; on Spark there are two more: `running`, while tasks of the job hang on executors with
files half-written, and `result`, when a task is done.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import traceback
from contextlib import ExitStack
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from chaos.job_cells import JOBS, KINDS, Cell, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.jobs.runner import Runner

NAME: Final = re.compile(f"({'|'.join(JOBS)})-({'|'.join(KINDS)})")
HANG_S: Final = 60.0
FLIGHT_S: Final = 1.5
_printing = threading.Lock()


def say(**what: Any) -> None:
    with _printing:
        print(json.dumps(what), flush=True)


class Counter:
    """The operations of one cell, and the one at which it stops."""

    def __init__(self, cell: str, at: int | None) -> None:
        self.cell, self.at = cell, at
        self.seen: list[str] = []
        self._lock = threading.Lock()

    @property
    def stops_next(self) -> bool:
        return self.at == len(self.seen)

    def meet(self, operation: str) -> None:
        with self._lock:
            number = len(self.seen)
            self.seen.append(operation)
        if self.at is None or number < self.at:
            return
        if number == self.at:
            say(cell=self.cell, state="stopped", operations=self.seen)
        threading.Event().wait()  # until the process is killed


class Counted:
    """A runner whose jobs and results are operations, too."""

    def __init__(self, runner: Runner, counter: Counter, *, elsewhere: bool) -> None:
        self._runner, self._counter, self._elsewhere = runner, counter, elsewhere

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if self._elsewhere and self._counter.stops_next:
            hanging = Hanging(work, self._counter.cell)
            threading.Thread(target=lambda: list(self._runner.run(hanging, tasks)), daemon=True).start()
            time.sleep(FLIGHT_S)
        self._counter.meet("running")
        for result in self._runner.run(work, tasks):
            self._counter.meet("result")
            yield result


class Hanging:
    """Work whose files stay half-written, on an executor that outlives its driver for a moment."""

    def __init__(self, work: Callable[[Any], Any], cell: str) -> None:
        self._work, self._cell = work, cell

    def __call__(self, task: Any) -> Any:
        from pyiceberg.io.pyarrow import PyArrowFile

        real, cell = PyArrowFile.create, self._cell

        @wraps(real)
        def create(file: Any, *args: Any, **kwargs: Any) -> Any:
            stream: Any = real(file, *args, **kwargs)
            if cell in file.location:
                stream.write(b"half")
                stream.flush()
                time.sleep(HANG_S)
            return stream

        PyArrowFile.create = create  # type: ignore[assignment, method-assign]
        return self._work(task)


def hook(counters: dict[str, Counter]) -> None:
    from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
    from sqlalchemy.orm import Session

    from sealberg.keys.kms.memory import MemoryKms

    def location_of(_: Any, location: Any, *__: Any, **___: Any) -> str:
        return str(getattr(location, "location", location))

    def key_of(_: Any, __: Any, key_id: str) -> str:
        return key_id

    around(PyArrowFile, "open", counters, lambda file, *_, **__: file.location, "open")
    around(PyArrowFile, "create", counters, lambda file, *_, **__: file.location, "create", "created")
    around(PyArrowFileIO, "delete", counters, location_of, "delete")
    around(Session, "commit", counters, lambda session: str(session.get_bind().url), "commit", "committed")
    around(MemoryKms, "wrap", counters, key_of, "kms")
    around(MemoryKms, "unwrap", counters, key_of, "kms")


def around(
    owner: Any, name: str, counters: dict[str, Counter], about: Callable[..., str], before: str, after: str = ""
) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        found = NAME.search(about(*args, **kwargs))
        counter = counters.get(found[0]) if found else None
        if counter is None:
            return real(*args, **kwargs)
        counter.meet(before)
        done = real(*args, **kwargs)
        if after:
            counter.meet(after)
        return done

    setattr(owner, name, hooked)


def run(cell: Cell, counter: Counter, runner: Runner, *, elsewhere: bool) -> None:
    try:
        work(cell, Counted(runner, counter, elsewhere=elsewhere))
    except Exception:  # the parent judges it
        say(cell=cell.name, state="failed", operations=counter.seen, error=traceback.format_exc()[-2000:])
    else:
        say(cell=cell.name, state="finished", operations=counter.seen)


def main(where: str, master: str) -> None:
    from sealberg.jobs.runner import Threads

    with ExitStack() as opened:
        runner: Runner = Threads(1)
        jvm = None
        if where == "spark":
            from pyspark import SparkContext

            from sealberg.spark.job_runner import spark_runner

            runner = opened.enter_context(spark_runner(master))
            jvm = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
        say(ready=jvm)
        asked = json.loads(sys.stdin.readline())
        cells = [(Cell(**each["cell"]), each["at"]) for each in asked]
        counters = {cell.name: Counter(cell.name, at) for cell, at in cells}
        hook(counters)
        threads = [
            threading.Thread(target=run, args=(cell, counters[cell.name], runner), kwargs={"elsewhere": bool(jvm)})
            for cell, _ in cells
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
