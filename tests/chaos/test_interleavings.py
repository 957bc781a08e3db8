"""What rounds meet by chance, brought about on purpose: a plan that others have made wrong, and hidden that they did.

    A plans a delete ──> B deletes other rows of the same file ──> C hides the commit of B ──> A commits

C rewrites the manifest of B, merges it, or expires the snapshot of B. Whatever A is told must be true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException

from chaos import checker
from chaos.log import Log
from chaos.plan import OWNED, Operation, Row
from chaos.round import NAME, Round
from chaos.worker import do, name_of, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

A, B, C = 0, 1, 2


class Scene:
    """A table, and workers who do what they are told, in the order in which they are told."""

    def __init__(self, settings: Round, catalog: Any) -> None:
        self.settings = settings
        self._catalog = catalog
        self._logs = {worker: Log(settings.log(worker)) for worker in (A, B, C)}
        self._next = dict.fromkeys((A, B, C), 0)

    def begin(self, worker: int, kind: str, **about: Any) -> tuple[Operation, Any]:
        operation = Operation(worker, self._next[worker], kind, **about)
        self._next[worker] += 1
        self._logs[worker].operation = operation.index
        self._logs[worker]("attempt", plan=operation.to_json())
        return operation, self._catalog.load_table(NAME)

    def run(self, worker: int, kind: str, **about: Any) -> None:
        operation, table = self.begin(worker, kind, **about)
        do(operation, table, self._logs[worker])
        for path in self.settings.root.rglob("*"):  # nobody logs files here: they are the operation's
            if path.is_file() and "warehouse" in path.parts:
                self._logs[worker]("created", file=str(path))
        self._logs[worker]("acknowledged", at=table.metadata_location)

    def plan(self, worker: int, kind: str, **about: Any) -> Any:
        operation, table = self.begin(worker, kind, **about)
        held = table.transaction()
        write_rows(operation, held)
        return held

    def commit(self, worker: int, held: Any) -> bool:
        try:
            table = held.commit_transaction()
        except (ValidationException, CommitFailedException) as error:
            self._logs[worker]("failed", error=name_of(error), message=str(error))
            return False
        self._logs[worker]("acknowledged", at=table.metadata_location)
        return True


@pytest.fixture(params=["merge-on-read", "copy-on-write"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    modes = {f"write.{what}.mode": request.param for what in ("delete", "update", "merge")}
    settings = Round("interleaving", 0, str(tmp_path), place, workers=3, table=modes)
    settings.make()
    with settings.connect() as catalog:
        yield Scene(settings, catalog)


def key(worker: int, partition: int, number: int = 0) -> int:
    return worker * OWNED + partition * 1000 + number


def hide(scene: Scene, how: str) -> None:
    if how == "rewritten":
        scene.run(C, "delete", keys=(key(C, 1),))
    elif how == "merged":
        for number in range(3):
            scene.run(C, "append", rows=(Row(key(C, 50, number), 50, 1),))
    elif how == "expired":
        scene.run(C, "append", rows=(Row(key(C, 50), 50, 1),))
        scene.run(C, "expire", keep=1)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["shown", "rewritten", "merged", "expired"])
def test_a_plan_that_another_commit_made_wrong_is_refused_however_that_commit_is_hidden(scene: Scene, how: str) -> None:
    held = scene.plan(A, "delete", keys=(key(A, 0),))
    scene.run(B, "delete", keys=(key(B, 0), key(B, 1)))
    hide(scene, how)
    committed = scene.commit(A, held)
    verdict = checker.check(scene.settings)
    verdict.kinds.pop("orphans", None)
    assert not verdict.kinds, f"{how}: {verdict}"
    assert not committed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["shown", "rewritten", "merged", "expired"])
def test_a_plan_that_others_did_not_touch_is_committed_or_refused_and_never_half_done(scene: Scene, how: str) -> None:
    held = scene.plan(A, "delete", keys=(key(A, 5),))
    scene.run(B, "delete", keys=(key(B, 0), key(B, 1)))
    hide(scene, how)
    committed = scene.commit(A, held)
    verdict = checker.check(scene.settings)
    verdict.kinds.pop("orphans", None)
    assert not verdict.kinds, f"{how}: {verdict}"
    # By the bounds of their keys, files that were rewritten could hold a row that A deletes.
    assert committed or how == "expired" or scene.settings.table["write.delete.mode"] == "copy-on-write"
