"""One table, forty commits of Java, Python and Spark in a random order; after each, all three read the same rows.

The rows are kept in a dictionary here as well, so that three who agree on something wrong are found out too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from kit.tables.three import Three, ours

if TYPE_CHECKING:
    from collections.abc import Callable

COMMITS: Final = 40
SEED: Final = 20_261_116
WRITERS: Final = ("java", "python", "spark")
CREATE: Final = (
    "CREATE TABLE {t} (id bigint, data string, kind string) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES "
    "('format-version' = '3', 'encryption.key-id' = 'keyA', 'commit.manifest.min-count-to-merge' = '6')"
)
MODES: Final = ("write.delete.mode", "write.update.mode", "write.merge.mode")


def kind(row: int) -> str:
    return "xyz"[row % 3]


@dataclass
class Turns:
    """The table, and what must be in it."""

    three: Three
    dice: random.Random
    name: str = "turns"
    expected: dict[int, str] = field(default_factory=dict)
    next_id: int = 0
    added: list[str] = field(default_factory=list)  # columns
    history: list[str] = field(default_factory=list)

    def turn(self) -> None:
        writer = self.dice.choice(WRITERS)
        acts: list[Callable[[str], None]] = [
            *[self.insert] * 3, *[self.delete] * 3, *[self.update] * 2, self.upsert, self.overwrite,
            self.change_mode, self.add_column, self.rename_column, self.expire, self.tidy,
        ]  # fmt: skip
        act = self.dice.choice(acts if len(self.expected) > 4 else [self.insert])
        self.history.append(f"{writer} {act.__name__}")
        act(writer)

    def fresh(self) -> list[int]:
        count = self.dice.randint(1, 9)
        self.next_id += count
        return list(range(self.next_id - count, self.next_id))

    def some(self) -> list[int]:
        return sorted(self.dice.sample(sorted(self.expected), self.dice.randint(1, min(4, len(self.expected)))))

    def values(self, ids: list[int], data: str) -> str:
        return ", ".join(f"({i}, '{data}{i}', '{kind(i)}')" for i in ids)

    def rows(self, ids: list[int], data: str) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "data": [f"{data}{i}" for i in ids], "kind": map(kind, ids)})

    def expect(self, ids: list[int], data: str) -> None:
        self.expected |= {i: f"{data}{i}" for i in ids}

    def sql(self, writer: str, text: str) -> None:
        self.three.sql(writer, text, self.name)

    @property
    def table(self) -> Any:
        return self.three.table(self.name)

    # -- commits ----------------------------------------------------------------------------------

    def insert(self, writer: str) -> None:
        ids, data = self.fresh(), f"{writer} {len(self.history)} "
        if writer == "python":
            self.table.append(self.rows(ids, data))
        else:
            self.sql(writer, f"INSERT INTO {{t}} (id, data, kind) VALUES {self.values(ids, data)}")
        self.expect(ids, data)

    def delete(self, writer: str) -> None:
        ids = self.some()
        if writer == "python":
            self.table.delete(f"id in ({', '.join(map(str, [*ids, -1]))})")
        else:
            self.sql(writer, f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, ids))})")
        for i in ids:
            del self.expected[i]

    def update(self, writer: str) -> None:
        ids, data = self.some(), f"{writer} {len(self.history)} "
        if writer == "python":
            self.table.upsert(self.rows(ids, data), join_cols=["id"])
        else:
            self.sql(writer, f"UPDATE {{t}} SET data = concat('{data}', id) WHERE id IN ({', '.join(map(str, ids))})")
        self.expect(ids, data)

    def upsert(self, writer: str) -> None:
        ids, data = [*self.some(), *self.fresh()], f"{writer} {len(self.history)} "
        if writer == "python":
            self.table.upsert(self.rows(ids, data), join_cols=["id"])
        else:
            self.sql(
                writer,
                f"MERGE INTO {{t}} AS t USING (SELECT * FROM VALUES {self.values(ids, data)} AS v(id, data, kind)) s "
                "ON t.id = s.id WHEN MATCHED THEN UPDATE SET data = s.data "
                "WHEN NOT MATCHED THEN INSERT (id, data, kind) VALUES (s.id, s.data, s.kind)",
            )
        self.expect(ids, data)

    def overwrite(self, writer: str) -> None:
        """All of one partition by a few rows."""
        ids, data = [i for i in self.fresh() if i % 3 == 0], f"{writer} {len(self.history)} "
        if not ids:
            return
        if writer == "python":
            self.table.dynamic_partition_overwrite(self.rows(ids, data))
        else:
            chosen = ", ".join(f"({i}, '{data}{i}')" for i in ids)
            self.sql(writer, f"INSERT OVERWRITE {{t}} PARTITION (kind = 'x') (id, data) VALUES {chosen}")
        self.expected = {i: text for i, text in self.expected.items() if i % 3}
        self.expect(ids, data)

    def change_mode(self, writer: str) -> None:
        mode = self.dice.choice(("merge-on-read", "copy-on-write"))
        if writer == "python":
            with self.table.transaction() as transaction:
                transaction.set_properties(dict.fromkeys(MODES, mode))
        else:
            self.sql(
                writer, f"ALTER TABLE {{t}} SET TBLPROPERTIES ({', '.join(f'{one!r} = {mode!r}' for one in MODES)})"
            )

    def add_column(self, writer: str) -> None:
        name = f"c{len(self.history)}"
        if writer == "python":
            from pyiceberg.types import LongType

            with self.table.update_schema() as update:
                update.add_column(name, LongType())
        else:
            self.sql(writer, f"ALTER TABLE {{t}} ADD COLUMN {name} bigint")
        self.added.append(name)

    def rename_column(self, writer: str) -> None:
        if not self.added:
            return
        old, new = self.added.pop(), f"r{len(self.history)}"
        if writer == "python":
            with self.table.update_schema() as update:
                update.rename_column(old, new)
        else:
            self.sql(writer, f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")
        self.added.append(new)

    def expire(self, writer: str) -> None:
        if writer == "java":
            self.sql(
                writer,
                "CALL {c}.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', "
                "retain_last => 3)",
            )
        elif old := [one.snapshot_id for one in self.table.metadata.snapshots][:-3]:
            self.table.maintenance.expire_snapshots().by_ids(old).commit()

    def tidy(self, writer: str) -> None:
        """What only Java does; others append."""
        if writer == "java":
            rewrite = self.dice.choice(("rewrite_manifests('{name}')", "rewrite_data_files('{name}')"))
            self.sql(writer, f"CALL {{c}}.system.{rewrite}")
        else:
            self.insert(writer)


@pytest.mark.parametrize("seed", [SEED])
def test_forty_commits_in_turns(three: Three, seed: int) -> None:
    three.sql("java", CREATE, "turns")
    turns = Turns(three, random.Random(seed))
    for _ in range(COMMITS):
        turns.turn()
        three.agreed("turns")
        found = {row["id"]: row["data"] for row in ours(three.table("turns"))}
        assert found == turns.expected, turns.history
    for snapshot in three.table("turns").metadata.snapshots:
        three.agreed("turns", snapshot.snapshot_id)
    assert set(WRITERS) == {line.split()[0] for line in turns.history}
