"""What a bucket that keeps versions still has of a table: every file that an erase has removed, and metadata with keys.

    older versions in the table's folders ──> named, or with --delete-versions removed where nothing is there now

Iceberg never writes a file twice, so an older version is a file that was removed, by this erase or an earlier expiry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.errors import SealbergError
from sealberg.files.locations import within
from sealberg.files.object_versions import Version, keeps_none, older_versions
from sealberg.files.removal import remove_version
from sealberg.table.own_folders import Domain, neighbours, own_folders

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
    domain: Domain | None = None
    own = own_folders(table.metadata)
    for folder in (*own, *(each for each in folders if not any(within(each, top) for top in own))):
        if keeps_none(folder):
            continue
        try:
            for version in older_versions(table.inner, folder):
                reason: str | None = ""
                if delete:
                    domain = domain or Domain.of(
                        table, neighbours(table.catalog), vouched=table.catalog.vouches(table), former=folders
                    )
                    reason = _removed(table, version, domain)
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


def _removed(table: CatalogTable, version: Version, domain: Domain) -> str | None:
    """None if the version was deleted, else why it stays."""
    if not version.is_gone:
        return "another version is at this location now"
    return domain.refusal(version.location) or remove_version(table.inner, version)
