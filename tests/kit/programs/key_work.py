"""Jobs on keys as functions that `killed.run` starts: a module of its own, so that the process imports little.

work("rewrap", properties, "db.t")            the exit code of the job
shred_work(properties, "hr.people", record)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sealberg.catalogs.load import load_catalog
from sealberg.jobs import prune_keys, rewrap, rotate, shred

if TYPE_CHECKING:
    from pathlib import Path

JOBS: dict[str, Any] = {"rotate": rotate.plan, "rewrap": rewrap.plan, "prune-keys": prune_keys.plan}


def work(job: str, properties: dict[str, str], table: str) -> int:
    with load_catalog("test", **properties) as catalog:
        code: int = JOBS[job](table, catalog=catalog).execute().exit_code
        return code


def shred_work(properties: dict[str, str], table: str, record: Path) -> int:
    with load_catalog("test", **properties) as catalog:
        return shred.plan(table, catalog=catalog, record=record, approved_by="Eve").execute().exit_code
