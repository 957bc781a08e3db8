"""What `erase` has done, the proof, and what copies outside of the table still hold.

proved: no metadata.json of the table opens a byte of a matching row
copies: the files that backups and versions of objects may still have, and what makes them unreadable
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.jobs.erasure.versions import VersionsLeft
from sealberg.jobs.expire_result import counted, left_lines, removed_json, removed_text
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED

if TYPE_CHECKING:
    from sealberg.jobs.removal.deletion import Removed

SHOWN: Final = 20


@dataclass(frozen=True)
class Erasure:
    """The result of `erase`.

    Attributes:
        rows: matching rows that were found in files, deleted rows and older versions of files included.
        files: the data files that held them, and are gone.
        snapshot_ids, tags: what was expired.
        rewritten: data files that were written anew, of all branches.
        still: why the proof failed; empty if it did not.
        searched_files: data files that the proof had to look into, because bounds alone did not rule the rows out.
        searched_snapshots: all snapshots that the table has now.
        master_key_id: the key under which copies of older metadata are still wrapped.
        folders: how many empty partition folders with a value of the rows in their name were removed.
        versions: what the store keeps of files that were removed.
        key_users: other tables that use this key, or may use it: who destroys it destroys them.
    """

    table: str
    where: str
    rows: int
    files: tuple[str, ...]
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    rewritten: int
    resealed: int
    removed: Removed = field(repr=False)
    still: tuple[str, ...] = ()
    searched_files: int = 0
    searched_snapshots: int = 0
    master_key_id: str = ""
    key_users: tuple[str, ...] = ()
    folders: int = 0
    versions: VersionsLeft = field(default_factory=VersionsLeft)

    @property
    def is_proved(self) -> bool:
        return not (self.still or self.removed.left or self.versions.not_asked)

    @property
    def exit_code(self) -> int:
        """0: erased and proved. 1: something still shows the rows. 2: a file could not be removed or read."""
        if self.removed.left or self.versions.not_asked:
            return NOT_CHECKED
        return FINDINGS if self.still else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "erase",
            "exit_code": self.exit_code,
            "table": self.table,
            "where": self.where,
            "proved": self.is_proved,
            "still": list(self.still),
            "rows": self.rows,
            "files": list(self.files),
            "snapshots": list(self.snapshot_ids),
            "tags": list(self.tags),
            "rewritten": self.rewritten,
            "resealed": self.resealed,
            "searched_files": self.searched_files,
            "searched_snapshots": self.searched_snapshots,
            "master_key_id": self.master_key_id,
            "key_users": list(self.key_users),
            "removed_folders": self.folders,
            "older_versions": self.versions.count,
            "deleted_versions": self.versions.deleted,
            "versions_not_asked": list(self.versions.not_asked),
            **removed_json(self.removed),
        }

    def __str__(self) -> str:
        tags = f" and the tags {', '.join(self.tags)}" if self.tags else ""
        expired = f"{counted(len(self.snapshot_ids), 'snapshot')}{tags} expired"
        return "\n".join(
            [
                f"{self.table}: {counted(self.rows, 'row')} erased from {counted(len(self.files), 'file')}; "
                f"{counted(self.rewritten, 'file')} written anew, {expired}",
                f"  {removed_text(self.removed)}",
                *([f"  deleted {counted(self.versions.deleted, 'older version')}"] if self.versions.deleted else []),
                *([f"  removed {counted(self.folders, 'empty partition folder')}"] if self.folders else []),
                *left_lines(self.removed),
                *self._verdict(),
                *self._copies(),
            ]
        )

    def _verdict(self) -> list[str]:
        if not self.is_proved:
            not_asked = (f"versions of objects were not looked for: {each}" for each in self.versions.not_asked)
            return ["  NOT proved:", *(f"    {reason}" for reason in (*self.still, *not_asked))]
        return [
            f"  proved: none of the {self.searched_snapshots} snapshots that are left has a matching row, no manifest",
            "  names an erased file, and no metadata.json of the table holds a key of an expired snapshot",
        ]

    def _copies(self) -> list[str]:
        if not self.files and not self.removed.count:
            return []
        key, metadata = self.master_key_id, self.removed.files.get("metadata", 0)
        return [
            "  copies: backups, and older versions of objects if the store keeps them, may still have",
            f"  {len(self.files)} data files (--json lists them) and {metadata} metadata.json. Delete them, or make",
            *self._unreadable(key),
        ]

    def _unreadable(self, key: str) -> list[str]:
        """How copies become unreadable; a key that other tables use is never to be destroyed."""
        if not self.key_users:
            rewrap, change = f"sealberg rewrap {self.table}", f"sealberg change-master {self.table}"
            return [
                f"  them unreadable: rotate the master key {key}, run `{rewrap}` and destroy the old",
                f"  versions of the key; or run `{change}` and destroy the key {key}",
            ]
        more = f" and {len(self.key_users) - SHOWN} more (--json)" if len(self.key_users) > SHOWN else ""
        return [
            f"  them unreadable: rotate the master key {key}, run `sealberg rewrap` for this table and for all",
            "  others that use the key, and then destroy the old versions. Do NOT destroy the key itself:",
            *(f"    {user}" for user in self.key_users[:SHOWN]),
            *([f"   {more}"] if more else []),
        ]
