"""`rotate`: a fresh KEK for tables, which seals the keys of all later commits.

    plan("hr", older_than=timedelta(days=365)) ──> KeyPlan ──execute()──> KeyResult

    before    master key ── KEK 1 ── the keys of all snapshots
    after     master key ─┬ KEK 1 ── the keys of snapshots until now
                          └ KEK 2 ── the keys of snapshots from now on

Two calls to the KMS (wrap, and unwrap as a check) and one commit of metadata for each table. No file is rewritten: what
KEK 1 opens, it still opens. `rekey` and `expire` take files and snapshots away from an old KEK.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from sealberg.errors import ConfigError
from sealberg.jobs.core import Tables, on_tables, option, parameters
from sealberg.jobs.job import Amount, PlanStep
from sealberg.jobs.key_jobs import KeyOutcome, KeyPlan, TableWork, commit, manager_of
from sealberg.jobs.key_tree import age_words
from sealberg.keys.keyring import DAY_MS
from sealberg.table.key_changes import KEK_SINCE, AddKek, active_kek

if TYPE_CHECKING:
    from sealberg.keys.keyring import EncryptedKey
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable


@parameters
class RotateOptions(Tables):
    """Give tables a fresh KEK, which seals the keys of later commits. What an older KEK sealed stays
    readable, and no file is rewritten.

    Exit code 0: done. 2: a table could not be changed; run the command again.
    """

    older_than: timedelta | None = option("Only where the active KEK is older, for example 365d.", default=None)
    wraps: int | None = option(
        "Only where the active KEK has sealed more than N keys. With both, one of them is enough.",
        default=None,
        metavar="N",
        least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.older_than is not None and self.older_than < timedelta(0):
            raise ConfigError(f"`older_than` is {self.older_than}, expected 0 or more")
        if self.wraps is not None and self.wraps < 0:
            raise ConfigError(f"`wraps` is {self.wraps}, expected 0 or more")

    def is_due(self, age_ms: int, sealed: int) -> bool:
        """Whether a KEK is replaced; without conditions, if it has sealed a key."""
        if self.older_than is None and self.wraps is None:
            return sealed > 0  # a KEK that has sealed nothing is fresh: a run that was killed after its commit made it
        old = self.older_than is not None and age_ms > self.older_than / timedelta(milliseconds=1)
        return old or (self.wraps is not None and sealed > self.wraps)


@on_tables("rotate", RotateOptions, on_files=False)
def plan(options: RotateOptions) -> KeyPlan:
    """What `rotate` will do. Reads the metadata of the tables, and asks no KMS."""
    return KeyPlan.of("rotate", options, lambda table: Rotation(table, options))


class Rotation(TableWork):
    """A fresh KEK for one table, if it is due."""

    def __init__(self, table: CatalogTable, options: RotateOptions) -> None:
        super().__init__(".".join(table.name()))
        self.table, self.options = table, options
        now_ms = time.time_ns() // 1_000_000
        self.active = active_kek(table.metadata, manager_of(table).settings, now_ms)
        self.state, self.due = "there is no active KEK", True
        if self.active is not None:
            age_ms, sealed = now_ms - (self.active.timestamp_ms or 0), keys_sealed(table.metadata, self.active)
            self.due = options.is_due(age_ms, sealed)
            self.state = f"the active KEK is {age_words(age_ms // DAY_MS)} and has sealed {sealed} keys"

    @property
    def step(self) -> PlanStep:
        if not self.due:
            return PlanStep(self.name, "-", note=f"{self.state}: not due")
        return PlanStep(self.name, "new KEK", writes=Amount(1, None), kms_calls=2, note=self.state)

    def run(self) -> KeyOutcome:
        if not self.due:
            return KeyOutcome(self.name, "nothing", f"{self.state}: not due")
        made = manager_of(self.table).new_kek(replacing=self.table.metadata.encryption_keys)
        commit(self.table, AddKek(made, None if self.active is None else self.active.key_id))
        if made.key_id not in self.table.metadata.encryption_keys:
            return KeyOutcome(self.name, "nothing", "another process has added a KEK meanwhile")
        facts = {"kek_id": made.key_id, "master_key_id": made.encrypted_by_id}
        return KeyOutcome(
            self.name, "done", f"new KEK {made.key_id} under the master key {made.encrypted_by_id}", facts
        )


def keys_sealed(metadata: V3TableMetadata, kek: EncryptedKey) -> int:
    """How many keys this KEK has sealed, at most: one for each commit since it was made, expired snapshots included."""
    ring = metadata.encryption_keys
    since, _, number = metadata.properties.get(KEK_SINCE, "").partition(" ")
    if since == kek.key_id and number.isdigit():
        return max(0, metadata.last_sequence_number - int(number))
    # A KEK that a commit made by itself: it seals keys since the last snapshot under another KEK. If all such
    # snapshots have expired, every commit of the table counts; the next rotation starts the count anew.
    of_others = [
        snapshot.sequence_number or 0
        for snapshot in metadata.snapshots
        if snapshot.key_id and (entry := ring.get(snapshot.key_id)) and entry.encrypted_by_id != kek.key_id
    ]
    return max(0, metadata.last_sequence_number - max(of_others, default=0))
