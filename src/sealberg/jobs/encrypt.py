"""`encrypt`: copies a plaintext table, or a folder of Parquet files, into a new encrypted table.

    plan("lake.events", "lake.events_sealed", key_id="hr") ──> EncryptPlan ──execute()──> CopyResult

    source: versions 1, 2, 3 ──file by file, pages re-wrapped──> target: version 3, encrypted, the same snapshots
                                                                        └── swap: the names are exchanged

The target has no name before it was compared with its source. A killed run is repeated and goes on where it was; with
`sync` it follows what others commit to the source meanwhile. What remains in the clear is named at the end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from sealberg.catalogs.load import load_catalog
from sealberg.catalogs.name_swap import between_name
from sealberg.errors import ConfigError
from sealberg.jobs.copying.catch_up import catch_up
from sealberg.jobs.copying.copier import ROUNDS, Copier
from sealberg.jobs.copying.folder import is_folder, read_folder
from sealberg.jobs.copying.leftovers import SOURCE
from sealberg.jobs.copying.plans import admit_copy, amount_of, is_copy, tallied
from sealberg.jobs.copying.purge_source import purge_source as remove_source
from sealberg.jobs.copying.result import CopyResult
from sealberg.jobs.copying.source import read_source
from sealberg.jobs.copying.work_table import work_name
from sealberg.jobs.job import Amount, Plan, PlanStep
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import load_named
from sealberg.keys.file_key import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.table.purge import refuse_shared_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.copying.source import Source
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner


@dataclass(frozen=True)
class EncryptOptions:
    """How a table is encrypted.

    Args:
        key_id: the master key of the new table.
        key_length: the length of data keys: 16, 24 or 32 bytes.
        history: copy all snapshots with their times, branches and tags, not the current snapshot only.
        sync: follow what is committed to the source meanwhile, also if the target exists already.
        swap: exchange the names at the end; implies sync.
        location: of the new table; by default the catalog chooses it.
        purge_source: remove the plaintext table when the names are exchanged, and search for what is left.
    """

    key_id: str
    key_length: int | None = None
    history: bool = False
    sync: bool = False
    swap: bool = False
    location: str | None = None
    purge_source: bool = False

    def __post_init__(self) -> None:
        if self.purge_source and not self.swap:
            raise ConfigError("only a source whose name the copy has taken is removed; expected --swap, too")
        if not self.key_id:
            raise ConfigError("the key id is empty, expected the id of a master key of the KMS")
        if self.key_length not in (None, 16, 24, 32):
            raise ConfigError(f"the data key length is {self.key_length}, expected 16, 24 or 32")

    @property
    def properties(self) -> dict[str, str]:
        length = {} if self.key_length is None else {KEY_LENGTH_PROPERTY: str(self.key_length)}
        return {KEY_ID_PROPERTY: self.key_id, **length}


@dataclass(frozen=True)
class EncryptPlan(Plan[CopyResult]):
    """One table or folder, as it is now.

    Attributes:
        source: the name of a table, or a folder or glob.
        finished: the target exists already and was made from this source.
        exchanged: the names are exchanged already, by an earlier run.
        begun: an earlier run died while it exchanged the names.
        removed: an earlier run has removed the source, too.
    """

    options: EncryptOptions
    catalog: Catalog = field(repr=False)
    source: str
    target: Identifier
    amount: Amount
    finished: bool = False
    exchanged: bool = False
    begun: bool = False
    removed: bool = False
    note: str = ""

    @property
    def job(self) -> str:
        return "encrypt"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        name = ".".join(self.target)
        purge = self._purge_steps()
        if self.removed:
            done = f"nothing: this table is an encrypted copy, and there is no table {name} to remove"
            return (PlanStep(self.source, done),)
        if self.exchanged:
            action = f"nothing: the names of this table and {name} are exchanged already"
            return purge or (PlanStep(self.source, action),)
        if self.begun:
            return (PlanStep(self.source, f"finish the exchange of names with {name}"),)
        action = f"copy into {name} under the key {self.options.key_id}"
        if self.finished:
            action = f"catch up {name}" if self.options.sync else f"nothing: {name} is its copy already"
        if self.options.swap:
            action += ", exchange the names"
        writes = Amount() if self.finished and not self.options.sync else self.amount
        return (PlanStep(self.source, action, self.amount, writes, kms_calls=4, note=self.note), *purge)

    def _purge_steps(self) -> tuple[PlanStep, ...]:
        if not self.options.purge_source:
            return ()
        name = ".".join(self.target)
        note = f"the plaintext table, then under the name {name}, with all its snapshots; nothing brings it back"
        return (PlanStep(self.source, "REMOVE the source", removes=self.amount, note=note),)

    @property
    def changes(self) -> bool:
        if self.exchanged:
            return self.options.purge_source and not self.removed
        return not self.exchanged and (not self.finished or self.options.sync or self.options.swap)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> CopyResult:
        if self.begun:
            return self._finish_swap().execute(progress=progress, runner=runner)
        result = CopyResult("encrypt", self.source, ".".join(self.target))
        if self.removed:
            return replace(result, swapped=True)
        if self.exchanged:
            return self._finished(replace(result, swapped=True))
        copier = Copier(
            self.catalog,
            self.target,
            self._read,
            self.options.properties,
            runner or Threads(),
            self.options.location,
            follow=self.options.sync or self.options.swap,
            progress=progress,
        )
        if self.finished:
            copier.tidy()
        else:
            copier.run()
        caught_up = 0
        if self.options.sync and self.finished:
            caught_up = catch_up(copier)
        if self.options.swap:
            caught_up += self._swap(copier)
        table = self.catalog.load_table(self.source if self.options.swap else self.target)
        return self._finished(
            replace(
                tallied(result, copier.tally),
                snapshots=len(table.metadata.snapshots),
                caught_up=caught_up,
                swapped=self.options.swap,
            )
        )

    def _finished(self, result: CopyResult) -> CopyResult:
        """The result, with what remains in the clear; nothing does if the source is removed."""
        if self.options.purge_source:
            copy = self.catalog.load_table(self.source)
            return replace(result, purged=remove_source(self.catalog, self.target, copy))
        return replace(result, remains=self._remains(exchanged=self.options.swap))

    def _finish_swap(self) -> EncryptPlan:
        catalog: Any = self.catalog
        catalog.finish_swap(self.source, self.target)
        return plan(self.source, ".".join(self.target), catalog=catalog, **asdict(self.options))

    @property
    def _read(self) -> Callable[[frozenset[int]], Source]:
        if is_folder(self.source):
            return partial(read_folder, self.source, dict(self.catalog.properties))
        history = self.options.history
        return lambda known: read_source(self.catalog.load_table(self.source), known, history=history)

    def _swap(self, copier: Copier) -> int:
        """Exchange the names when the copy is complete; a commit to the source meanwhile is caught up with."""
        catalog: Any = self.catalog
        caught_up = 0
        for _ in range(ROUNDS):
            caught_up += catch_up(copier)
            tables = [catalog.load_table(self.source), catalog.load_table(self.target)]
            if tables[0].metadata.current_snapshot_id != tables[1].metadata.current_snapshot_id:
                continue
            try:
                catalog.swap_tables(self.source, self.target, unchanged=tables)
            except CommitFailedException:
                continue
            return caught_up
        raise CommitFailedException(
            f"{self.source} was changed again and again while its copy {'.'.join(self.target)} was caught up; the "
            "names are not exchanged. Stop the writers for a moment and run the same command again"
        )

    def _remains(self, *, exchanged: bool) -> tuple[str, ...]:
        name = ".".join(self.target) if exchanged else self.source
        if is_folder(self.source):
            return (f"in the clear: {self.amount} at {self.source}; delete these files when you no longer need them",)
        amount = _amount_left(self.catalog.load_table(name), history=False)
        return (
            f"in the clear: {name}, {amount} and the files of older snapshots",
            f"remove it with catalog.purge_table({name!r}) when no job reads it any more; --swap --purge-source also "
            "removes what failed writers left, and searches for the rest. Versions and backups that the storage keeps "
            "stay in the clear until the storage removes them",
        )


def plan(
    source: str,
    target: str,
    *,
    key_id: str,
    catalog: Catalog | str | None = None,
    key_length: int | None = None,
    history: bool = False,
    sync: bool = False,
    swap: bool = False,
    location: str | None = None,
    purge_source: bool = False,
) -> EncryptPlan:
    """What `encrypt` will do. Reads the metadata of the tables, and asks no KMS.

    Args:
        source: the name of a plaintext table; or a folder or a glob of Parquet files, with a `/` in it.
        target: the name of the new table.
        key_id, key_length, history, sync, swap, location, purge_source: see `EncryptOptions`.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
    """
    options = EncryptOptions(key_id, key_length, history, sync, swap, location, purge_source)
    opened: Any = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    name = Catalog.identifier_to_tuple(target)
    if len(name) < 2:
        raise ConfigError(f"the target {target} has no namespace, expected namespace.table")
    if is_folder(source):
        if swap or history:  # and so nothing is removed
            raise ConfigError(f"{source} is a folder: it has no name to exchange and no history, expected a table")
        found = read_folder(source, dict(opened.properties))
        amount = Amount(len(found.files), found.stored_bytes)
        finished = is_copy(opened, name, found.identity, key_id)
        if not finished:
            admit_copy(opened, name, options.properties)
        return EncryptPlan(options, opened, source, name, amount, finished)
    if ".".join(name) == source:
        raise ConfigError(f"the target is the source {source} itself, expected another name; --swap exchanges them")
    if swap and _swap_is_begun(opened, Catalog.identifier_to_tuple(source), name):
        return EncryptPlan(options, opened, source, name, Amount(), begun=True)
    table = load_named(opened, source)
    identity = str(table.metadata.table_uuid)
    if KEY_ID_PROPERTY in table.metadata.properties:
        if swap and (made := _exchanged(opened, options, table, source, name)) is not None:
            return made
        raise ConfigError(
            f"{source} is encrypted already, under the key {table.metadata.properties[KEY_ID_PROPERTY]}; rekey gives "
            "its files new keys, change-master another master key"
        )
    if purge_source:
        refuse_shared_files(table)
    finished = is_copy(opened, name, identity, key_id)
    known: frozenset[int] = frozenset()
    if finished:
        known = frozenset(snapshot.snapshot_id for snapshot in opened.load_table(name).metadata.snapshots)
    else:
        admit_copy(opened, name, options.properties)
    note = "" if finished or not opened.table_exists(work_name(name)) else "goes on with an unfinished run"
    amount = amount_of(table, history=history, known=known)
    return EncryptPlan(options, opened, source, name, amount, finished, note=note)


def _amount_left(old: Table, *, history: bool) -> Amount:
    """The files of the source, if no run that was killed has begun to remove them."""
    try:
        return amount_of(old, history=history)
    except FileNotFoundError:
        return Amount()


def _swap_is_begun(catalog: Any, a: Identifier, b: Identifier) -> bool:
    return bool(catalog.table_exists(between_name(*sorted((a, b)))))


def _exchanged(
    catalog: Catalog, options: EncryptOptions, table: Table, source: str, other: Identifier
) -> EncryptPlan | None:
    """The plan for a table that an earlier run has exchanged with its source, or None."""
    made_from = table.metadata.properties.get(SOURCE)
    try:
        old = catalog.load_table(other)
    except NoSuchTableError:
        if made_from is None or not options.purge_source:
            return None
        return EncryptPlan(options, catalog, source, other, Amount(), exchanged=True, removed=True)
    if made_from != str(old.metadata.table_uuid):
        return None
    if options.purge_source:
        refuse_shared_files(old)
    amount = _amount_left(old, history=options.history)
    return EncryptPlan(options, catalog, source, other, amount, exchanged=True)
