"""`keys`: which master key opens what, how old every KEK is, which version wraps it, and what is due.

    plan(every=True, catalog="prod") ──> KeysPlan ──execute()──> KeyInventory: tables, master keys, what is due

    due     rotate      the active KEK is in the last days of its life (encryption.kek-lifespan-days), or past it
            rewrap      an older version of the master key wraps a KEK
            prune-keys  entries that nothing needs

    problem   a master key is missing, disabled, destroyed or pending deletion, or opens a KEK no more
    unknown   the KMS did not answer, or answered nothing from which it follows that the key can be used

Reads metadata and asks the KMS: what it says of each master key, and one KEK of each version is unwrapped, whatever the
caches of this process hold. Nothing is written.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sealberg.errors import ConfigError, SealbergError
from sealberg.jobs.core import Switch, Tables, on_tables, option, parameters
from sealberg.jobs.expire_result import counted
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, Plan, PlanStep
from sealberg.jobs.key_health import Health, health_of
from sealberg.jobs.key_jobs import manager_of, selected
from sealberg.jobs.key_tree import STATES, age_text, kek_facts, table_tree
from sealberg.jobs.rewrap import newest_version
from sealberg.jobs.rotate import keys_sealed
from sealberg.keys.kms.client import UNVERSIONED, WrappedKey
from sealberg.metadata.unneeded_keys import unneeded_keys
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sealberg.jobs.findings import KekFacts
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.key_jobs import Selected
    from sealberg.jobs.runner import Runner
    from sealberg.table.catalog_table import CatalogTable


@dataclass(frozen=True)
class KekUse:
    """A KEK and its use.

    Attributes:
        facts: age and state, from `sealberg.jobs.key_tree`.
        version: of the master key that wraps the KEK; None if the wrapped bytes do not tell.
        sealed: how many keys it has sealed, at most; None if it is not the active KEK.
        last_used_ms: the time of the newest snapshot whose key it seals; None if it seals none.
    """

    facts: KekFacts
    version: str | None
    sealed: int | None
    last_used_ms: int | None


@dataclass(frozen=True)
class TableKeys:
    """The keys of one table.

    Attributes:
        entries: the number of entries in encryption-keys.
        due: what should be done, with the command's name first.
        note: why nothing is known, for a table that is plaintext or could not be loaded.
    """

    name: str
    master_key_id: str | None
    snapshots: int = 0
    entries: int = 0
    keks: tuple[KekUse, ...] = ()
    due: tuple[str, ...] = ()
    note: str = ""
    failed: bool = False


@dataclass(frozen=True)
class MasterKeyUse:
    """A master key, and what it opens.

    Attributes:
        newest: the version that wraps now; None if the KMS does not tell or was not asked.
        reason: why `newest` is not known.
        facts: what the KMS says of the key.
        versions: how many KEKs each version wraps; "?" if the wrapped bytes do not tell.
        problems: why tables under this key cannot be read, or soon cannot.
        unknown: why it is not known whether they can be.
        asked: the KMS was asked.
    """

    key_id: str
    provider: str
    newest: str | None
    reason: str
    facts: Mapping[str, str]
    tables: tuple[str, ...]
    keks: int
    versions: Mapping[str, int]
    problems: tuple[str, ...] = ()
    unknown: str = ""
    asked: bool = True


@dataclass(frozen=True)
class KeyInventory:
    """The result of `keys`."""

    version: str
    catalog: str
    made: datetime
    tables: tuple[TableKeys, ...]
    master_keys: tuple[MasterKeyUse, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing is due. 1: something is, or a master key has a problem. 2: a table or a key is not known."""
        if any(table.failed for table in self.tables) or any(key.unknown for key in self.master_keys):
            return NOT_CHECKED
        found = any(table.due for table in self.tables) or any(key.problems for key in self.master_keys)
        return FINDINGS if found else FINE

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "made": self.made.isoformat(), "exit_code": self.exit_code}

    def __str__(self) -> str:
        return "\n".join((*self._masters(), *self._tables()))

    def _masters(self) -> Iterator[str]:
        for key in self.master_keys:
            version = _version(key.newest)
            tables = f"{len(key.tables)} table{'' if len(key.tables) == 1 else 's'}"
            yield f"master key {key.key_id} ({key.provider}{version}) opens {tables} by {_keks(key.keks)}"
            yield from (f"  problem: {problem}" for problem in key.problems)
            if key.unknown:
                yield f"  not known: {key.unknown}"
            elif key.reason and not key.problems:
                yield f"  {key.reason}"

    def _tables(self) -> Iterator[str]:
        now_ms = int(self.made.timestamp() * 1000)
        for table in self.tables:
            if table.note:
                yield f"{table.name}: {table.note}"
                continue
            amounts = f"{counted(table.snapshots, 'snapshot')}, {counted(table.entries, 'key')}"
            yield f"{table.name}: master key {table.master_key_id}, {amounts}"
            for kek in table.keks:
                sealed = "" if kek.sealed is None else f", sealed {kek.sealed} keys"
                used = "" if kek.last_used_ms is None else f", last used {_day(kek.last_used_ms)}"
                state, age = STATES[kek.facts.state], age_text(kek.facts, now_ms)
                yield f"  KEK {kek.facts.key_id}: {state}, {age}{_version(kek.version)}{sealed}{used}"
            yield from (f"  due: {each}" for each in table.due)


@dataclass(frozen=True)
class KeysPlan(Plan[KeyInventory]):
    """The tables whose keys will be listed."""

    catalog: str
    tables: tuple[Selected, ...] = field(repr=False)
    ask_kms: bool = True

    @property
    def job(self) -> str:
        return "keys"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(PlanStep(each.name, "list keys", note=each.reason) for each in self.tables)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> KeyInventory:  # noqa: ARG002 (it takes no time)
        if runner is not None:
            raise ConfigError("keys reads metadata and no file, so it runs in this process, without a runner")
        now_ms = time.time_ns() // 1_000_000
        tables = tuple(_table_keys(each, now_ms) for each in self.tables)
        masters: dict[str, list[CatalogTable]] = {}
        for each in self.tables:
            if each.table is not None:
                masters.setdefault(manager_of(each.table).settings.master_key_id, []).append(each.table)
        used = tuple(_master_use(key_id, own, tables, ask=self.ask_kms) for key_id, own in sorted(masters.items()))
        newest = {key.key_id: key.newest for key in used}
        tables = tuple(_with_rewrap(table, newest.get(table.master_key_id or "")) for table in tables)
        return KeyInventory(__version__, self.catalog, datetime.fromtimestamp(now_ms / 1000, UTC), tables, used)


@parameters
class KeysOptions(Tables):
    """List the keys of tables: which master key opens what, ages, versions and last use of KEKs, and what
    is due. Writes nothing and never prints a key.

    Exit code 0: nothing is due. 1: something is due. 2: a table could not be looked at.
    """

    ALL_BY_DEFAULT = True

    every: bool = option("All tables of the catalog; the default if none is named.", default=False, flag="--all")
    ask_kms: bool = option(
        "Ask the KMS for the newest version and the state of each master key.",
        default=True,
        switches=(Switch("--no-kms", False, "Do not ask the KMS for versions and states of master keys."),),
    )


def _write_report(result: KeyInventory, file: str) -> None:
    from sealberg.jobs.report.document import write_page
    from sealberg.jobs.report.keys_page import keys_page

    write_page(keys_page(result), file)


@on_tables("keys", KeysOptions, on_files=False, asks=False, report=_write_report)
def plan(options: KeysOptions) -> KeysPlan:
    """The tables whose keys will be listed; all tables of the catalog if none is named."""
    label, found = selected(options.tables, options.catalog, every=options.every or not options.tables)
    return KeysPlan(label, found, options.ask_kms)


def _table_keys(chosen: Selected, now_ms: int) -> TableKeys:
    table = chosen.table
    if table is None:
        return TableKeys(chosen.name, None, note=chosen.reason, failed=chosen.status == "failed")
    metadata, settings = table.metadata, manager_of(table).settings
    keks = tuple(_kek_uses(table, now_ms))
    due = [
        f"rotate: the active KEK is {STATES[kek.facts.state]} ({_day(kek.facts.expires_ms)})"
        for kek in keks
        if kek.facts.state in ("near-end", "past-end")
    ]
    try:
        needless = len(unneeded_keys(metadata, settings, now_ms))
    except SealbergError as error:  # a KEK of the future, for one
        return TableKeys(chosen.name, settings.master_key_id, note=str(error), failed=True)
    if needless:
        due.append(f"prune-keys: nothing needs {needless} of {len(metadata.encryption_keys)} keys")
    counts = (len(metadata.snapshots), len(metadata.encryption_keys))
    return TableKeys(chosen.name, settings.master_key_id, *counts, keks, tuple(due))


def _kek_uses(table: CatalogTable, now_ms: int) -> Iterator[KekUse]:
    metadata, manager = table.metadata, manager_of(table)
    settings = manager.settings
    found = kek_facts(
        table_tree(metadata),
        now_ms=now_ms,
        master_key_id=settings.master_key_id,
        lifespan_ms=settings.kek_lifespan_ms,
    )
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    for facts in sorted(found, key=lambda kek: kek.made_ms or 0):
        entry = metadata.encryption_keys.get(facts.key_id)
        assert entry is not None, "facts are made from entries"
        version = manager.kms.version_in(WrappedKey(entry.encrypted_key_metadata, entry.properties))
        sealed = keys_sealed(metadata, entry) if facts.state in ("active", "near-end") else None
        yield KekUse(facts, version, sealed, max((times[each] for each in facts.snapshots), default=None))


def _master_use(
    key_id: str, opened: Sequence[CatalogTable], tables: tuple[TableKeys, ...], *, ask: bool
) -> MasterKeyUse:
    kms = manager_of(opened[0]).kms
    own = [table for table in tables if table.master_key_id == key_id]
    keks = [kek for table in own for kek in table.keks if kek.facts.master_key_id == key_id]
    newest, health = (newest_version(kms, key_id), health_of(kms, key_id, opened)) if ask else (None, Health())
    names = [kek.version or "?" for kek in keks]
    return MasterKeyUse(
        key_id,
        kms.provider,
        None if newest is None else newest.version,
        "the KMS was not asked" if newest is None else newest.reason,
        health.facts,
        tuple(table.name for table in own),
        len(keks),
        {name: names.count(name) for name in sorted(set(names))},
        tuple(dict.fromkeys(health.problems)),
        health.unknown,
        ask,
    )


def _with_rewrap(table: TableKeys, newest: str | None) -> TableKeys:
    if newest is None or newest == UNVERSIONED:
        return table
    old = [kek for kek in table.keks if kek.version is not None and kek.version != newest]
    if not old:
        return table
    versions = ", ".join(sorted({str(kek.version) for kek in old}))
    due = f"rewrap: version {versions} of {table.master_key_id} wraps {_keks(len(old))}, the newest is {newest}"
    return replace(table, due=(*table.due, due))


def _version(version: str | None) -> str:
    return "" if version in (None, UNVERSIONED) else f", version {version}"


def _keks(count: int) -> str:
    return f"{count} KEK{'' if count == 1 else 's'}"


def _day(ms: int | None) -> str:
    return "unknown" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
