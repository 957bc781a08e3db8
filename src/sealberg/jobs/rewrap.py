"""`rewrap`: KEKs wrapped anew by the newest version of their master key, so that older versions can be disabled.

    the KMS: newest version of each master key ──┐
    metadata: the version of each KEK          ──┴──> older, or unknown ──rewrap, unwrap──> one commit ──> proof

A KEK keeps its id, its time and its bytes; only its wrapping changes. Afterwards the job proves for each KEK that the
newest version opens it: by the version in the wrapped bytes (Vault, OpenBao), by the version that is stored beside them
(Azure), or by what the KMS says when it unwraps the KEK (AWS, Google Cloud). Where the KMS does not tell, the outcome
is "not proved", and older versions must stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sealberg.errors import AccessDeniedError, SealbergError
from sealberg.jobs.core import Tables, on_tables, parameters
from sealberg.jobs.job import Amount, PlanStep
from sealberg.jobs.key_jobs import KeyOutcome, KeyPlan, TableWork, commit, manager_of
from sealberg.keys.kms.client import UNVERSIONED, WrappedKey
from sealberg.table.key_changes import ReplaceKeks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.keys.keyring import EncryptedKey
    from sealberg.keys.kms.client import KmsClient
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class Newest:
    """The newest version of a master key; None with a reason if the KMS does not tell."""

    master_key_id: str
    version: str | None
    reason: str = ""


@dataclass(frozen=True)
class RewrapPlan(KeyPlan):
    """The tables, and the newest version of each master key."""

    newest: tuple[Newest, ...] = field(default=())

    def conclusions(self, outcomes: Sequence[KeyOutcome]) -> tuple[str, ...]:
        return tuple(_conclusion(each, outcomes) for each in self.newest)


@parameters
class RewrapOptions(Tables):
    """Wrap the KEKs of tables anew with the newest version of their master key, and prove that nothing
    needs an older version, so that older versions can be disabled in the KMS.

    Exit code 0: done and proved. 1: a KEK still needs an older version. 2: not proved: the KMS does not
    tell, or a table could not be changed.
    """


@on_tables("rewrap", RewrapOptions, on_files=False)
def plan(options: RewrapOptions) -> RewrapPlan:
    """What `rewrap` will do. Reads the metadata of the tables, and asks the KMS once for each master key."""
    versions = Versions()
    made = RewrapPlan.of("rewrap", options, lambda table: Rewrapping(table, versions))
    return replace(made, newest=tuple(versions.known.values()))


class Versions:
    """The newest version of each master key, asked for once."""

    def __init__(self) -> None:
        self.known: dict[str, Newest] = {}

    def newest(self, kms: KmsClient, master_key_id: str) -> Newest:
        if master_key_id not in self.known:
            self.known[master_key_id] = newest_version(kms, master_key_id)
        return self.known[master_key_id]


def newest_version(kms: KmsClient, master_key_id: str) -> Newest:
    """Ask the KMS; without the permission to ask, the version is unknown."""
    try:
        version = kms.newest_version(master_key_id)
    except AccessDeniedError as error:
        return Newest(master_key_id, None, f"the KMS does not let us see the versions of {master_key_id}: {error}")
    except SealbergError as error:  # a keystore that is gone, for one
        return Newest(master_key_id, None, str(error))
    reason = "" if version is not None else f"the KMS client {kms.provider} does not tell versions of {master_key_id}"
    return Newest(master_key_id, version, reason)


class Rewrapping(TableWork):
    """The KEKs of one table."""

    def __init__(self, table: CatalogTable, versions: Versions) -> None:
        super().__init__(".".join(table.name()))
        self.table = table
        self.kms = manager_of(table).kms
        # In the metadata that the plan has seen; the commit looks at the newest ones.
        self.newest = {
            kek.encrypted_by_id or "": versions.newest(self.kms, kek.encrypted_by_id or "") for kek in self._keks()
        }
        self.old = [kek for kek in self._keks() if self._is_old(kek)]

    @property
    def step(self) -> PlanStep:
        if not self.old:
            return PlanStep(self.name, "-", note=self._settled())
        known = sorted({version for kek in self.old if (version := self.kms.version_in(_wrapped(kek))) is not None})
        note = f"version {', '.join(known)} wrapped them" if known else "the KMS says which version wrapped them"
        action = f"rewrap {_keks(len(self.old))}"
        return PlanStep(self.name, action, writes=Amount(1, None), kms_calls=2 * len(self.old), note=note)

    def run(self) -> KeyOutcome:
        manager, ring = manager_of(self.table), self.table.metadata.encryption_keys
        proofs: dict[EncryptedKey, bool | None] = {}
        replaced = []
        for kek in self.old:
            new, proofs[new] = manager.rewrap_kek(ring, kek, self._newest(kek).version)
            if new != kek:
                replaced.append((kek, new))
        if replaced:
            commit(self.table, ReplaceKeks(tuple(replaced)))
        facts = {"rewrapped": [new.key_id for _, new in replaced]}
        done = f"{_keks(len(replaced))} rewrapped" if replaced else "nothing to rewrap"
        told = [proofs.get(kek, self._told(kek)) for kek in self._keks()]
        if all(told):
            return KeyOutcome(self.name, "done" if replaced else "nothing", f"{done}; {self._settled()}", facts)
        if False in told:
            return KeyOutcome(self.name, "due", f"{done}; a KEK still needs an older version: run rewrap again", facts)
        return KeyOutcome(self.name, "unproved", f"{done}; {self._reasons()}", facts)

    def _keks(self) -> Iterator[EncryptedKey]:
        return (entry for entry in self.table.metadata.encryption_keys if entry.timestamp is not None)

    def _newest(self, kek: EncryptedKey) -> Newest:
        return self.newest.get(kek.encrypted_by_id or "", Newest(kek.encrypted_by_id or "", None, "not asked"))

    def _is_old(self, kek: EncryptedKey) -> bool:
        newest = self._newest(kek).version
        return newest != UNVERSIONED and (newest is None or self.kms.version_in(_wrapped(kek)) != newest)

    def _told(self, kek: EncryptedKey) -> bool | None:
        """What the entry itself tells, for KEKs that this run has not rewrapped."""
        newest, version = self._newest(kek).version, self.kms.version_in(_wrapped(kek))
        if newest == UNVERSIONED:
            return True
        return None if newest is None or version is None else version == newest

    def _settled(self) -> str:
        versions = ", ".join(
            f"{each.master_key_id} has one version"
            if each.version == UNVERSIONED
            else f"version {each.version} of {each.master_key_id} opens every KEK"
            for each in self.newest.values()
        )
        return versions or "the table has no KEK"

    def _reasons(self) -> str:
        return "; ".join(
            each.reason or f"the KMS does not tell which version of {each.master_key_id} unwraps"
            for each in self.newest.values()
        )


def _conclusion(newest: Newest, outcomes: Sequence[KeyOutcome]) -> str:
    open_ = [outcome.table for outcome in outcomes if outcome.status not in ("done", "nothing")]
    if newest.version == UNVERSIONED:
        return f"master key {newest.master_key_id}: the KMS keeps one version of it, so there is nothing to rewrap"
    if open_:
        return f"master key {newest.master_key_id}: do NOT disable older versions, {len(open_)} tables are not proved"
    return (
        f"master key {newest.master_key_id}: no KEK of these {len(outcomes)} tables needs a version other than "
        f"{newest.version}"
    )


def _wrapped(kek: EncryptedKey) -> WrappedKey:
    return WrappedKey(kek.encrypted_key_metadata, kek.properties)


def _keks(count: int) -> str:
    return f"{count} KEK{'' if count == 1 else 's'}"
