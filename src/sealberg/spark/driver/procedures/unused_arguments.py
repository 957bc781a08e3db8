"""Arguments of Iceberg's procedures that say how the work is done: obeyed where that can be, else named in the log.

max_concurrent_deletes   obeyed: so many files are deleted at a time, by the driver instead of by tasks
stream_results, prefix_listing, use_caching, parallelism   a warning that names the argument and the reason
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError
from sealberg.jobs.removal.deletion import delete_batch
from sealberg.spark.driver.procedures.few_names import FewNamesHere
from sealberg.spark.driver.procedures.signature import optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.jobs.runner import Runner
    from sealberg.spark.driver.procedures.signature import CallContext

CONCURRENT_DELETES: Final = optional(
    "max_concurrent_deletes", "integer", "files deleted at a time, by the driver; by default tasks delete"
)
STREAMED: Final = "files are removed in batches in any case"
_log = logging.getLogger(__name__)


def unused(call: CallContext, name: str, reason: str) -> None:
    """Warn that an argument has no effect, unless it is false: then it asks for nothing."""
    if call[name] not in (None, False):
        _log.warning("%s: the argument %s => %s has no effect: %s", call.procedure, name, call[name], reason)


def positive(call: CallContext, name: str) -> int | None:
    """A number that must be positive; None if the call has none."""
    value: int | None = call[name]
    if value is not None and value < 1:
        raise ConfigError(f"{call.procedure}: {name} should have value > 0, value: {value}")
    return value


def deleting(call: CallContext) -> Runner:
    """The runner of a call that removes files, with max_concurrent_deletes; it reads few names in this process."""
    count, runner = positive(call, CONCURRENT_DELETES.name), FewNamesHere(call.runner)
    return runner if count is None else _LimitedDeletes(runner, count)


@dataclass(frozen=True)
class _LimitedDeletes:
    """Deletes files in this process, so many at a time, and leaves other work to the runner."""

    runner: Runner
    count: int

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if work is not delete_batch:
            return self.runner.run(work, tasks)
        return (delete_batch(replace(task, requests=self.count)) for task in tasks)
