"""The result of `expire`: what went, and what could not be removed.

hr.salaries: 7 snapshots expired, 7 keys removed; 31 files removed (4.2 MiB): 12 data, 7 manifest, ...
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sealberg.files.locations import on_one_line
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealberg.jobs.removal.deletion import Left, Removed


@dataclass(frozen=True)
class TableExpiry:
    """What was removed from one table.

    Attributes:
        keys: how many entries of `encryption-keys` went with the snapshots.
        unopened: manifest lists that no key opens any more, removed without being read.
    """

    table: str
    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]
    keys: int
    removed: Removed = field(repr=False)
    unopened: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "snapshots": list(self.snapshot_ids),
            "refs": list(self.refs),
            "keys": self.keys,
            **removed_json(self.removed),
            "unopened": self.unopened,
        }

    def __str__(self) -> str:
        number = len(self.snapshot_ids)
        lines = [f"{self.table}: {counted(number, 'snapshot')} expired, {counted(self.keys, 'key')} removed"]
        if self.refs:
            lines.append(f"  removed the refs {', '.join(self.refs)}")
        lines.append(f"  {removed_text(self.removed)}")
        if self.unopened:
            lines.append(
                f"  {counted(self.unopened, 'manifest list')} had a key that nobody can open any more; "
                "`sealberg orphans` finds the files that only they named"
            )
        return "\n".join([*lines, *left_lines(self.removed)])


@dataclass(frozen=True)
class TableFailure:
    """A table that an error stopped; the other tables went on."""

    table: str
    error: str
    message: str

    @classmethod
    def of(cls, table: str, error: Exception) -> TableFailure:
        return cls(table, type(error).__name__, str(error))

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "error": self.error, "message": self.message}

    def __str__(self) -> str:
        return f"{self.table}: failed: {self.message}"


@dataclass(frozen=True)
class ExpireResult:
    """What was removed from each table, and the tables that failed."""

    tables: tuple[TableExpiry, ...]
    failures: tuple[TableFailure, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: all is done. 1: files were kept. 2: a table failed, or files were left; the next run goes on."""
        codes = {table.removed.exit_code for table in self.tables}
        return FINDINGS if FINDINGS in codes else NOT_CHECKED if self.failures or NOT_CHECKED in codes else FINE

    def to_json(self) -> dict[str, Any]:
        return {
            "job": "expire",
            "exit_code": self.exit_code,
            "tables": [table.to_json() for table in self.tables],
            "failures": [failure.to_json() for failure in self.failures],
        }

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.tables, *self.failures)))


def removed_json(removed: Removed) -> dict[str, Any]:
    return {
        "removed": {"files": removed.count, "bytes": removed.bytes, "by_kind": dict(removed.files)},
        "left": [{"file": each.location, "reason": each.reason} for each in removed.left],
        "kept": [{"file": each.location, "reason": each.reason} for each in removed.kept],
    }


def removed_text(removed: Removed) -> str:
    if not removed.count:
        return "removed no file"
    kinds = ", ".join(f"{count} {kind}" for kind, count in removed.files.items())
    return f"removed {counted(removed.count, 'file')} ({kinds}), at least {readable(removed.bytes)}"


def left_lines(removed: Removed) -> list[str]:
    return [
        *_lines("could not be removed or read, and what names them was kept; run again", removed.left),
        *_lines("stay, because they are not the table's own to remove", removed.kept),
    ]


def _lines(head: str, files: Sequence[Left], most: int = 10) -> list[str]:
    if not files:
        return []
    more = [f"    and {len(files) - most} more"] if len(files) > most else []
    return [
        f"  {counted(len(files), 'file')} {head}:",
        *(f"    {on_one_line(f'{each.location}: {each.reason}')}" for each in files[:most]),
        *more,
    ]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
