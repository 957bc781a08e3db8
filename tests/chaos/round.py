"""One round: a fresh table, workers and faults, by seed.

Round            all that a worker must know; kept as round.json in the folder of the round
round.connect()  a catalog on it
round.make()     the table, with rows of every worker in every shared file
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import sealberg
from chaos.plan import KINDS, SQL, Plan, seed_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chaos.plan import Row

CATALOG: Final = "chaos"
NAME: Final = "db.t"
OPERATION: Final = "chaos.op"  # the snapshot property that names the operation which made a snapshot
SEED: Final = "seed"
KEY_ID: Final = "keyA"
# The KMS of Iceberg Java's own tests, so that Iceberg Java can read what is left.
KMS: Final = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}
SCHEMA: Final = pa.schema([("k", pa.int64()), ("w", pa.int32()), ("p", pa.int32()), ("v", pa.int64())])
PROPERTIES: Final = {
    "encryption.key-id": KEY_ID,
    "write.metadata.previous-versions-max": "1000000",  # the checker reads every version
    "commit.manifest.min-count-to-merge": "3",
    "commit.retry.num-retries": "20",
    "commit.retry.min-wait-ms": "20",
    "commit.retry.max-wait-ms": "1000",
    "commit.status-check.min-wait-ms": "100",
    "commit.status-check.max-wait-ms": "2000",
}


@dataclass(frozen=True)
class Round:
    """What a round is made of.

    Args:
        catalog: properties for `load_catalog`.
        kinds: operations and their weights.
        storage: how often each step of storage fails, see `chaos.storage`.
        lost: the share of answers of an SQL database that are lost.
        kms: the share of requests to the KMS that fail.
        clocks: seconds by which the clock of worker n is wrong, in turns.
    """

    scenario: str
    seed: int
    folder: str
    catalog: dict[str, str]
    workers: int = 4
    seconds: float = 30.0
    kinds: dict[str, int] = field(default_factory=lambda: dict(KINDS))
    table: dict[str, str] = field(default_factory=dict)
    hold_s: float = 1.0
    storage: dict[str, float] = field(default_factory=dict)
    lost: float = 0.0
    kms: float = 0.0
    clocks: tuple[float, ...] = (0.0,)
    spark: bool = False  # a Spark driver writes too, as the worker after the last

    @property
    def root(self) -> Path:
        return Path(self.folder)

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def owners(self) -> int:
        """How many own rows: all workers, and Spark."""
        return self.workers + self.spark

    def log(self, worker: int) -> Path:
        return self.logs / f"{worker}.jsonl"

    def plan(self, worker: int) -> Plan:
        return Plan(self.seed, worker, self.kinds if worker < self.workers else SQL, self.hold_s)

    def connect(self, **more: str) -> Any:
        """A catalog without faults, unless the properties bring some."""
        return sealberg.load_catalog(CATALOG, **{**self.catalog, **KMS, **more})

    def make(self) -> None:
        """The folder, and the table with its first rows."""
        self.logs.mkdir(parents=True)
        (self.root / "round.json").write_text(json.dumps(asdict(self)))
        with self.connect() as catalog:
            catalog.create_namespace_if_not_exists("db")
            table = catalog.create_table(NAME, SCHEMA, properties={**PROPERTIES, **self.table})
            with table.update_spec() as spec:
                spec.add_identity("p")
            table = catalog.load_table(NAME)
            table.append(to_arrow(seed_rows(self.owners)), snapshot_properties={OPERATION: SEED})

    @classmethod
    def read(cls, folder: str) -> Round:
        values = json.loads((Path(folder) / "round.json").read_text())
        return cls(**{**values, "clocks": tuple(values["clocks"])})


def to_arrow(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([{"k": row.k, "w": row.w, "p": row.p, "v": row.v} for row in rows], schema=SCHEMA)
