"""The times of a table: they never go back, whatever the clocks of its writers say.

    last-updated-ms, the snapshot log, the metadata log, the timestamp of each snapshot: each at least the last plus one

Iceberg Java does not load a table whose logs go back by more than a minute, and time travel and expiry by age go by
these times. A writer whose clock is behind the table therefore writes the time of the table plus a millisecond. A clock
that is behind by more than `commit.max-clock-skew-ms` is refused: one of the two clocks is wrong, and a person must
look. docs/decisions/0021-clocks.md has the reasons.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sealberg.errors import ClockSkewError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.metadata.table_metadata import V3TableMetadata

MAX_SKEW: Final = "commit.max-clock-skew-ms"
DEFAULT_MAX_SKEW_MS: Final = 10 * 60 * 1000


def max_skew_ms(catalog: Mapping[str, str], table: Mapping[str, str]) -> int:
    """By how much a clock may be behind: the catalog's configuration says so, else the table, else 10 minutes."""
    given = catalog.get(MAX_SKEW, table.get(MAX_SKEW, DEFAULT_MAX_SKEW_MS))
    try:
        allowed = int(given)
    except ValueError:
        allowed = -1
    if allowed < 0:
        raise ConfigError(f"{MAX_SKEW} is a number of milliseconds, 0 or more, not {given!r}")
    return allowed


def next_ms(metadata: V3TableMetadata, allowed_ms: int) -> int:
    """The time for the next change of a table: now, or just after the last change if the clock is a little behind."""
    now, last = time.time_ns() // 1_000_000, _latest(metadata)
    if last - now > allowed_ms:
        raise ClockSkewError(
            f"the clock of this machine says {_utc(now)}, and the last change of the table has the time {_utc(last)}: "
            f"the clock is behind by {last - now} ms, and {MAX_SKEW} allows {allowed_ms}. Nothing was committed; "
            f"correct the clock that is wrong, or set {MAX_SKEW} on the catalog if it was the clock of another writer"
        )
    return max(now, last + 1)


def in_order(before: V3TableMetadata, after: V3TableMetadata, allowed_ms: int) -> V3TableMetadata:
    """The changed metadata with times that follow those before the change."""
    if after.last_updated_ms == before.last_updated_ms and after.metadata_log == before.metadata_log:
        return after  # no change
    least = next_ms(before, allowed_ms)
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in before.snapshot_log}
    log, last = [], _latest(before)
    for entry in after.snapshot_log:
        if (entry.snapshot_id, entry.timestamp_ms) not in known and entry.timestamp_ms <= last:
            entry = entry.model_copy(update={"timestamp_ms": last + 1})  # noqa: PLW2901 (the entry, in time)
        last = max(last, entry.timestamp_ms)
        log.append(entry)
    updated = after.last_updated_ms if after.last_updated_ms > _latest(before) else least
    return after.model_copy(update={"last_updated_ms": max(updated, last), "snapshot_log": log})


def _latest(metadata: V3TableMetadata) -> int:
    times = [entry.timestamp_ms for entry in metadata.snapshot_log[-1:]]
    times += [entry.timestamp_ms for entry in metadata.metadata_log[-1:]]
    times += [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    return max(metadata.last_updated_ms, *times) if times else metadata.last_updated_ms


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
