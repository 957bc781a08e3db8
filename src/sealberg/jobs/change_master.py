"""`change-master`: a table gets another master key. A key id never changes, so a new table takes the place of the old.

    plan("hr.salaries", "hr-2027") ──> ChangeMasterPlan ──execute()──> MasterChange

    1  write      manifests and lists of the new table, under a new KEK of the new master key; no data file
    2  register   the new table as hr.salaries_old, with gc.enabled=false
    3  exchange   the names hr.salaries and hr.salaries_old, if nobody has committed meanwhile; otherwise again from 1
    4  settle     hr.salaries_old, now the old table, gets gc.enabled=false too: both use the same data files
    5  drop       on request: the old table with all files that the new table does not use (`replaced_table`); then
                  hr.salaries gets the gc.enabled back that it had

Every step finds out what was done before, so a killed job can be run again. After step 3 the old master key opens no
list and no manifest of the live table. It still opens the old ones, which hold the keys of the shared data files:
`drop` deletes those lists and manifests, and `rekey` gives the data files other keys.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from sealberg.catalogs.base import EncryptedCatalog
from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError, ConflictError, NothingThereError
from sealberg.jobs.job import FINDINGS, FINE, NOTHING, Amount, Plan, PlanStep, Progress
from sealberg.jobs.replaced_table import REPLACED_BY, Dropped, Leftovers, drop, leftovers, property_of, sweep
from sealberg.jobs.replacement import SOURCE_GC, SOURCE_UUID, Replacement, needed_snapshots
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import check_name
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.purge import GC_ENABLED
from sealberg.write.staged_files import StagedFiles, discard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner

SUFFIX: Final = "_old"
ATTEMPTS: Final = 20  # each writes only the snapshots that came since the one before


@dataclass(frozen=True)
class MasterChange:
    """What `change-master` has done.

    Attributes:
        old_table: the name of the old table; None if it is dropped.
        snapshots: how many snapshots the table has under the new key.
        manifests, lists: how many were written.
        conflicts: how often another process committed first, so that its snapshots were added.
        removed: what was deleted with the old table.
        kept: files of the old table that are not the tables' own to remove, and why they stay.
    """

    table: str
    old_table: str | None
    old_key_id: str | None
    new_key_id: str
    snapshots: int
    manifests: int
    lists: int
    conflicts: int
    removed: Amount
    drop_command: str
    kept: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0: done. 1: files of the old table stay."""
        return FINDINGS if self.kept else FINE

    def to_json(self) -> dict[str, Any]:
        return {"job": "change-master", **asdict(self), "exit_code": self.exit_code}

    def __str__(self) -> str:
        from_key = f" instead of {self.old_key_id}" if self.old_key_id else ""
        lines = [
            f"{self.table} is under the master key {self.new_key_id}{from_key}: {_count(self.snapshots, 'snapshot')}"
        ]
        if self.manifests or self.lists:
            again = f", {_count(self.conflicts, 'commit')} of others added" if self.conflicts else ""
            lines.append(f"written: {_count(self.manifests, 'manifest')}, {_count(self.lists, 'manifest list')}{again}")
        if self.removed.files:
            lines.append(f"removed with the old table: {self.removed}")
        if self.kept:
            many = "they hold keys of data files, or rows: look who uses them"
            lines.append(f"{_count(len(self.kept), 'file')} of the old table not removed ({many}):")
            lines += [f"  {location}: {reason}" for location, reason in self.kept.items()]
        if self.old_table is not None:
            lines += [
                f"the old table is {self.old_table}; its lists and manifests open with the old master key and hold the "
                "keys of the data files that both tables share",
                f"to drop it with every file that {self.table} does not use: {self.drop_command}",
            ]
        lines.append(f"data files have the keys that they had: sealberg rekey {self.table} gives them new ones")
        return "\n".join(lines)


@dataclass(frozen=True)
class ChangeMasterPlan(Plan[MasterChange]):
    """A change of the master key, as the catalog is now."""

    catalog: EncryptedCatalog = field(repr=False)
    table: str
    new_key_id: str
    old_table: str
    history: bool
    drop_old: bool
    live: CatalogTable | None = field(repr=False)  # None: a killed job has exchanged the names in part
    old: CatalogTable | None = field(repr=False)  # the table that has the name `old_table` now
    leftovers: Leftovers | None = field(repr=False)

    @property
    def job(self) -> str:
        return "change-master"

    @property
    def is_changed(self) -> bool:
        """Whether the live table has the new key already."""
        return self.live is not None and _key_of(self.live) == self.new_key_id

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(step for step in (self._change_step(), self._drop_step()) if step is not None)

    def _change_step(self) -> PlanStep | None:
        action = f"master key {self.new_key_id}"
        if self.live is None or (self.is_changed and SOURCE_UUID in self.live.properties):
            return PlanStep(self.table, action, writes=Amount(2, None), note="a killed job is finished")
        if self.is_changed:
            return None if self.drop_old else PlanStep(self.table, action, note="the table has this master key already")
        metadata = self.live.metadata
        needed = needed_snapshots(metadata, history=self.history)
        lost = len(metadata.snapshots) - len(needed)
        notes = [
            f"the manifests of {_count(len(needed), 'snapshot')} are written anew, no data file is; the old table "
            f"stays as {self.old_table} until you drop it ({self._drop_command()})"
        ]
        if lost:
            notes.append(
                f"{_count(lost, 'older snapshot')} without a branch or tag stay{'s' if lost == 1 else ''} in the old "
                "table only; --history keeps all"
            )
        if metadata.statistics or metadata.partition_statistics:
            notes.append("statistics files are not kept")
        lists = Amount(len(needed), None)
        keks = {entry.encrypted_by_id for entry in metadata.encryption_keys if entry.timestamp is None}
        return PlanStep(
            self.table, action, lists, lists + Amount(1, None), kms_calls=len(keks) + 2, note="; ".join(notes)
        )

    def _drop_step(self) -> PlanStep | None:
        if not self.drop_old:
            return None
        known = self.leftovers
        # Before the change it is not known which files the tables will share.
        removes = (
            known.amount if known is not None else Amount(len(self.live.metadata.snapshots) if self.live else 1, None)
        )
        note = f"data files that {self.table} uses stay"
        return PlanStep(self.old_table, "drop with metadata", removes=removes, note=note)

    def _drop_command(self) -> str:
        named = "" if self.old_table == f"{self.table}{SUFFIX}" else f" --keep-as {self.old_table}"
        return f"sealberg change-master {self.table} {self.new_key_id}{named} --drop-old"

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> MasterChange:
        change = _Change(self, runner or Threads(), progress)
        if self.live is None:
            self.catalog.finish_swap(self.table, self.old_table)
        live = _load(self.catalog, self.table)
        assert live is not None
        if _key_of(live) != self.new_key_id:
            live = change.replace()
        if SOURCE_UUID in live.properties:
            live = change.settle(live)
        dropped = Dropped()
        old = _load(self.catalog, self.old_table)
        if self.drop_old and old is not None:
            dropped, old = drop(self.catalog, old, live), None
        elif self.drop_old:  # a killed job has dropped it, and may have left its last metadata file
            mine = str(live.metadata.table_uuid)
            sweep(live, lambda document: property_of(document, REPLACED_BY) == mine)
        if self.drop_old:
            release(live)
        return MasterChange(
            self.table,
            self.old_table if old is not None else None,
            change.old_key_id or (_key_of(old) if old is not None else None),
            self.new_key_id,
            len(live.metadata.snapshots),
            change.manifests,
            change.lists,
            change.conflicts,
            Amount(dropped.files, None) if dropped.files else NOTHING,
            self._drop_command(),
            dropped.kept,
        )


def plan(
    table: str,
    new_key_id: str,
    *,
    catalog: Catalog | str | None = None,
    history: bool = False,
    keep_as: str | None = None,
    drop_old: bool = False,
) -> ChangeMasterPlan:
    """What `change-master` will do. Reads table metadata, and asks no KMS unless the old table is to be dropped.

    Args:
        table: the name of an encrypted table.
        new_key_id: the id of the new master key.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        history: keep all snapshots; by default the current one and those of branches and tags.
        keep_as: the name of the old table afterwards; by default the name with `_old`.
        drop_old: drop the old table, with every file that the new table does not use.
    """
    opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    if not isinstance(opened, EncryptedCatalog):
        raise ConfigError(f"the catalog {opened.name} has no encrypted tables; use a SQL, Hive, Glue or REST catalog")
    if not new_key_id:
        raise ConfigError("the new key id is empty, expected the id of a master key")
    old_name = keep_as or f"{table}{SUFFIX}"
    check_name(table)
    check_name(old_name)
    if old_name == table:
        raise ConfigError(f"--keep-as is {keep_as}, the name of the table itself; expected another name")
    if opened.is_swap_begun(table, old_name):
        return ChangeMasterPlan(opened, table, new_key_id, old_name, history, drop_old, None, None, None)
    live, old = _load(opened, table), _load(opened, old_name)
    if live is None:
        raise NothingThereError(f"no table {table} in the catalog {opened.name}")
    _check_names(opened, table, old_name, live, old, new_key_id)
    settled = _key_of(live) == new_key_id and SOURCE_UUID not in live.properties
    found = leftovers(old, live) if drop_old and old is not None and settled else None
    return ChangeMasterPlan(opened, table, new_key_id, old_name, history, drop_old, live, old, found)


def _check_names(
    catalog: EncryptedCatalog,
    table: str,
    old_name: str,
    live: CatalogTable,
    old: CatalogTable | None,
    new_key_id: str,
) -> None:
    if _key_of(live) == new_key_id:
        return
    for name in (tuple(table.split(".")), tuple(old_name.split("."))):
        catalog.policy.admit(name, catalog.policy.bound(name, {**live.properties, KEY_ID_PROPERTY: new_key_id}))
    if old is None:
        return
    is_ours = old.properties.get(SOURCE_UUID) == str(live.metadata.table_uuid)
    if not is_ours or _key_of(old) != new_key_id:
        raise ConfigError(
            f"there is a table {old_name} already, and {table} would get this name; choose another name with "
            f"--keep-as{', or drop it: an unfinished change to another key left it' if is_ours else ''}"
        )


class _Change:
    """The steps, and what they did."""

    def __init__(self, plan: ChangeMasterPlan, runner: Runner, progress: ProgressListener | None) -> None:
        self.plan = plan
        self.catalog = plan.catalog
        self.runner = runner
        self.old_key_id: str | None = None
        self.manifests = self.lists = self.conflicts = 0
        self._done = _counter(progress)

    def replace(self) -> CatalogTable:
        """Write, register and exchange, until no other process has committed in between."""
        for _ in range(ATTEMPTS):
            live, earlier = self._loaded(self.plan.table), _load(self.catalog, self.plan.old_table)
            self.old_key_id = _key_of(live)
            registered = self._registered(live, earlier)
            try:
                self.catalog.swap_tables(self.plan.table, self.plan.old_table, unchanged=(live, registered))
            except CommitFailedException:
                self.conflicts += 1
                continue
            return self._loaded(self.plan.table)
        raise ConflictError(
            f"other processes have committed to {self.plan.table} {ATTEMPTS} times while its manifests were written; "
            f"what was written is in {self.plan.old_table}. Run the job again, best when there are fewer writers"
        )

    def _registered(self, live: CatalogTable, earlier: CatalogTable | None) -> CatalogTable:
        """The replacement of the table as it is now, in the catalog under the name of the old table."""
        if earlier is not None and earlier.properties.get(SOURCE_UUID) != str(live.metadata.table_uuid):
            raise ConfigError(f"there is a table {self.plan.old_table} now, which another process has created")
        properties = {**live.properties, KEY_ID_PROPERTY: self.plan.new_key_id}
        base = live.metadata.model_copy(update={"properties": properties})
        encryption = self.catalog.encryption_of(self.plan.table, base)
        with StagedFiles(live.inner) as staged:
            builder = Replacement(live, encryption, earlier, self.plan.history, staged, self._done)
            metadata = builder.build(self.runner)
            place = live.new_places().new_table_metadata_file_location(0)
            staged.create(place, metadata.to_json().encode())
        # From here on the catalog may name these files, whatever error it answers with.
        self.catalog.register_table(self.plan.old_table, place, overwrite=earlier is not None)
        self.manifests += builder.manifests_written
        self.lists += builder.lists_written
        made = self._loaded(self.plan.old_table)
        _check_readable(live, made)
        if earlier is not None:
            self._discard_superseded(earlier, made)
        return made

    @staticmethod
    def _discard_superseded(earlier: CatalogTable, made: CatalogTable) -> None:
        needed = {snapshot.manifest_list for snapshot in made.metadata.snapshots}
        lists = [each.manifest_list for each in earlier.metadata.snapshots if each.manifest_list not in needed]
        discard(made.inner, [*lists, earlier.metadata_location])

    def settle(self, live: CatalogTable) -> CatalogTable:
        """Protect the shared files from a purge of the old table, as the live table's are since it was registered."""
        old = self._loaded(self.plan.old_table)
        if str(old.metadata.table_uuid) != live.properties[SOURCE_UUID]:
            raise ConfigError(
                f"{self.plan.old_table} is not the table that {self.plan.table} replaced, so it is left alone; give "
                "the name of the old table with --keep-as"
            )
        self.old_key_id = _key_of(old)
        with old.transaction() as change:
            change.set_properties({GC_ENABLED: "false", REPLACED_BY: str(live.metadata.table_uuid)})
        # Replacements that killed jobs wrote and did not register: nobody can put them in the place of the source now.
        sweep(live, lambda document: property_of(document, SOURCE_UUID) == str(old.metadata.table_uuid))
        with live.transaction() as change:
            change.remove_properties(SOURCE_UUID)
        return live

    def _loaded(self, name: str) -> CatalogTable:
        table = _load(self.catalog, name)
        if table is None:
            raise ConfigError(f"the table {name} is gone: another process has dropped or renamed it")
        return table


def release(live: CatalogTable) -> None:
    """Give the live table its own gc.enabled back: no other table uses its files any more."""
    before = live.properties.get(SOURCE_GC)
    if before is None:
        return
    with live.transaction() as change:
        change.remove_properties(SOURCE_GC, *(() if before else (GC_ENABLED,)))
        if before:
            change.set_properties({GC_ENABLED: before})


def _check_readable(live: CatalogTable, made: CatalogTable) -> None:
    """Open every list of the replacement, as a reader would, and compare its counts with those of the source."""
    for snapshot in made.metadata.snapshots:
        source = live.metadata.snapshot_by_id(snapshot.snapshot_id)
        assert source is not None, "a snapshot of the replacement is one of the source"
        old, new = (
            [(line.added_files_count, line.existing_files_count, line.deleted_files_count) for line in lines]
            for lines in (source.manifests(live.io), snapshot.manifests(made.io))
        )
        if old != new:
            raise ConflictError(
                f"internal error: snapshot {snapshot.snapshot_id} has other manifests in the replacement; the names "
                "were not exchanged"
            )


def _load(catalog: Catalog, name: str) -> CatalogTable | None:
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        return None
    if not isinstance(table, CatalogTable) or table.encryption is None:
        raise ConfigError(f"table {name} is not encrypted, so it has no master key; `sealberg encrypt` encrypts it")
    return table


def _key_of(table: CatalogTable) -> str:
    return table.metadata.properties[KEY_ID_PROPERTY]


def _counter(listener: ProgressListener | None) -> Callable[[int], None]:
    files = stored = 0

    def done(length: int) -> None:
        nonlocal files, stored
        files, stored = files + 1, stored + length
        if listener is not None:
            listener(Progress(files, files, stored, stored))

    return done


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
