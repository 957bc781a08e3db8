"""What the older metadata files of a table's log say of its past: its folders, and the keys that it wanted.

A table may have been moved (SET LOCATION), and its older files stay where they were. The older files are read when
something needs an explanation, and once.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sealberg.errors import SealbergError
from sealberg.files.file_io import naming
from sealberg.files.locations import normal, within
from sealberg.jobs.checks.key_use import demanded_length
from sealberg.metadata.metadata_file import DEFAULT_MAX_BYTES, parse, read_text
from sealberg.metadata.table_places import PATHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.io import FileIO

    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState


def document(io: FileIO, location: str) -> dict[str, Any]:
    """A metadata file, parsed."""
    with naming(location):
        return parse(read_text(io.new_input(location), DEFAULT_MAX_BYTES), location)


def folders(location: str, properties: Mapping[str, Any]) -> list[str]:
    """The folders of a table with this location and these properties."""
    chosen = (str(properties[name]) for name in PATHS if properties.get(name))
    return [location.rstrip("/"), *(each.rstrip("/") for each in chosen)]


class Past:
    """The past of one table."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    @cached_property
    def _documents(self) -> list[dict[str, Any]]:
        """The older metadata files of this table that can be read; what is wrong with others is told elsewhere."""
        found = []
        for entry in self._state.metadata.metadata_log:
            with suppress(SealbergError, OSError):
                read = document(self._state.storage, entry.metadata_file)
                if read.get("table-uuid") == str(self._state.metadata.table_uuid):
                    found.append(read)
        return found

    @property
    def shortest_key(self) -> int:
        """The shortest length of keys that the table wants or has wanted."""
        wanted = [self._state.metadata.properties, *map(_properties, self._documents)]
        return min(map(demanded_length, wanted))

    @cached_property
    def folders(self) -> list[str]:
        """All folders that the table has had."""
        each = (folders(str(older.get("location", "")), _properties(older)) for older in self._documents)
        return [folder for several in each for folder in several if normal(folder).strip("/")]


def _properties(read: Mapping[str, Any]) -> Mapping[str, Any]:
    found = read.get("properties")
    return found if isinstance(found, dict) else {}


class Places:
    """Finds files that a table names and that are in none of its folders."""

    def __init__(self, state: TableState, past: Past) -> None:
        self._past = past
        metadata = state.metadata
        self._own = folders(metadata.location, metadata.properties)
        self._starts = tuple(f"{folder}/" for folder in self._own)
        self._outside: dict[str, tuple[int, str, int | None]] = {}

    def add(self, location: str, snapshot_id: int | None = None) -> None:
        """A location that the table names."""
        location = str(location)
        if location.startswith(self._starts) and "/.." not in location:
            return
        if any(within(location, folder) for folder in self._own):
            return
        folder = location.rpartition("/")[0]
        count, example, first = self._outside.get(folder, (0, location, snapshot_id))
        self._outside[folder] = (count + 1, example, first)

    def finish(self, outcome: Outcome) -> None:
        """One finding for each folder that the table has never had."""
        for folder, (count, example, snapshot_id) in self._outside.items():
            if any(within(example, known) for known in self._past.folders):
                continue
            files = f"{count} file{'' if count == 1 else 's'}"
            text = (
                f"the table reads {files} of {folder}, which is outside of its location {self._own[0]}: whoever "
                "changes or removes that folder changes this table"
            )
            outcome.find("elsewhere", text, example, snapshot_id)


def check_place(state: TableState, outcome: Outcome) -> None:
    """Find metadata that are not where the table is: the copy of a table, which reads the files of the original."""
    assert state.table is not None
    where, metadata = state.table.metadata_location, state.metadata
    own = folders(metadata.location, metadata.properties)
    if state.vouched_by != "server" and not any(within(where, folder) for folder in own):
        text = f"the metadata file is outside of the table's location {metadata.location}, where its files are"
        outcome.find("elsewhere", f"{text}: this is a copy that reads another table's files", where)


def log_locations(state: TableState) -> Iterator[str]:
    """The metadata files that the log names."""
    return (entry.metadata_file for entry in state.metadata.metadata_log)
