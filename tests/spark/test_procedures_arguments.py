"""Arguments of procedures that say how the work is done: obeyed, or named in the log; and calls that end early."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.errors import ConfigError
from sealberg.files.file_io import EncryptingFileIO, keyed
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.removal import deletion
from sealberg.jobs.runner import Threads
from sealberg.spark.driver.calls import CallCancelled, Calls
from sealberg.spark.driver.procedures import unused_arguments
from sealberg.spark.driver.procedures.few_names import FewNamesHere
from sealberg.spark.driver.procedures.registry import BY_NAME
from sealberg.spark.driver.procedures.signature import CallContext
from sealberg.spark.driver.procedures.unused_arguments import deleting, positive, unused
from sealberg.spark.protocol.procedures import CancelProcedure, ContinueProcedure, ProcedureRows, ProcedureTasks
from sealberg.table.reachable import ReadTask, no_list_key, read_list, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = ProcedureRows({"type": "struct", "fields": []}, ())


def context(**arguments: Any) -> CallContext:
    nothing: Any = None
    return CallContext(nothing, (), arguments, Threads(1), "expire_snapshots", nothing)


def test_an_argument_without_effect_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, unused_arguments.__name__):
        unused(context(stream_results=True), "stream_results", "why not")
        unused(context(stream_results=False), "stream_results", "why not")
        unused(context(), "stream_results", "why not")
    said = [record.getMessage() for record in caplog.records]
    assert said == ["expire_snapshots: the argument stream_results => True has no effect: why not"]


def test_a_number_that_must_be_positive_is_refused_as_in_java() -> None:
    assert positive(context(max_concurrent_deletes=3), "max_concurrent_deletes") == 3
    with pytest.raises(ConfigError, match="max_concurrent_deletes should have value > 0, value: 0"):
        positive(context(max_concurrent_deletes=0), "max_concurrent_deletes")


def test_no_file_of_a_plaintext_table_may_be_missing() -> None:
    nothing: Any = None
    given = {"source_table": "hr.a", "table": "hr.b", "key_id": "hr", "ignore_missing_files": True}
    call = CallContext(nothing, ("hr",), given, Threads(1), "encrypt", nothing)
    with pytest.raises(ConfigError, match="ignore_missing_files is not supported"):
        BY_NAME["encrypt"].call(call)


@pytest.mark.parametrize("most", [1, 3])
def test_so_many_files_are_deleted_at_a_time(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    lock, running, seen, together = threading.Lock(), 0, 0, threading.Barrier(most)

    def delete(_io: Any, _location: str) -> None:
        nonlocal running, seen
        with lock:
            running += 1
            seen = max(seen, running)
        together.wait(30)  # passes only if so many are deleted at a time
        with lock:
            running -= 1

    monkeypatch.setattr(deletion, "_delete", delete)
    io: Any = None
    files = [deletion.Unneeded("data", str(number), 1) for number in range(6)]
    removed = deletion.Removed()
    assert deletion.delete_in_stages(files, io, deleting(context(max_concurrent_deletes=most)), removed)
    assert (removed.count, seen) == (6, most)


def test_every_parameter_of_a_procedure_is_looked_at() -> None:
    """A parameter that no code reads would be ignored in silence."""
    folder = Path(inspect.getfile(unused_arguments)).parent
    code = "".join(path.read_text() for path in folder.glob("*.py"))
    for procedure in BY_NAME.values():
        for parameter in procedure.parameters:
            if procedure.name != "add_files" and parameter.name != "table":  # which is refused, whatever it is given
                assert code.count(f'"{parameter.name}"') + code.count("PARALLELISM.name") > 1, parameter.name


# -- calls ----------------------------------------------------------------------------------------


def test_a_cancelled_call_gets_the_finished_results_and_then_ends() -> None:
    calls, seen, cleaned = Calls(), list[int](), threading.Event()

    def answer(call: Any) -> ProcedureRows:
        try:
            for result in call.run(abs, range(-3, 0)):
                seen.append(result)
        except Exception:
            raise AssertionError("a cancelled call is no failed file") from None
        finally:
            cleaned.set()
        return ROWS

    step = calls.begin("CALL x", answer)
    assert isinstance(step, ProcedureTasks)
    assert len(step.tasks) == 3
    calls.cancel(CancelProcedure(step.call, (pickle.dumps(3),)))
    assert cleaned.is_set(), "the statement waits until the job has cleaned up"
    assert seen == [3]
    with pytest.raises(ConfigError, match="not under way"):
        calls.resume(ContinueProcedure(step.call, ()))


def test_a_cancelled_call_hands_out_no_further_tasks() -> None:
    calls, outcomes = Calls(), list[type[BaseException]]()

    def answer(call: Any) -> ProcedureRows:
        for _ in range(2):  # a job that swallows what ended its tasks
            try:
                list(call.run(abs, [1]))
            except BaseException as error:
                outcomes.append(type(error))
        return ROWS

    step = calls.begin("CALL x", answer)
    assert isinstance(step, ProcedureTasks)
    calls.cancel(CancelProcedure(step.call, ()))
    assert outcomes == [CallCancelled, CallCancelled]


# -- names ------------------------------------------------------------------------------------------


class Elsewhere:
    """A runner that notes what it was given."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, int]] = []

    def run(self, work: Any, tasks: Any) -> Any:
        given = list(tasks)
        self.ran.append((work, len(given)))
        return iter(given)


def read_tasks(count: int, length: int | None) -> Iterator[ReadTask]:
    key = KeyMetadata(bytes(16), bytes(16), length).encode()
    return (
        ReadTask(keyed(f"/nowhere/{number}", key), EncryptingFileIO(PyArrowFileIO(), no_list_key))
        for number in range(count)
    )


@pytest.mark.parametrize("work", [read_list, read_manifest])
@pytest.mark.parametrize(
    ("count", "length", "here"),
    [(0, 1, True), (20, 3 << 20, True), (256, 1, True), (257, 1, False), (22, 3 << 20, False), (9, None, False)],
)
def test_few_names_are_read_by_the_driver(work: Any, count: int, length: int | None, *, here: bool) -> None:
    elsewhere = Elsewhere()
    found = list(FewNamesHere(elsewhere).run(work, read_tasks(count, length)))
    assert len(found) == count
    assert elsewhere.ran == ([] if here else [(work, count)])
    assert all(each.missing for each in found) if here else found


def test_only_names_are_read_by_the_driver() -> None:
    elsewhere = Elsewhere()
    assert list(FewNamesHere(elsewhere).run(deletion.delete_batch, [1, 2])) == [1, 2]
    assert elsewhere.ran == [(deletion.delete_batch, 2)]
