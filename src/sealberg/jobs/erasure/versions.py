"""What a bucket that keeps versions still has of a table: every file that an erase has removed, and metadata with keys.

    older versions in the table's folders ──> named, or with --delete-versions removed where nothing is there now

Iceberg never writes a file twice, so an older version is a file that was removed: by this erase, by an earlier expiry,
or by mistake. What the table still names, and what has not the name of a table's file, stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.errors import SealbergError
from sealberg.files.locations import within
from sealberg.files.object_versions import Version, keeps_none, older_versions
from sealberg.files.removal import remove_version
from sealberg.table.own_folders import Domain, is_written_form, neighbours, own_folders
from sealberg.table.reachable import reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sealberg.table.catalog_table import CatalogTable

SHOWN: Final = 20


@dataclass(frozen=True)
class VersionsLeft:
    """What the store still has.

    Attributes:
        held: older versions that are still there, with the reason if they were to go.
        deleted: how many were deleted.
        not_asked: why a store was not asked.
    """

    held: tuple[str, ...] = ()
    count: int = 0
    deleted: int = 0
    not_asked: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """For the list of what still holds the rows."""
        if not self.count:
            return ()
        more = (f"and {self.count - SHOWN} more",) if self.count > SHOWN else ()
        return (
            f"the store keeps versions, and {self.count} older ones in the folders of the table may hold the rows or "
            "their keys; --delete-versions deletes those that it may",
            *self.held,
            *more,
        )


def versions_left(table: CatalogTable, folders: Iterable[str], *, delete: bool) -> VersionsLeft:
    """Ask the stores of the table's folders, and delete what may go.

    Args:
        folders: of metadata files that the table had before.
    """
    held: list[str] = []
    not_asked: list[str] = []
    count = deleted = 0
    gate: _Gate | None = None
    own = own_folders(table.metadata)
    for folder in (*own, *(each for each in folders if not any(within(each, top) for top in own))):
        if keeps_none(folder):
            continue
        try:
            for version in older_versions(table.inner, folder):
                reason: str | None = ""
                if delete:
                    gate = gate or _Gate(table, folders)
                    reason = gate.removed(version)
                if reason is None:
                    deleted += 1
                    continue
                count += 1
                if len(held) < SHOWN:
                    told = f"  {version.location} version {version.version_id} ({version.size} bytes)"
                    held.append(f"{told}{f': {reason}' if reason else ''}")
        except SealbergError as error:
            not_asked.append(str(error))
    return VersionsLeft(tuple(held), count, deleted, tuple(not_asked))


class _Gate:
    """Decides which versions go."""

    def __init__(self, table: CatalogTable, folders: Iterable[str]) -> None:
        self._table = table
        others, vouched = neighbours(table.catalog), table.catalog.vouches(table)
        self._domain = Domain.of(table, others, vouched=vouched, former=folders)
        # Not the metadata files of the log: what an expiry has removed of them holds the keys that shall go.
        self._named = reach(table.metadata, table.io)
        self._named.lists.add(table.metadata_location)

    def removed(self, version: Version) -> str | None:
        """None if the version was deleted, else why it stays."""
        if not version.is_gone:
            return "another version is at this location now"
        if version.location in self._named:
            return "the table names this file, which is missing: only this version can bring it back"
        if not is_written_form(version.location.rpartition("/")[2]):
            return "has not the name of a table's file"
        return self._domain.refusal(version.location) or remove_version(self._table.inner, version)
