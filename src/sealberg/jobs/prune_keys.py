"""`prune-keys`: removes entries of encryption-keys that nothing needs.

    keys of manifest lists that no snapshot names      failed commits and expiry of Iceberg Java leave them
    keys of statistics files that are gone
    KEKs that seal nothing, except the active KEK

One commit of metadata for each table that has such entries, and no call to the KMS. Older metadata.json still hold the
entries: `expire` deletes these files.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sealberg.jobs.core import Tables, on_tables, parameters
from sealberg.jobs.job import Amount, PlanStep
from sealberg.jobs.key_jobs import KeyOutcome, KeyPlan, TableWork, commit, manager_of
from sealberg.metadata.unneeded_keys import unneeded_keys
from sealberg.table.key_changes import PruneKeys

if TYPE_CHECKING:
    from sealberg.table.catalog_table import CatalogTable


@parameters
class PruneKeysOptions(Tables):
    """Remove entries of encryption-keys that nothing needs: keys of snapshots that are gone, and KEKs that
    seal nothing.

    Exit code 0: done. 2: a table could not be changed; run the command again.
    """


@on_tables("prune-keys", PruneKeysOptions, on_files=False)
def plan(options: PruneKeysOptions) -> KeyPlan:
    """What `prune-keys` will remove. Reads the metadata of the tables, and asks no KMS."""
    return KeyPlan.of("prune-keys", options, Pruning)


class Pruning(TableWork):
    """The needless keys of one table."""

    def __init__(self, table: CatalogTable) -> None:
        super().__init__(".".join(table.name()))
        self.table = table
        self.keys = unneeded_keys(table.metadata, manager_of(table).settings, time.time_ns() // 1_000_000)

    @property
    def step(self) -> PlanStep:
        if not self.keys:
            return PlanStep(self.name, "-", note="every key is needed")
        return PlanStep(self.name, f"remove {_keys(self.keys)}", writes=Amount(1, None))

    def run(self) -> KeyOutcome:
        if not self.keys:
            return KeyOutcome(self.name, "nothing", "every key is needed")
        before = {entry.key_id for entry in self.table.metadata.encryption_keys}
        commit(self.table, PruneKeys())
        gone = sorted(before - {entry.key_id for entry in self.table.metadata.encryption_keys})
        left = len(self.table.metadata.encryption_keys)
        return KeyOutcome(self.name, "done", f"removed {_keys(gone)}, {left} left", {"removed": gone, "left": left})


def _keys(keys: list[str] | tuple[str, ...]) -> str:
    return f"{len(keys)} key{'' if len(keys) == 1 else 's'}"
