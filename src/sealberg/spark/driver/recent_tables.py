"""Tables as queries have named them, for the plans that follow.

    load "hr.salaries"  ──> TableDescription, with the location of the metadata ──┐  kept for half a minute
    plan for that metadata                                                     <──┘  no second request to the catalog

A query reads the table as the query has named it, even if the table changes in the catalog; and a catalog may be far
away. After half a minute the catalog is asked again, because vended credentials that came with the table may expire.

Metadata grow with the snapshots of a table, and every commit makes new metadata. So few metadata of one table are kept,
and none that are too old to be used: otherwise every INSERT would cost memory for 32 copies of its snapshot.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from sealberg.spark.protocol.handles import TableHandle

SECONDS: Final = 30
MOST: Final = 32
MOST_OF_ONE: Final = 4  # metadata of one table


class _Named(NamedTuple):
    table: Table
    since: float


class RecentTables:
    """The last tables that were named; safe to share among threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[str, ...], _Named] = OrderedDict()

    def keep(self, table: Table) -> None:
        key = (*table.name(), table.metadata_location)
        with self._lock:
            self._tables[key] = _Named(table, self._clock())
            self._tables.move_to_end(key)
            same = [other for other in self._tables if other[:-1] == key[:-1]]
            old = [other for other, kept in self._tables.items() if self._clock() - kept.since >= SECONDS]
            for other in {*same[:-MOST_OF_ONE], *old}:
                del self._tables[other]
            if len(self._tables) > MOST:
                self._tables.popitem(last=False)

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, handle: TableHandle) -> Table | None:
        """The table that this handle was made of, unless the table was kept too long ago."""
        with self._lock:
            found = self._tables.get((*handle.table, handle.metadata_location or ""))
        return found.table if found is not None and self._clock() - found.since < SECONDS else None
