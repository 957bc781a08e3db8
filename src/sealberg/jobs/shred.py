"""`shred`: destroys access to a table for good. Its files stay where they are, and nothing opens them.

    plan("hr.salaries", catalog="prod") ──> ShredPlan ──execute()──> ShredRecord

    1  prove    every file that the table names is opened with its key, to the last byte, as `verify` does
    2  record   who can open what, on request in a file
    3  commit   metadata without snapshots and without keys
    4  delete   every other metadata file of the table: each holds keys
    5  search   every object in the folders that the table has and has had: noise that step 1 has opened, or told
    6  KMS      on request: the master key is deleted, after the waiting time of the KMS

Each step finds out what was done before, so a killed job can be run again. A metadata file that a commit in progress
has written is deleted too: its commit can no longer succeed, because the metadata that it replaces are not the current
ones any more. A commit that comes after step 3 is found and told.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError, PurgeRefusedError, SealbergError
from sealberg.files.locations import Locations, normal, within
from sealberg.files.removal import remove_file
from sealberg.jobs.job import FINE, Amount, Plan, PlanStep
from sealberg.jobs.key_jobs import manager_of, selected
from sealberg.jobs.key_users import key_users
from sealberg.jobs.record import Sealer, check_file, is_self, this_user
from sealberg.jobs.removal import journal
from sealberg.jobs.removal.former_folders import former_folders
from sealberg.jobs.removal.key_search import Searched, search
from sealberg.jobs.removal.older_metadata import in_metadata_folders
from sealberg.jobs.replaced_table import REPLACED_BY
from sealberg.jobs.selection import shown
from sealberg.jobs.shred_proof import AUTHENTICATED, Authenticated, authenticated, left_over
from sealberg.jobs.shred_record import Opening, ShredRecord, continued, write_record
from sealberg.table.key_changes import DropKeys
from sealberg.table.own_folders import own_folders
from sealberg.table.purge import refuse_shared_files
from sealberg.version import __version__

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.key_jobs import Selected
    from sealberg.jobs.runner import Runner
    from sealberg.keys.kms.client import KmsClient
    from sealberg.table.catalog_table import CatalogTable

SHOWN: Final = 5


@dataclass(frozen=True)
class ShredPlan(Plan[ShredRecord]):
    """What will be destroyed.

    Attributes:
        begun: the record as it will be written before anything is destroyed.
        folders: those that the table has had, which are searched as well as those of today.
        opened: the objects that were opened with a key of the table.
        sign_with: the key of the KMS that seals the record; None: the master key of the table.
        delete_after_days: the waiting time of the master key's deletion; None keeps the master key.
    """

    table: CatalogTable = field(repr=False)
    begun: ShredRecord
    record: Path | None = None
    delete_after_days: int | None = None
    found: tuple[Searched, ...] = field(default=(), repr=False)
    folders: tuple[str, ...] = ()
    opened: Authenticated = field(default_factory=Authenticated, repr=False)
    sign_with: str | None = None

    @property
    def job(self) -> str:
        return "shred"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        held = [each for each in self.found if each.own]
        older = [each for each in held if normal(each.location) != normal(self.table.metadata_location)]
        calls = 0 if self.delete_after_days is None else 3
        removed = Amount(len(older), sum(each.size for each in older))
        return (
            PlanStep(
                self.begun.table,
                "DESTROY ACCESS",
                writes=Amount(1, None),
                removes=removed,
                kms_calls=calls,
                note="; ".join(self._notes()),
            ),
        )

    def _notes(self) -> Iterator[str]:
        yield "NOBODY will be able to read any snapshot again, and nothing brings them back"
        yield from map(str, self.begun.before)
        if self.opened.unproved:
            first = "; ".join(self.opened.unproved[:SHOWN])
            yield f"{len(self.opened.unproved)} objects are not proved now, and nobody can prove them later: {first}"
        if self.delete_after_days is not None:
            key_id = manager_of(self.table).settings.master_key_id
            when = "AT ONCE" if self.delete_after_days == 0 else f"after {self.delete_after_days} days"
            yield f"the master key {key_id} is deleted in the KMS {when}"

    @property
    def changes(self) -> bool:
        return True

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> ShredRecord:  # noqa: ARG002 (few files)
        if runner is not None:
            raise ConfigError("shred works on metadata alone, so it runs in this process, without a runner")
        record = self.begun
        if self.record is not None:
            write_record(record, self.record, self._sealer)
        record = self._shred(record)
        record = replace(record, state="finished" if record.exit_code == FINE else "begun", ended=datetime.now(UTC))
        if self.record is not None:
            write_record(record, self.record, self._sealer)
        return record

    @property
    def _sealer(self) -> Sealer:
        manager = manager_of(self.table)
        return Sealer(manager.kms, self.sign_with or manager.settings.master_key_id)

    def _shred(self, record: ShredRecord) -> ShredRecord:
        table, manager = self.table, manager_of(self.table)
        journals = _journals(table)
        _commit(table, self.opened)
        manager.cache.close()  # this process, too, must ask the KMS from now on
        deleted, failed = _delete_metadata(table, self.folders, journals)
        table.refresh()
        # A master key that is deleted takes along what older versions of metadata files open.
        left = left_over(table, self.folders, self.opened, versions=self.delete_after_days is None)
        record = replace(
            record,
            after=openings((each for each in search(table, self.folders) if not _is_current(each, table)), manager.kms),
            deleted=tuple(deleted),
            objects=left.objects,
            sealed=left.proved,
            findings=(*_later(table), *left.findings),
            not_proved=left.unproved,
            not_done=tuple(failed),
        )
        if self.delete_after_days is None or record.exit_code != 0:
            return record
        return self._delete_master_key(record, self.delete_after_days)

    def _delete_master_key(self, record: ShredRecord, days: int) -> ShredRecord:
        manager = manager_of(self.table)
        key_id = manager.settings.master_key_id
        try:
            refuse_shared_key(self.table, key_id)
            return replace(record, master_key={"key": key_id, **manager.kms.schedule_deletion(key_id, days)})
        except SealbergError as error:
            return replace(record, not_done=(*record.not_done, f"the master key {key_id} is not deleted: {error}"))


def plan(
    table: str | Identifier,
    *,
    catalog: Catalog | str | None = None,
    delete_master_key_after: int | None = None,
    record: str | os.PathLike[str] | None = None,
    approved_by: str | None = None,
    sign_with: str | None = None,
) -> ShredPlan:
    """What `shred` will destroy. Reads the metadata of the table, its older metadata, and those of all other tables.

    Args:
        table: the name of one table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        delete_master_key_after: also delete the master key in the KMS after this number of days. Refused if another
            table of any configured catalog uses the master key, or if the KMS has another waiting time.
        record: a JSON file for the record, with a page beside it.
        approved_by: who has approved it; a record needs one. Not the user who runs this process.
        sign_with: the key of the table's KMS that seals the record; by default the master key of the table. A master
            key that is deleted cannot seal: nobody could check the record.
    """
    path = None if record is None else Path(record)
    _check_record(path, approved_by)
    opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    label, (chosen,) = _one(table, opened)
    target = chosen.table
    if target is None:
        raise ConfigError(f"{chosen.name} cannot be shredded: {chosen.reason}")
    _refuse_shared(target)
    manager = manager_of(target)
    if delete_master_key_after is not None:
        _check_days(manager.kms, manager.settings.master_key_id, delete_master_key_after)
        if path is not None and sign_with in (None, manager.settings.master_key_id):
            raise ConfigError(
                f"the record would be sealed under the master key {manager.settings.master_key_id}, which is deleted: "
                "nobody could check it. Name another key of the KMS with --sign-with"
            )
        refuse_shared_key(target, manager.settings.master_key_id)
    folders = former_folders(target, target.inner)
    found = tuple(search(target, folders))
    begun = ShredRecord(
        version=__version__,
        state="begun",
        catalog=label,
        table=chosen.name,
        table_uuid=str(target.metadata.table_uuid),
        location=target.metadata.location,
        started=datetime.fromtimestamp(time.time(), UTC),
        ended=None,
        run_by=this_user(),
        approved_by=approved_by,
        before=openings(found, manager.kms),
        snapshots=len(target.metadata.snapshots),
        keys=len(target.metadata.encryption_keys),
    )
    begun = begun if path is None else continued(begun, path, manager.kms)
    proof = authenticated(target, folders)
    return ShredPlan(target, begun, path, delete_master_key_after, found, folders, proof, sign_with)


def openings(objects: Iterable[Searched], kms: KmsClient) -> tuple[Opening, ...]:
    """Which master key opens how many snapshots, by these objects."""
    opened: dict[str, set[int]] = {}
    files: dict[str, int] = {}
    for each in objects:
        for key_id in each.master_keys:
            opened.setdefault(key_id, set()).update(each.snapshots)
            files[key_id] = files.get(key_id, 0) + 1
    return tuple(Opening(key_id, kms.provider, len(opened[key_id]), files[key_id]) for key_id in sorted(opened))


def refuse_shared_key(table: CatalogTable, key_id: str) -> None:
    """Refuse to delete a master key that another table uses, or may use, in any catalog that is configured."""
    users = list(key_users(table, key_id))
    if users:
        told = "; ".join(map(str, users[:SHOWN])) + (f"; and {len(users) - SHOWN} more" if len(users) > SHOWN else "")
        raise PurgeRefusedError(
            f"the master key {key_id} cannot be deleted: {told}. Shred these tables first, or give them another master "
            "key with `sealberg change-master`; take catalogs that are no more out of the configuration"
        )


def _check_record(path: Path | None, approved_by: str | None) -> None:
    if approved_by is not None and is_self(approved_by):
        raise ConfigError(
            f"--approved-by is {approved_by}, who runs this command: the person who approves must be another one"
        )
    if path is None:
        return
    if not approved_by:
        raise ConfigError("--record needs --approved-by: a record names the person who approved the shredding")
    check_file(path)


def _one(table: str | Identifier, catalog: Catalog) -> tuple[str, tuple[Selected, ...]]:
    label, found = selected((table,), catalog, every=False)
    if len(found) != 1 or found[0].name != (table if isinstance(table, str) else shown(table)):
        raise ConfigError(f"{table} is a namespace, expected the name of one table: tables are shredded one by one")
    return label, found


def _check_days(kms: KmsClient, key_id: str, days: int) -> None:
    allowed = kms.deletion_days(key_id)
    if days not in allowed:
        least, most = allowed[0], allowed[-1]
        expected = f"{least}" if least == most else f"{least} to {most}"
        raise ConfigError(
            f"--schedule-master-key-deletion is {days} days, and the waiting time of the KMS ({kms.provider}) for "
            f"{key_id} is {expected}"
        )


def _others(table: CatalogTable) -> Sequence[Selected]:
    _, found = selected((), table.catalog, every=True)
    return [each for each in found if each.name != shown(table.name())]


def _refuse_shared(table: CatalogTable) -> None:
    """Refuse a table whose files another table uses: the other table would still open them."""
    refuse_shared_files(table)
    folders, uuid = own_folders(table.metadata), str(table.metadata.table_uuid)
    for other in (each.table for each in _others(table) if each.table is not None):
        inside = any(within(other.metadata_location, folder) for folder in folders)
        if inside or str(other.metadata.table_uuid) == uuid or other.metadata.properties.get(REPLACED_BY) == uuid:
            raise PurgeRefusedError(
                f"{'.'.join(table.name())} cannot be shredded: {'.'.join(other.name())} shares its files or its "
                "folder, and would still open them. Drop that table first"
            )


def _commit(table: CatalogTable, opened: Authenticated) -> None:
    """Take the snapshots and keys out, and keep which objects were opened with them."""
    begun = table.transaction()
    begun.commit_keys(DropKeys())
    if opened.marks and table.metadata.properties.get(AUTHENTICATED) != opened.digest:
        begun.set_properties({AUTHENTICATED: opened.digest})
    begun.commit_transaction()


def _journals(table: CatalogTable) -> list[str]:
    """The journals of expiries that a key of the table opens: what they say of files is of no use any more."""
    found = []
    for listed in in_metadata_folders(table):
        if listed.location.endswith(journal.SUFFIX):
            with suppress(SealbergError, OSError):
                journal.read(table, listed.location)
                found.append(listed.location)
    return found


def _delete_metadata(
    table: CatalogTable, folders: Sequence[str], journals: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Delete the metadata files that are not current, and the journals; returns them, and what could not be deleted.

    What the current metadata name goes last: a run that was killed must find the former folders again.
    """
    older = [each for each in search(table, folders) if each.own and not _is_later(each, table)]
    logged = Locations(entry.metadata_file for entry in table.metadata.metadata_log)
    found = sorted((each.location for each in older), key=lambda location: location in logged)
    deleted, failed = [], []
    for location in (*journals, *found):
        reason = remove_file(table.inner, location)
        if reason is None:
            deleted.append(location)
        elif reason:
            failed.append(f"{location} is not deleted: {reason}")
    return deleted, failed


def _is_current(found: Searched, table: CatalogTable) -> bool:
    return normal(found.location) == normal(table.metadata_location)


def _is_later(found: Searched, table: CatalogTable) -> bool:
    """Whether a metadata file is the current one, or of a commit on top of it."""
    return _is_current(found, table) or normal(table.metadata_location) in map(normal, found.log)


def _later(table: CatalogTable) -> Iterator[str]:
    if table.metadata.snapshots or len(table.metadata.encryption_keys):
        count = len(table.metadata.snapshots)
        yield f"another process has committed {count} snapshots after the keys were taken out: shred the table again"
