"""A full disk and a KMS that is down, denies, is slow or loses an answer: nothing is lost, and a new run completes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.killed import points, run
from kit.programs.life_work import JOBS, NOW, check, expected, occasion, work
from kit.servers.versioned_kms import VersionedKeys
from kit.tables.lives import ids, lived
from sealberg.jobs import expire, verify

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.killed import Fault

# What each fault is called in an error, or in the outcome of a table.
FAULTS: dict[Fault, str] = {
    "disk full": "No space left on device",
    "KMS down": "KMS down",
    "KMS denied": "denies it",
    "KMS slow": "did not return within",
    "KMS lost answer": "KMS lost answer",
}

IMPATIENT = {
    "encryption.kms.connect-timeout-s": "0.1",
    "encryption.kms.read-timeout-s": "0.2",
    "encryption.kms.max-attempts": "2",
}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_fault_loses_nothing_and_a_new_run_completes(tmp_path: Path, job: str) -> None:
    admin = VersionedKeys(tmp_path / "kms.json")
    admin.rotate("hr")
    own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **admin.properties}
    appended = 0
    with sealberg.load_catalog("test", **own) as catalog:
        catalog.create_namespace("hr")
        table: Any = lived(catalog)

        def prepare() -> None:
            nonlocal appended
            occasion(job, table, appended)
            admin.rotate("hr")
            appended += 1

        def complete(fault: Fault) -> int:
            ended = run(work, job, own, "hr.people", fault=fault)
            assert (ended.error, ended.returned and ended.returned[0]) == ("", 0), ended.returned
            check(job, table)
            assert ids(table) == expected(job, appended)
            return ended.operations

        for fault, words in FAULTS.items():
            hasty = {**own, **IMPATIENT} if fault == "KMS slow" else own
            prepare()
            for at in points(complete(fault), 2, seed=5):
                prepare()
                met = run(work, job, hasty, "hr.people", fault=fault, at=at)
                assert words in (met.error or met.returned[1])
                assert met.error or met.returned[0] == 2
                assert set(expected(job, appended)) <= set(ids(table.refresh()))
                complete(fault)
    with sealberg.load_catalog("test", **own) as catalog:  # without a KEK in memory
        if job == "prune-keys":  # older metadata files still hold the keys; expire removes these files
            expire.plan("hr.people", catalog=catalog, older_than=NOW, retain_last=99).execute()
        assert verify.plan("hr.people", catalog=catalog).execute().exit_code == 0
