"""What `encrypt` and `decrypt` did, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sealberg.files.locations import on_one_line
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED, readable

if TYPE_CHECKING:
    from sealberg.jobs.copying.purge_source import Purged


@dataclass(frozen=True)
class CopyResult:
    """A finished copy.

    Attributes:
        job: encrypt or decrypt.
        snapshots: how many snapshots the target has.
        files, bytes, rows: copied by this run.
        earlier: files that an earlier, unfinished run had copied.
        decoded: files whose rows had to be decoded and written again.
        deletes: position delete files and deletion vectors, written with the new locations.
        columns: the checksum of every column, equal in source and target; of the files of this run.
        swapped: whether the names were exchanged.
        remains: what is still in the clear, and how it is removed.
        purged: what became of the source, if it was to be removed.
        kept: what lies in the location of the copy and is not of this copy, and why it stays.
    """

    job: str
    source: str
    target: str
    snapshots: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    earlier: int = 0
    decoded: int = 0
    deletes: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    caught_up: int = 0
    swapped: bool = False
    notes: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()
    purged: Purged | None = None
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0: done. 1: something of a source that was to be removed is left, or something of others lies in the location
        of the copy. 2: it is not known whether."""
        if self.purged is not None and self.purged.unproved:
            return NOT_CHECKED
        return FINDINGS if self.kept or (self.purged is not None and self.purged.left) else FINE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        files = f"{_counted(self.files, 'file')}, {_counted(self.rows, 'row')}, {readable(self.bytes)} written"
        lines = [f"{self.source} -> {self.target}: {files}"]
        lines += [f"  copied by an earlier run: {_counted(self.earlier, 'file')}"] if self.earlier else []
        lines += (
            [f"  decoded, because the pages could not be re-wrapped: {_counted(self.decoded, 'file')}"]
            if self.decoded
            else []
        )
        lines += [f"  {self.deletes} position delete files and deletion vectors"] if self.deletes else []
        if self.columns:
            lines.append(f"  checksums of {len(self.columns)} columns compared: equal")
        lines += [f"  caught up with {_counted(self.caught_up, 'newer snapshot')}"] if self.caught_up else []
        lines += [f"  {note}" for note in self.notes]
        if self.swapped:
            lines.append(f"  names exchanged: {self.source} is the new table, {self.target} the old one")
        lines += [
            f"  stays in the location of the copy: {on_one_line(location)} {why}" for location, why in self.kept.items()
        ]
        lines += [str(self.purged)] if self.purged is not None else []
        return "\n".join((*lines, *self.remains))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
