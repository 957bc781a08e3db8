"""The timestamps of a table, which never go back, whatever the clocks of its writers say.

    last-updated-ms, the snapshot log, the metadata log and snapshot timestamps: each at least the last one plus 1 ms

Iceberg Java does not load a table whose logs go back by more than a minute, and time travel and expiry by age depend
on these timestamps. A writer whose clock is behind the table therefore writes the table's time plus a millisecond. If
the clock is behind by more than `commit.max-clock-skew-ms`, the commit is refused: one of the clocks is wrong, and a
person must correct it. docs/decisions/0021-clocks.md has the reasons.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sealberg.errors import ClockSkewError
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.metadata.table_metadata import V3TableMetadata

MAX_SKEW: Final = "commit.max-clock-skew-ms"
DEFAULT_MAX_SKEW_MS: Final = 10 * 60 * 1000


def max_skew_ms(catalog: Mapping[str, str], table: Mapping[str, str]) -> int:
    """The most that a clock may be behind: from the catalog's configuration, else from the table, else 10 minutes."""
    allowed: int = value_of(catalog if MAX_SKEW in catalog else table, MAX_SKEW, DEFAULT_MAX_SKEW_MS)
    return allowed


def next_ms(metadata: V3TableMetadata, allowed_ms: int) -> int:
    """The timestamp of the next change: now, or the last change plus 1 ms if the clock is behind."""
    now, last = time.time_ns() // 1_000_000, _latest(metadata)
    if last - now > allowed_ms:
        raise ClockSkewError(
            f"the clock of this machine is at {_utc(now)}, but the last change of the table is at {_utc(last)}: "
            f"the clock is behind by {last - now} ms, and {MAX_SKEW} allows {allowed_ms}. Nothing was committed; "
            f"correct the wrong clock, or set {MAX_SKEW} on the catalog if the clock of another writer was wrong"
        )
    return max(now, last + 1)


def in_order(before: V3TableMetadata, after: V3TableMetadata, allowed_ms: int) -> V3TableMetadata:
    """The changed metadata, with timestamps after those of `before`."""
    if after.last_updated_ms == before.last_updated_ms and after.metadata_log == before.metadata_log:
        return after  # no change
    least = next_ms(before, allowed_ms)
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in before.snapshot_log}
    log, last = [], _latest(before)
    for entry in after.snapshot_log:
        if (entry.snapshot_id, entry.timestamp_ms) not in known and entry.timestamp_ms <= last:
            entry = entry.model_copy(update={"timestamp_ms": last + 1})  # noqa: PLW2901 (the same entry with a later timestamp)
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
