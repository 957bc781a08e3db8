"""rewrap of 1,000 tables: the time of each beside the KMS, its calls to the KMS, and what tables cost without need.

The KMS is in this process and counts its calls and its time. Every round rotates the master key, so that every table
needs to be rewrapped, and then runs the job once more over tables that need nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

import sealberg
from bench.figures import Figure
from kit.servers.yearly_kms import YearlyKms
from sealberg.jobs import rewrap
from sealberg.metadata.updates import key_updates

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = int(os.environ.get("BENCH_REWRAP_TABLES", "1000"))
SCHEMA = pa.schema([("id", pa.int64())])


class CountingKms(YearlyKms):
    """Counts calls, and the time that they take."""

    calls: ClassVar[int] = 0
    seconds: ClassVar[float] = 0.0

    @classmethod
    def is_built_in(cls) -> bool:
        return True  # without a thread for every call, which a client of others gets

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return self._counted(super().wrap, key, master_key_id)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        return self._counted(super().unwrap, wrapped, master_key_id)

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        """One call, as a server that rewraps by itself."""
        key = YearlyKms.unwrap(self, wrapped, master_key_id)
        return self._counted(super().wrap, key, master_key_id)

    @classmethod
    def _counted(cls, act: Any, *arguments: Any) -> bytes:
        began = time.perf_counter()
        found: bytes = act(*arguments)
        CountingKms.seconds += time.perf_counter() - began
        CountingKms.calls += 1
        return found


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder))
        needing = idle = cpu = 1e9
        calls = commits = idle_calls = idle_commits = 0
        for _ in range(max(2, min(rounds, 3))):
            CountingKms.newest += 1
            began = time.process_time()
            seconds, calls, commits = _run(Path(folder))
            needing, cpu = min(needing, seconds), min(cpu, time.process_time() - began)
            seconds, idle_calls, idle_commits = _run(Path(folder))
            idle = min(idle, seconds)
    about = f"{TABLES} tables; {1000 * cpu / TABLES:.1f} ms of CPU, the KMS included; load {os.getloadavg()[0]:.1f}"
    yield Figure("rewrap, a table that needs it, beside the KMS", 1000 * needing / TABLES, 20, False, "ms", about)
    yield Figure("rewrap, calls to the KMS for a table that needs it", calls / TABLES, 2, at_least=False)
    yield Figure("rewrap, commits for a table that needs it", commits / TABLES, 1, at_least=False)
    yield Figure("rewrap, a table that needs nothing", 1000 * idle / TABLES, 20, False, "ms")
    yield Figure("rewrap, calls to the KMS for tables that need nothing", idle_calls, 0, at_least=False)
    yield Figure("rewrap, commits for tables that need nothing", idle_commits, 0, at_least=False)


def _connect(folder: Path) -> Any:
    own = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    return sealberg.load_catalog("bench", **own, **{"encryption.kms-impl": "bench.rewrap.CountingKms"})


def _make(folder: Path) -> None:
    """Tables with a KEK that seals a key, as after a commit."""
    with _connect(folder) as catalog:
        catalog.create_namespace("db")
        for number in range(TABLES):
            settings = {"encryption.key-id": "keyA"}
            table: Any = catalog.create_table(f"db.t{number:04}", SCHEMA, properties=settings)
            ring = table.metadata.encryption_keys
            sealed, _ = table.encryption.seal_list_key(ring, replace(table.encryption.new_file_key(), file_length=100))
            change = table.transaction()
            change.apply(key_updates(sealed.diff(ring)))
            change.commit_transaction()


def _run(folder: Path) -> tuple[float, int, int]:
    """The time beside the KMS, the calls to it, and the number of commits, of one run over all tables."""
    with _connect(folder) as catalog:
        CountingKms.calls, CountingKms.seconds = 0, 0.0
        before = sum(1 for _ in folder.rglob("*.metadata.json"))
        began = time.perf_counter()
        result = rewrap.plan(catalog=catalog, every=True).execute()
        spent = time.perf_counter() - began - CountingKms.seconds
        assert result.exit_code == 0, str(result)[-2000:]
        return spent, CountingKms.calls, sum(1 for _ in folder.rglob("*.metadata.json")) - before
