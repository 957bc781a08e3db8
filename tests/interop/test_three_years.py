"""Three years of a table's keys, by a clock that is moved: commits every few days, expiry every month, the master key
rotated every year, a KEK for 730 days, one incident. After every step the keys are as they must be; then Java reads.

SEALBERG_YEARS_STEP=1 commits on every day, which takes three times as long.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.servers.yearly_kms import YearlyKms
from sealberg.errors import SealbergError
from sealberg.jobs import expire, keys, orphans, rekey, rewrap, rotate, verify

if TYPE_CHECKING:
    from pathlib import Path

    from kit.tables.three import Three

DAYS = 3 * 365
STEP = int(os.environ.get("SEALBERG_YEARS_STEP", "3"))
MONTH, YEAR = 30, 365
INCIDENT = 500
KEPT = timedelta(days=7)


@dataclass
class Clock:
    """The clock of this process, some days ahead; the lives of cached keys are not touched."""

    days: int = 0
    real_ns: Any = time.time_ns
    real: Any = time.time

    def time_ns(self) -> int:
        now: int = self.real_ns()
        return now + self.days * 86_400 * 10**9

    def time(self) -> float:
        now: float = self.real()
        return now + self.days * 86_400


@dataclass
class Life:
    """The table, and what must be true of it."""

    catalog: Any
    folder: Path
    expired: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    keks: set[str] = field(default_factory=set)

    @property
    def table(self) -> Any:
        return self.catalog.load_table("db.years")

    def check(self, table: Any) -> None:
        """Every live snapshot has a key that opens, and there are no more keys than snapshots and KEKs."""
        metadata = table.metadata
        ring = metadata.encryption_keys
        for snapshot in metadata.snapshots:
            table.encryption.open_list_key(ring, snapshot.key_id)
        own = {key.key_id for key in ring if key.timestamp is not None}
        assert len(ring) <= len(metadata.snapshots) + len(own)
        live = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        self.expired |= self.seen - live
        self.seen |= live
        self.keks |= own

    def check_all(self) -> None:
        """Without a KEK in memory: every live snapshot reads, and no metadata file opens an expired one."""
        self.catalog._keks.close()
        table = self.table
        for snapshot in table.metadata.snapshots:
            assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0
        assert self.expired.isdisjoint(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
        for path in self.folder.rglob("*.metadata.json"):
            older: Any = sealberg.open_table(f"file://{path}", kms=YearlyKms.from_properties({}))
            for snapshot in older.metadata.snapshots:
                if snapshot.snapshot_id in self.expired:
                    with pytest.raises((SealbergError, OSError)):
                        snapshot.manifests(older.io)


@pytest.mark.slow
def test_three_years_of_keys(three: Three, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    monkeypatch.setattr(time, "time", clock.time)
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    impl = {"encryption.kms-impl": "kit.servers.yearly_kms.YearlyKms"}
    with closing(sealberg.load_catalog("test", **own, **impl)) as catalog:
        catalog.create_namespace("db")
        settings = {"encryption.key-id": "keyA", "commit.manifest.min-count-to-merge": "20"}
        table: Any = catalog.create_table("db.years", pa.schema([("day", pa.int64())]), properties=settings)
        life = Life(catalog, tmp_path / "w")
        days = range(0, DAYS, STEP)
        for day in days:
            clock.days = day
            table.append(pa.table({"day": pa.array([day], pa.int64())}))
            life.check(table)
            for length, act in ((MONTH, _month), (YEAR, _year), (INCIDENT, _incident)):
                if (day + STEP) // length > day // length and (length != INCIDENT or day < INCIDENT):
                    table = act(life)
        assert table.scan().to_arrow().num_rows == len(days)
        # The first KEK went with the incident; the second is 594 days old, so no KEK has reached 730 days yet.
        assert len(life.keks) == 2
        clock.days = INCIDENT + 731
        table.append(pa.table({"day": pa.array([clock.days], pa.int64())}))
        life.check(table)
        assert len(life.keks) == 3
        life.check_all()
        # The log of metadata files has forgotten the one that still holds the leaked KEK, and verify says so.
        orphans.plan("db.years", catalog=catalog, older_than=timedelta(0), allow_recent=True).execute()
        assert verify.plan("db.years", catalog=catalog).execute().exit_code == 0
        assert keys.plan("db.years", catalog=catalog).execute().exit_code == 0
        three.catalog.register_table("db.years", table.metadata_location)
        assert three.sql("java", "SELECT count(*) AS n, max(day) AS day FROM {t}", "years") == [
            {"n": len(days) + 1, "day": clock.days}
        ]


def _month(life: Life) -> Any:
    table = life.table
    table.overwrite(table.scan().to_arrow())  # into one file
    life.check(table)
    assert expire.plan("db.years", catalog=life.catalog, older_than=KEPT, retain_last=3).execute().exit_code == 0
    table = life.table
    life.check(table)
    return table


def _year(life: Life) -> Any:
    """The master key gets another version; then nothing needs the one before."""
    YearlyKms.newest += 1
    assert rewrap.plan("db.years", catalog=life.catalog).execute().exit_code == 0
    YearlyKms.oldest = YearlyKms.newest
    life.check_all()
    return life.table


def _incident(life: Life) -> Any:
    """A KEK has leaked: a fresh KEK, new keys for every file, and the snapshots of the old ones expire."""
    rotate.plan("db.years", catalog=life.catalog).execute()
    assert rekey.plan("db.years", catalog=life.catalog).execute().exit_code == 0
    expire.plan("db.years", catalog=life.catalog, older_than=timedelta(0), retain_last=1).execute()
    table = life.table
    life.check(table)
    life.check_all()
    leaked = life.keks - {kek.key_id for kek in table.metadata.encryption_keys.keks("keyA")}
    assert len(leaked) == 1  # it opens nothing that is left
    return table
