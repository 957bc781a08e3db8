"""`decrypt`: copies an encrypted table into a new plaintext table, with a reason that goes to the audit log.

    plan("hr.salaries", "export.salaries", reason="handed over to the auditors") ──> DecryptPlan ──> CopyResult

    source: encrypted ──file by file, pages re-wrapped──> target: version 3, plaintext, the same snapshots

The audit log gets one line before the first byte is written and one line at the end; the reason is also a property of
the new table. Everything else is as in `encrypt`: compared before it has a name, and a killed run goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import Catalog

from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError
from sealberg.jobs.copying.copier import Copier
from sealberg.jobs.copying.plans import amount_of, is_copy, tallied
from sealberg.jobs.copying.result import CopyResult
from sealberg.jobs.copying.source import read_source
from sealberg.jobs.job import Amount, Plan, PlanStep
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import load_named
from sealberg.keys.audit import Decryption
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner

REASON: Final = "sealberg.copy.decrypted-because"


@dataclass(frozen=True)
class DecryptPlan(Plan[CopyResult]):
    """One encrypted table, as it is now."""

    catalog: Catalog = field(repr=False)
    source: str
    target: Identifier
    reason: str
    amount: Amount
    history: bool = False
    location: str | None = None
    finished: bool = False

    @property
    def job(self) -> str:
        return "decrypt"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        name = ".".join(self.target)
        if self.finished:
            return (PlanStep(self.source, f"nothing: {name} is its plaintext copy already"),)
        note = (
            f"PLAINTEXT: everybody who can read the storage of {name} will read every row of {self.source}. The audit "
            f"log records who did it, and why: {self.reason}"
        )
        return (
            PlanStep(self.source, f"copy into {name} IN THE CLEAR", self.amount, self.amount, kms_calls=2, note=note),
        )

    @property
    def changes(self) -> bool:
        return not self.finished

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> CopyResult:
        name = ".".join(self.target)
        result = CopyResult("decrypt", self.source, name)
        copier = Copier(
            self.catalog,
            self.target,
            lambda known: read_source(self.catalog.load_table(self.source), known, history=self.history),
            {REASON: self.reason},
            runner or Threads(),
            self.location,
            progress=progress,
        )
        if self.finished:
            copier.tidy()
        else:
            with Decryption(self.source, name, self.reason).recorded():
                copier.run()
        table = self.catalog.load_table(self.target)
        return replace(
            tallied(result, copier.tally),
            snapshots=len(table.metadata.snapshots),
            remains=(f"in the clear: {name}, all rows of {self.source}",),
        )


def plan(
    source: str,
    target: str,
    *,
    reason: str,
    catalog: Catalog | str | None = None,
    history: bool = False,
    location: str | None = None,
) -> DecryptPlan:
    """What `decrypt` will do. Reads the metadata of the tables, and asks no KMS.

    Args:
        source: the name of an encrypted table.
        target: the name of the new plaintext table.
        reason: for the audit log and the new table's properties.
        history: copy all snapshots with their times, branches and tags, not the current snapshot only.
        location: of the new table; by default the catalog chooses it.
    """
    if not reason.strip():
        raise ConfigError("the reason is empty, expected why the rows may be in the clear; the audit log records it")
    opened: Any = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    name = Catalog.identifier_to_tuple(target)
    if len(name) < 2:
        raise ConfigError(f"the target {target} has no namespace, expected namespace.table")
    table = load_named(opened, source)
    if KEY_ID_PROPERTY not in table.metadata.properties:
        raise ConfigError(f"{source} is not encrypted, expected an encrypted table")
    finished = is_copy(opened, name, str(table.metadata.table_uuid), None)
    return DecryptPlan(
        opened, source, name, reason.strip(), amount_of(table, history=history), history, location, finished
    )
