"""Expiry, orphans and erasure with tasks that other processes work on."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kit.tables.lives import check_exact, ids, lived
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.jobs import erase, expire, orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

NOW = timedelta(0)


class Elsewhere:
    """A runner whose tasks and results are pickled, as Spark's are."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for task in tasks:
            self.sent.append(pickle.dumps((work, task)))
            there, given = pickle.loads(self.sent[-1])
            yield pickle.loads(pickle.dumps(there(given)))


def test_tasks_travel_without_the_kms_and_without_the_catalog(tmp_path: Path) -> None:
    runner = Elsewhere()
    with sealed_catalog(tmp_path) as catalog:
        table = lived(catalog)
        assert erase.plan(table, where="id = 5", runner=runner).execute(runner=runner).is_proved
        expire.plan(table, older_than=NOW).execute(runner=runner)
        orphans.plan(table, older_than=NOW, allow_recent=True, runner=runner).execute(runner=runner)
        table.refresh()
        assert ids(table) == [2, 4, 6, 20]
        check_exact(table)
    assert len(runner.sent) > 20
    for secret in (MASTER_KEY.encode(), bytes.fromhex(MASTER_KEY), b"catalog.db", b"kms-type"):
        assert not [task for task in runner.sent if secret in task]
