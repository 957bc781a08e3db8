"""`erase`: a person's right to be forgotten. Rows go from every branch, snapshot, file, manifest and metadata.json.

    plan("hr.people", where="id = 17") ──search──> ErasePlan: files, snapshots, tags ──execute()──> Erasure: the proof

    a fresh KEK ─> each branch: files without the rows, manifests without the old files ─> every snapshot and tag that
    shows the rows expires, and keys that stay are sealed anew ─> files and older metadata.json are removed ─> search

The last search is the proof, and it is the first step of the next run too: a job that was killed finds what is left,
also if the rows are gone from the current snapshot already. Snapshots that were expired when it was killed are found
in older metadata files. See docs/decisions/0059-erase.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue

from sealberg.errors import ConfigError, ConflictError
from sealberg.jobs.erasure.names import wanted
from sealberg.jobs.erasure.partition_folders import remove_partition_folders
from sealberg.jobs.erasure.resealing import renewal, reseal_all, reseal_with
from sealberg.jobs.erasure.result import Erasure
from sealberg.jobs.erasure.rewrite import ERASE, JOB, clean_branch
from sealberg.jobs.erasure.search import Holding, Search, Searched
from sealberg.jobs.erasure.versions import versions_left
from sealberg.jobs.expire import expire_table, remove_expired
from sealberg.jobs.expire_result import counted
from sealberg.jobs.job import Amount, Plan, PlanStep, Progress
from sealberg.jobs.key_jobs import commit, manager_of
from sealberg.jobs.key_users import key_users
from sealberg.jobs.removal.deletion import Removed
from sealberg.jobs.removal.former_folders import metadata_places
from sealberg.jobs.removal.older_metadata import in_metadata_folders, metadata_below, older_metadata, refuse_newer
from sealberg.jobs.removal.removable import removable
from sealberg.jobs.row_filter import parsed
from sealberg.jobs.runner import Threads
from sealberg.jobs.selection import encrypted_table
from sealberg.table.retention import Retention

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression

    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.table.catalog_table import CatalogTable
    from sealberg.table.transaction import EncryptedTransaction

ROUNDS: Final = 5
SHOWN: Final = 20


@dataclass(frozen=True)
class ErasePlan(Plan[Erasure]):
    """What shows the rows now."""

    table: CatalogTable = field(repr=False)
    where: BooleanExpression = field(repr=False)
    text: str
    found: Holding = field(repr=False)
    seen: Searched = field(default_factory=Searched, repr=False, compare=False)
    delete_versions: bool = False

    @property
    def job(self) -> str:
        return "erase"

    @property
    def changes(self) -> bool:
        return True  # also without rows: an earlier run may have left files and keys

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        found = self.found
        rows = sum(found.rows.values())
        return (
            PlanStep(
                ".".join(self.table.name()),
                f"erase {counted(rows, 'row')} in {counted(len(found.rows), 'file')}",
                reads=Amount(len(found.rows), found.bytes),
                writes=Amount(len(found.rows), None) if found.rows else Amount(),
                removes=Amount(len(found.rows) + len(found.snapshot_ids) + len(self.table.metadata.metadata_log), None),
                kms_calls=4,
                note="; ".join(self._notes()),
            ),
        )

    def _notes(self) -> list[str]:
        found, several = self.found, wanted(self.where, self.table.metadata).fields
        former = [
            f"{name} is and was the fields {', '.join(map(str, ids))}: all are searched"
            for name, ids in several.items()
        ]
        if not found:
            return [*former, "no snapshot shows a matching row; files and keys that an earlier run left are removed"]
        ids = [str(number) for number in found.snapshot_ids]
        more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
        return [
            *former,
            f"{len(ids)} of {len(self.table.metadata.snapshots)} snapshots show the rows and expire: "
            f"{', '.join(ids[:SHOWN])}{more}",
            *([f"tags that are removed: {', '.join(found.tags)}"] if found.tags else []),
            *([f"branches that are rewritten: {', '.join(found.branches)}"] if found.branches else []),
        ]

    def to_json(self) -> dict[str, Any]:
        found = self.found
        return {
            **super().to_json(),
            "where": self.text,
            "files": sorted(found.rows),
            "snapshots": list(found.snapshot_ids),
            "tags": list(found.tags),
            "branches": list(found.branches),
        }

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> Erasure:
        """Erase the rows and prove it.

        Raises:
            ConflictError: a tag that is not in the plan shows the rows now; plan again.
        """
        return _Run(self, runner or Threads(), progress).run()


def plan(
    table: TableName,
    *,
    where: str | BooleanExpression,
    catalog: Catalog | str | None = None,
    runner: Runner | None = None,
    delete_versions: bool = False,
) -> ErasePlan:
    """What `erase` will do. Reads every manifest, and looks into the files that may hold the rows.

    Args:
        table: the name of an encrypted table, or an open table.
        where: the rows, in the words of PyIceberg's filters: "id = 17", "email = 'a@example.org'". A name means every
            field that ever had it.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        runner: looks into files; by default threads of this machine.
        delete_versions: in a bucket that keeps versions, delete the older ones of files that are gone.
    """
    found = encrypted_table(table, catalog)
    removable(found, "Cannot erase rows")
    rows = wanted(where, found.metadata)
    if isinstance(rows.bound, AlwaysTrue | AlwaysFalse):
        raise ConfigError(f"the filter {where!s} matches every row or none; expected a filter that picks some rows")
    expression, seen = parsed(where), Searched()
    holding = Search(found, expression, runner or Threads(), seen).run()
    return ErasePlan(found, expression, str(where), holding, seen, delete_versions)


def _refuse_newer(table: CatalogTable) -> None:
    """Refuse while storage has a later commit than the catalog: its files would go, and its rows are not searched."""

    def is_own(snapshot: dict[str, Any]) -> bool:
        summary = snapshot.get("summary")
        return isinstance(summary, dict) and summary.get(JOB) == ERASE

    files = (*in_metadata_folders(table), *metadata_below(table))
    refuse_newer(table, files, but_shorter=True, but_own=is_own)


class _Run:
    """One execution: rounds of search and removal, until a search finds nothing."""

    def __init__(self, plan: ErasePlan, runner: Runner, progress: ProgressListener | None) -> None:
        self._plan, self._runner, self._progress = plan, runner, progress
        self._table = plan.table
        self._files: dict[str, int] = {}
        self._snapshots: dict[int, None] = {}
        self._tags: dict[str, None] = {}
        self._removed = Removed()
        self._rewritten = self._resealed = self._done = 0
        self._places = dict.fromkeys(metadata_places(plan.table.metadata))  # also when nothing names them any more
        self._swept = False  # whether the last round has removed all that is expired

    def run(self) -> Erasure:
        table = self._table.refresh()
        _refuse_newer(self._table)
        found = self._plan.found if table.metadata_location == self._plan.found.metadata_location else self._search()
        for _ in range(ROUNDS):
            if not found:
                break
            self._refuse_new_tags(found)
            self._round(found)
            self._table.refresh()
            found = self._search()
        if not self._swept:
            self._add(remove_expired(self._table, [], self._runner, self._noted)[0])
        resealed = reseal_all(self._table)
        self._resealed += resealed
        if resealed and self._snapshots:
            self._add(remove_expired(self._table, [], self._runner, self._noted, keks=True)[0])
        return self._result(self._last(found))

    def _round(self, found: Holding) -> None:
        self._swept = False
        self._places.update(dict.fromkeys(metadata_places(self._table.metadata)))
        renewed = renewal(self._table, found.snapshot_ids)
        rows = wanted(self._plan.where, self._table.metadata)
        passing: list[int] = []
        try:
            if renewed is not None and not found.branches:
                commit(self._table, renewed)
            for branch in found.branches:
                cleaned = clean_branch(self._table, branch, found, rows, self._runner, renewed)
                renewed = None
                self._rewritten += cleaned.written
                passing += [cleaned.passing] if cleaned.passing is not None else []
        except (ValidationException, CommitFailedException):
            return  # others have changed the same files; the next round searches again
        asked = Retention(
            snapshot_ids=frozenset([*found.snapshot_ids, *passing]), refs=frozenset(found.tags), only_named=True
        )
        sealed = 0

        def reseal(begun: EncryptedTransaction, updates: tuple[Any, ...]) -> None:
            nonlocal sealed
            sealed = reseal_with(begun, updates)

        try:
            expired = expire_table(
                self._table,
                asked,
                self._runner,
                self._noted,
                before_expiry=reseal,
                is_newest=bool(found.branches),
                keks=True,
            )
        except ConfigError:  # a ref was set meanwhile to a snapshot that shows the rows
            return
        self._resealed += sealed
        self._swept = not expired.removed.left
        self._files.update(found.rows)
        self._snapshots.update(dict.fromkeys(found.snapshot_ids))
        self._tags.update(dict.fromkeys(found.tags))
        self._add(expired.removed)

    def _search(self) -> Holding:
        return Search(self._table, self._plan.where, self._runner, self._plan.seen).run()

    def _last(self, found: Holding) -> Holding:
        """The proof is about the metadata after the last change of this job; the search loaded them anew, unless the
        job has changed something since."""
        if found.metadata_location == self._table.metadata_location:
            return found
        self._table.refresh()
        return self._search()

    def _refuse_new_tags(self, found: Holding) -> None:
        if unknown := [tag for tag in found.tags if tag not in self._plan.found.tags]:
            raise ConflictError(
                f"the tag {', '.join(unknown)} shows matching rows and is not in the plan: somebody has made it "
                "meanwhile. Plan again"
            )

    def _add(self, removed: Removed) -> None:
        for kind, count in removed.files.items():
            self._removed.files[kind] = self._removed.files.get(kind, 0) + count
        self._removed.bytes += removed.bytes
        self._removed.first += removed.first
        self._removed.kept += removed.kept
        self._removed.left = removed.left  # of the last attempt: what it could not do

    def _noted(self, files: int, _bytes: int) -> None:
        self._done += files
        if self._progress is not None:
            self._progress(Progress(self._done, self._done))

    def _result(self, found: Holding) -> Erasure:
        metadata = self._table.metadata
        versions = versions_left(self._table, self._places, delete=self._plan.delete_versions)
        return Erasure(
            ".".join(self._table.name()),
            self._plan.text,
            sum(self._files.values()),
            tuple(self._files),
            tuple(self._snapshots),
            tuple(self._tags),
            self._rewritten,
            self._resealed,
            self._removed,
            (*self._still(found), *versions.lines()),
            found.searched,
            len(metadata.snapshots),
            key_id := manager_of(self._table).settings.master_key_id,
            tuple(map(str, key_users(self._table, key_id))) if self._files or self._removed.count else (),
            remove_partition_folders(self._table, self._files, wanted(self._plan.where, metadata)),
            versions,
        )

    def _still(self, found: Holding) -> list[str]:
        """What still shows the rows."""
        reasons = [f"snapshot {number} shows matching rows" for number in found.snapshot_ids]
        listed = in_metadata_folders(self._table, self._places)
        for each in older_metadata(self._table, listed=listed, keks=bool(self._snapshots)):
            if each.error is not None:
                reasons.append(f"{each.location} cannot be read: {each.error}")
            elif each.expired_keys and each.in_progress:
                reasons.append(
                    f"{each.location} holds keys of expired snapshots, and may belong to a commit in progress; run "
                    "again when nobody writes, or `sealberg orphans` removes it when it is old enough"
                )
            elif each.expired_keys:
                reasons.append(f"{each.location} holds keys of expired snapshots")
        storage = self._table.inner
        reasons += [f"{path} still exists" for path in self._files if storage.new_input(path).exists()]
        return reasons
