"""What each worker does, by its seed alone: the same seed gives the same operations, whatever becomes of them.

    Plan(seed, worker, kinds)  ──>  Operation 0, Operation 1, ...

A worker owns the keys `worker * 1_000_000 + n`. The rows that a table begins with lie in partitions 0 to 9, and each of
their files holds rows of every worker: workers never change the same row, and often the same file. Partition
`100 + worker` is a worker's own.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OWNED: Final = 1_000_000
SHARED: Final = 10  # partitions
SEEDED: Final = 6  # rows of each worker in each of them
MAIN: Final = "main"

# How often each kind is chosen.
KINDS: Final[Mapping[str, int]] = {
    "append": 5,
    "delete": 6,
    "upsert": 4,
    "overwrite": 2,
    "replace": 1,
    "mode": 1,
    "column": 1,
    "tag": 1,
    "branch": 1,
    "unref": 1,
    "expire": 3,
    "read": 2,
}
SPEC_CHANGES: Final = {**{kind: weight for kind, weight in KINDS.items() if kind != "replace"}, "field": 1}
ROLLBACKS: Final = {**KINDS, "rollback": 1}
SQL: Final = {"append": 3, "delete": 3, "update": 3, "merge": 3, "read": 1}  # of a Spark driver


@dataclass(frozen=True)
class Row:
    """A row of the table; the worker that owns it follows from its key."""

    k: int
    p: int
    v: int

    @property
    def w(self) -> int:
        return self.k // OWNED


@dataclass(frozen=True)
class Operation:
    """One thing that a worker does.

    Args:
        kind: append rows; delete keys; upsert (or merge) rows; update keys to `value`; overwrite the worker's rows of
            `partition`; replace the partitions of rows; mode, column, field, tag, branch, unref, rollback, expire:
            changes of metadata; read: look at the newest snapshot.
        ref: the branch that is written to, or the name that is made or removed.
        hold_s: how long the operation is kept between its planning and its commit.
        stale: it begins from the table as this worker saw it last.
        keep: how many snapshots an expiry leaves.
    """

    worker: int
    index: int
    kind: str
    ref: str = MAIN
    rows: tuple[Row, ...] = ()
    keys: tuple[int, ...] = ()
    partition: int = -1
    value: int = 0
    hold_s: float = 0.0
    stale: bool = False
    keep: int = 0

    @property
    def name(self) -> str:
        return f"{self.worker}.{self.index}"

    @property
    def writes_rows(self) -> bool:
        return self.kind in ("append", "delete", "upsert", "merge", "update", "overwrite", "replace")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Operation:
        return cls(**{**values, "rows": tuple(Row(**row) for row in values["rows"]), "keys": tuple(values["keys"])})


def seed_rows(workers: int) -> list[Row]:
    """What a table begins with."""
    return [
        Row(worker * OWNED + partition * 1000 + number, partition, 0)
        for partition in range(SHARED)
        for worker in range(workers)
        for number in range(SEEDED)
    ]


class Plan:
    """The operations of one worker."""

    def __init__(self, seed: int, worker: int, kinds: Mapping[str, int], hold_s: float = 1.0) -> None:
        self.worker = worker
        self._random = random.Random(f"plan {seed} {worker}")
        self._kinds, self._weights = zip(*kinds.items(), strict=True)
        self._hold_s = hold_s
        # What would be there if everything had succeeded: keys and their partitions.
        self._keys = {row.k: row.p for row in seed_rows(worker + 1) if row.w == worker}
        self._branch_keys: dict[str, list[int]] = {}
        self._refs: list[str] = []

    def __iter__(self) -> Iterator[Operation]:
        for index in range(OWNED):
            yield self._next(index)

    def _next(self, index: int) -> Operation:
        dice = self._random
        kind = dice.choices(self._kinds, self._weights)[0]
        hold = round(dice.uniform(0, self._hold_s), 2) if dice.random() < 0.3 else 0.0
        stale = dice.random() < 0.4
        branches = [ref for ref in self._refs if ref.startswith("b")]
        ref = dice.choice(branches) if branches and dice.random() < 0.25 else MAIN
        start = {"worker": self.worker, "index": index, "hold_s": hold, "stale": stale}
        if kind in ("tag", "branch"):
            made = f"{kind[0]}{self.worker}_{index}"
            self._refs.append(made)
            if kind == "branch":
                self._branch_keys[made] = []
            return Operation(self.worker, index, kind, ref=made)
        if kind == "unref":
            if not self._refs:
                return Operation(self.worker, index, "read")
            return Operation(self.worker, index, kind, ref=self._refs.pop(0))
        if kind == "expire":
            return Operation(self.worker, index, kind, stale=stale, keep=dice.choice((1, 1, 2, 5, 15)))
        if kind in ("mode", "column", "field", "rollback", "read"):
            return Operation(self.worker, index, kind, stale=stale and kind == "rollback", value=dice.randrange(2))
        return self._data(kind, ref, index, start)

    def _data(self, kind: str, ref: str, index: int, start: Mapping[str, Any]) -> Operation:
        dice = self._random
        known = self._keys if ref == MAIN else dict.fromkeys(self._branch_keys[ref], 100 + self.worker)
        if kind in ("overwrite", "replace") and ref != MAIN:
            kind = "append"
        if kind in ("delete", "upsert", "update", "merge") and not known:
            kind = "append"
        if kind in ("delete", "update"):
            keys = tuple(dice.sample(sorted(known), min(len(known), dice.randint(1, 5))))
            if kind == "delete":
                self._forget(ref, keys)
            return Operation(kind=kind, ref=ref, keys=keys, value=index + 1, **start)
        home = 100 + self.worker if kind == "replace" or dice.random() < 0.3 or ref != MAIN else dice.randrange(SHARED)
        new = tuple(
            Row(self.worker * OWNED + 100_000 + index * 10 + number, home, index + 1)
            for number in range(dice.randint(1, 4))
        )
        if kind in ("upsert", "merge"):
            old = dice.sample(sorted(known), min(len(known), dice.randint(1, 4)))
            changed = tuple(Row(key, known[key], index + 1) for key in old)
            rows = (*changed, *(new[:1] if dice.random() < 0.5 else ()))
        else:
            rows = new
        if kind in ("overwrite", "replace"):
            self._forget(ref, [key for key, partition in known.items() if partition == home])
        if ref == MAIN:
            self._keys.update({row.k: row.p for row in rows})
        else:
            self._branch_keys[ref] = sorted({*self._branch_keys[ref], *(row.k for row in rows)})
        return Operation(kind=kind, ref=ref, rows=rows, partition=home, **start)

    def _forget(self, ref: str, keys: tuple[int, ...] | list[int]) -> None:
        if ref == MAIN:
            for key in keys:
                self._keys.pop(key)
        else:
            self._branch_keys[ref] = [key for key in self._branch_keys[ref] if key not in keys]
