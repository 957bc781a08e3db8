"""Two attempts of one task at once: Spark repeats tasks that are slow, and one of both attempts is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from jobs.job_tables import content, make
from kit.tables.tables import local, sealed_catalog
from sealberg.jobs import change_master, decrypt, rekey, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

T = TypeVar("T")
R = TypeVar("R")


class Twice:
    """Each task has two attempts. The second fails at its end: it deletes what it has written."""

    def __init__(self) -> None:
        self.given_up = 0

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        for task in tasks:
            made, other = work(task), work(task)
            for location in places(other):
                local(location).unlink()
                self.given_up += 1
            yield made


def places(made: Any) -> list[str]:
    """What a task has written."""
    return [made.target] if hasattr(made, "target") else []


@pytest.mark.parametrize("job", ["change-master", "rekey", "decrypt"])
def test_an_attempt_that_fails_leaves_the_file_of_the_other(job: str, tmp_path: Path) -> None:
    with sealed_catalog(tmp_path, **{"encryption.kms.memory.key.hr2": "cd" * 16}) as catalog:
        table: Any = make(catalog, "hr.t")
        before = content(table)
        runner = Twice()
        name = "hr.t"
        if job == "change-master":
            change_master.plan(name, "hr2", catalog=catalog, history=True, drop_old=True).execute(runner=runner)
        elif job == "rekey":
            rekey.plan(name, catalog=catalog, erase=True).execute(runner=runner)
        else:
            name = "hr.open"
            decrypt.plan("hr.t", name, reason="a test", catalog=catalog).execute(runner=runner)
        assert runner.given_up > 0
        assert content(catalog.load_table(name)) == before
        if job != "decrypt":
            result = verify.plan(name, catalog=catalog, level="deep").execute()
            assert (result.findings, result.not_checked) == ((), ())
