"""Runs a job in a process of its own, and stops it at its n-th operation: a kill, a full disk, a KMS that is down.

    whole = run(work, folder)                              an undisturbed run: whole.operations are what it did
    for at in points(whole.operations, 20, seed=1):
        run(work, folder, at=at)                           killed with SIGKILL before (or after) that operation
        run(work, folder)                                  run again: it must finish what was begun

    run(work, folder, fault="disk full", at=3)             every file from the third on cannot be written: ENOSPC
    run(work, folder, fault="KMS down", at=2)              every request to the KMS from the second on fails; also
                                                           "KMS denied", "KMS slow", "KMS lost answer"

`work` is a function of a module, and its arguments can be pickled: it opens the catalog itself. An operation is the
opening, the creation (before, and after it while the file is empty) or the deletion of a file through PyArrow's FileIO,
a COMMIT of a database (before and after), and a request to the KMS in memory or to the KMS with versions. The process
is forked from one that has imported sealberg already, so a run takes a tenth of a second.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from functools import cache, wraps
from multiprocessing import forkserver, resource_tracker
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext

Fault: TypeAlias = Literal["kill", "disk full", "KMS down", "KMS denied", "KMS slow", "KMS lost answer"]

COUNTED: Final[dict[Fault, frozenset[str]]] = {
    "kill": frozenset({"open", "create", "created", "delete", "commit", "committed", "kms"}),
    "disk full": frozenset({"create"}),
    "KMS down": frozenset({"kms"}),
    "KMS denied": frozenset({"kms"}),
    "KMS slow": frozenset({"kms"}),
    "KMS lost answer": frozenset({"kms answered"}),
}
KILLS: Final = (6, pytest.param(20, marks=pytest.mark.deep))  # in `make test`, in `make deep`
SLOW_S: Final = 2.0  # longer than a test lets a client wait
PRELOADED: Final = (
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "sealberg.catalogs.load",
    "sealberg.catalogs.sql.catalog",
    "sealberg.table.transaction",
    "sealberg.keys.kms.memory",
    "sealberg.jobs.verify",
    "sealberg.jobs.prune_keys",
    "sealberg.jobs.rewrap",
    "sealberg.jobs.shred",
    "sealberg.jobs.report.shred_page",
    "kit.programs.key_work",
    "kit.programs.life_work",
    "kit.servers.versioned_kms",
)
PATIENCE_S: Final = 120


@dataclass(frozen=True)
class Run:
    """How a process ended.

    Attributes:
        killed: by SIGKILL, at the operation that was asked for.
        operations: how many operations of the counted kind it did; 0 if it was killed.
        error: the traceback of an exception that ended the work; empty if the work returned.
        returned: what the work returned, which must be picklable.
    """

    killed: bool
    operations: int = 0
    error: str = ""
    returned: Any = None


def run(work: Callable[..., Any], *arguments: Any, fault: Fault = "kill", at: int | None = None) -> Run:
    """Run `work(*arguments)`; with `at`, the fault happens at that operation, counted from 0."""
    receiving, sending = _context().Pipe(duplex=False)
    process = _context().Process(target=_child, args=(sending, work, arguments, fault, at), daemon=True)
    process.start()
    sending.close()
    try:
        ended: Run = receiving.recv() if receiving.poll(PATIENCE_S) else _hangs(process.pid)
    except EOFError:  # it has died
        process.join()
        assert process.exitcode == -signal.SIGKILL, f"the process ended with {process.exitcode}"
        return Run(killed=True)
    process.join()
    return ended


def points(operations: int, count: int, *, seed: int) -> list[int]:
    """Operations at which to stop a run, in order: the first, the last and others by chance, each once."""
    if operations <= count:
        return list(range(operations))
    between = random.Random(seed).sample(range(1, operations - 1), count - 2)
    return [0, *sorted(between), operations - 1]


def _hangs(pid: int | None) -> Run:
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"the process has not ended after {PATIENCE_S} seconds")


@cache
def _context() -> ForkServerContext:
    from kit import leftovers  # not in the child: it imports pytest

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    before = leftovers.here()
    forkserver.ensure_running()
    made = leftovers.here() - before  # the server, and the process by which multiprocessing tracks resources
    leftovers.lasts(_stop, lambda: made)
    return context


def _stop() -> None:
    """Both end with their pipes, and are waited for here; multiprocessing has no public name for that."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


# -- in the process ---------------------------------------------------------------------------------


def _child(
    sending: Connection, work: Callable[..., Any], arguments: tuple[Any, ...], fault: Fault, at: int | None
) -> None:
    counter = _Counter(fault, at)
    _hook(counter)
    error, returned = "", None
    try:
        returned = work(*arguments)
    except Exception:  # the test reads it
        error = traceback.format_exc()
    sending.send(Run(killed=False, operations=counter.seen, error=error, returned=returned))
    sending.close()


class _Counter:
    def __init__(self, fault: Fault, at: int | None) -> None:
        self.fault, self.at, self.seen = fault, at, 0
        self._lock = threading.Lock()

    def meet(self, operation: str) -> None:
        if operation not in COUNTED[self.fault]:
            return
        with self._lock:
            number = self.seen
            self.seen += 1
        if self.at is None or number < self.at:
            return
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "disk full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        from sealberg.errors import AccessDeniedError, KmsUnavailableError

        if self.fault == "KMS slow":
            time.sleep(SLOW_S)
            return
        if self.fault == "KMS denied":
            raise AccessDeniedError("the KMS denies it")
        raise KmsUnavailableError(self.fault)


def _hook(counter: _Counter) -> None:
    from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
    from sqlalchemy.orm import Session

    from sealberg.keys.kms.memory import MemoryKms

    _around(PyArrowFile, "open", counter, "open")
    _around(PyArrowFile, "create", counter, "create", "created")
    _around(PyArrowFileIO, "delete", counter, "delete")
    _around(Session, "commit", counter, "commit", "committed")
    from kit.servers.versioned_kms import VersionedKms

    for kms, requests in ((MemoryKms, ("wrap", "unwrap")), (VersionedKms, ("wrap", "unwrap", "rewrap"))):
        for request in requests:
            _around(kms, request, counter, "kms", "kms answered")


def _around(owner: Any, name: str, counter: _Counter, before: str, after: str | None = None) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        counter.meet(before)
        done = real(*args, **kwargs)
        if after is not None:
            counter.meet(after)
        return done

    setattr(owner, name, hooked)
