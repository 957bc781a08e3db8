"""Tables as queries have named them, for the plans that follow.

    load "hr.salaries"  ──> described to Java, with the place of its metadata ──┐  kept for half a minute
    plan for that metadata                                                   <──┘  no second look at the catalog

A query reads the table that it has named, however the catalog goes on; and a catalog may be far away. After a while
it is asked again all the same: what came with the table, such as credentials of a storage, may have its time.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

SECONDS: Final = 30
MOST: Final = 32


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
            if len(self._tables) > MOST:
                self._tables.popitem(last=False)

    def get(self, handle: dict[str, Any]) -> Table | None:
        """The table that this handle was made of, unless that is too long ago."""
        with self._lock:
            found = self._tables.get((*handle["table"], handle.get("metadata", "")))
        return found.table if found is not None and self._clock() - found.since < SECONDS else None
