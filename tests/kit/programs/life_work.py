"""The jobs of a table's life as functions that `killed.run` starts, on any catalog, and what gives them work.

    work("expire", properties, "db.t")      the exit code and the text of the job, with the catalog of these properties
    occasion("orphans", table, 3)           something for the next run to do, besides what a killed run has left
    expected("orphans", 3)                  the rows of the table after three occasions and a run
    check("orphans", table)                 what else must hold when a run has ended

The table is `lived`. `occasion` also appends the row 100 + number: the second writer.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.tables.lives import rows
from sealberg.catalogs.load import load_catalog
from sealberg.files.locations import normal
from sealberg.jobs import erase, expire, orphans, prune_keys, rewrap, rotate, shred
from sealberg.jobs.runner import Threads
from sealberg.keys.keyring import EncryptedKey
from sealberg.metadata.updates import AddEncryptionKeyUpdate

if TYPE_CHECKING:
    from sealberg.jobs.job import Plan

NOW = timedelta(0)
LIVED = (2, 4, 5, 6, 20)
TO_ERASE = 500
KEY_JOBS = ("rotate", "rewrap", "prune-keys")
JOBS = (*KEY_JOBS, "expire", "orphans", "erase", "shred")


def work(job: str, properties: dict[str, str], table: str) -> tuple[int, str]:
    with load_catalog("test", **properties) as catalog:
        plan = _plan(job, table, catalog)
        result = plan.execute() if job in (*KEY_JOBS, "shred") else plan.execute(runner=Threads(1))
        return result.exit_code, str(result)


def _plan(job: str, table: str, catalog: Any) -> Plan[Any]:
    one = Threads(1)
    if job == "expire":
        return expire.plan(table, catalog=catalog, older_than=NOW)
    if job == "orphans":
        return orphans.plan(table, catalog=catalog, older_than=NOW, allow_recent=True, runner=one)
    if job == "erase":
        return erase.plan(table, catalog=catalog, where=f"id >= {TO_ERASE}", runner=one)
    plans: dict[str, Any] = {
        "rotate": rotate.plan,
        "rewrap": rewrap.plan,
        "prune-keys": prune_keys.plan,
        "shred": shred.plan,
    }
    made: Plan[Any] = plans[job](table, catalog=catalog)
    return made


def occasion(job: str, table: Any, number: int) -> None:
    table.refresh()
    table.append(rows(100 + number))
    if job == "erase":
        table.append(rows(TO_ERASE + number, TO_ERASE + 100 + number))
    if job == "orphans":
        folder = Path(normal(table.metadata.location)) / "data"
        for each in range(3):
            (folder / f"orphan-{number}-{each}-{uuid.uuid4()}.parquet").write_bytes(b"of a writer that was killed")
    if job == "prune-keys":
        kek = next(key.key_id for key in table.metadata.encryption_keys if key.timestamp)
        begun = table.transaction()
        stray = EncryptedKey(f"stray-{number}", b"x" * 60, kek)
        begun.apply((AddEncryptionKeyUpdate.model_validate({"encryption-key": stray}),))
        begun.commit_transaction()


def expected(job: str, appended: int) -> list[int]:
    """The rows after a run, with the rows of so many occasions."""
    return [] if job == "shred" else sorted([*LIVED, *range(100, 100 + appended)])


def check(job: str, table: Any) -> None:
    table.refresh()
    ring = table.metadata.encryption_keys
    if job == "shred":
        assert (len(table.metadata.snapshots), len(ring)) == (0, 0)
    if job == "prune-keys":
        assert not [key for key in ring if key.key_id.startswith("stray")]
    if job == "expire":
        assert len(table.metadata.snapshots) == len(table.metadata.refs)
    if job == "orphans":
        assert not list(Path(normal(table.metadata.location)).rglob("orphan-*"))
