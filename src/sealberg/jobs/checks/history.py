"""What table metadata say of themselves and of their past.

ids       the last column id and the last partition field id are not below those of schemas and specs
times     no snapshot is of the future; a KEK's age is checked by keys.py
parents   a parent is older than its child; it may have expired, but not if nothing has expired before the child
logs      the log of snapshots names snapshots of the table, and ends with the current one
past      an older metadata file of the log has the same schemas, specs, orders, snapshots and keys under the same ids
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.keys.keyring import MAX_SKEW_MS, TIMESTAMP_NAMES, timestamp_in
from sealberg.metadata.metadata_diff import FIXED, differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.types import IcebergType

    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata

MINUTE_MS: Final = 60_000  # Java's tolerance for clocks of different machines
SHOWN: Final = 5


def check_history(metadata: V3TableMetadata, outcome: Outcome, now_ms: int) -> None:
    """Everything but the past, which needs the older files."""
    _check_ids(metadata, outcome)
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    numbers = {snapshot.sequence_number for snapshot in metadata.snapshots}
    for snapshot in metadata.snapshots:
        if snapshot.timestamp_ms > now_ms + MAX_SKEW_MS:
            text = f"the time of the snapshot is {snapshot.timestamp_ms} ms, which is in the future"
            outcome.find("snapshot", text, None, snapshot.snapshot_id)
        if (wrong := _parent(snapshot, by_id, numbers)) is not None:
            outcome.find("snapshot", wrong, None, snapshot.snapshot_id)
    if metadata.last_updated_ms > now_ms + MAX_SKEW_MS:
        outcome.find("metadata", f"the table was last updated at {metadata.last_updated_ms} ms, which is in the future")
    _check_log(metadata, by_id, outcome)


def check_past(metadata: Mapping[str, Any], older: Mapping[str, Any], location: str, outcome: Outcome) -> None:
    """An older metadata file of the log that says something else under the same ids."""
    if all(_same_items(name, id_name, older, metadata) for name, id_name in FIXED.items()):
        return
    changed = [each.path for each in differences(older, metadata) if each.in_place]
    paths = [path for path in changed if not _rewrapped(path, older, metadata)]
    if paths:
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        text = f"an older metadata file contradicts the newest: {', '.join(paths[:SHOWN])}{more}"
        outcome.find("past", text, location)


def _same_items(name: str, id_name: str, older: Mapping[str, Any], newest: Mapping[str, Any]) -> bool:
    """Whether the items that both have are equal; most are, and comparing them takes little time."""
    was, now = older.get(name), newest.get(name)
    if not isinstance(was, list) or not isinstance(now, list):
        return was is None or now is None
    items = {item.get(id_name): item for item in now if isinstance(item, dict)}
    return len(items) == len(now) and all(
        isinstance(item, dict) and items.get(item.get(id_name), item) == item for item in was
    )


def _rewrapped(path: str, older: Mapping[str, Any], newest: Mapping[str, Any]) -> bool:
    """Whether `rewrap` wrapped a KEK anew, or `erase` sealed a key under another KEK."""
    for entry in older.get("encryption-keys") or ():
        if isinstance(entry, dict) and path.startswith(f"encryption-keys[{entry.get('key-id')}]."):
            member = path.removeprefix(f"encryption-keys[{entry.get('key-id')}].")
            if timestamp_in(entry.get("properties")) is not None:
                stamps = (f"properties.{name}" for name in TIMESTAMP_NAMES)
                return member not in ("encrypted-by-id", "key-id", "properties", *stamps)
            now = next((each for each in newest.get("encryption-keys") or () if _is(each, entry)), entry)
            moved = now.get("encrypted-by-id") != entry.get("encrypted-by-id")
            return moved and member in ("encrypted-by-id", "encrypted-key-metadata")
    return False


def _is(one: Any, other: Mapping[str, Any]) -> bool:
    return isinstance(one, dict) and one.get("key-id") == other.get("key-id")


def _parent(snapshot: V3Snapshot, by_id: Mapping[int, V3Snapshot], numbers: set[int | None]) -> str | None:
    parent_id, number = snapshot.parent_snapshot_id, snapshot.sequence_number or 0
    if parent_id is None:
        return None
    parent = by_id.get(parent_id)
    if parent is not None:
        if (parent.sequence_number or 0) < number or number == 0:
            return None
        found = parent.sequence_number
        return f"the parent {parent_id} of the snapshot has the sequence number {found}, not a lower one"
    if number and all(each in numbers for each in range(1, number)):
        return f"the parent {parent_id} of the snapshot does not exist, and no snapshot before it has expired"
    return None


def _check_log(metadata: V3TableMetadata, by_id: Mapping[int, V3Snapshot], outcome: Outcome) -> None:
    log = metadata.snapshot_log
    times = {snapshot.timestamp_ms for snapshot in metadata.snapshots}
    for entry in log:
        named = by_id.get(entry.snapshot_id)
        if named is None:
            outcome.find("snapshot", f"the log of snapshots names {entry.snapshot_id}, which does not exist")
        elif entry.timestamp_ms + MINUTE_MS < named.timestamp_ms or (
            entry.timestamp_ms != named.timestamp_ms and entry.timestamp_ms in times
        ):
            text = (
                f"the log of snapshots names {entry.snapshot_id} for the time {entry.timestamp_ms} ms, another's time"
            )
            outcome.find("snapshot", text)
    if log and metadata.current_snapshot_id is not None and log[-1].snapshot_id != metadata.current_snapshot_id:
        text = f"the log of snapshots ends with {log[-1].snapshot_id}, the current is {metadata.current_snapshot_id}"
        outcome.find("snapshot", text)


def _check_ids(metadata: V3TableMetadata, outcome: Outcome) -> None:
    highest = max((max(_field_ids(schema.as_struct()), default=0) for schema in metadata.schemas), default=0)
    if metadata.last_column_id < highest:
        text = f"the last column id is {metadata.last_column_id}, and a schema has the id {highest}"
        outcome.find("metadata", f"{text}: the next column would get an id that another has")
    fields = max((field.field_id for spec in metadata.partition_specs for field in spec.fields), default=0)
    if fields and (metadata.last_partition_id or 0) < fields:
        text = f"the last partition field id is {metadata.last_partition_id}, and a spec has the id {fields}"
        outcome.find("metadata", f"{text}: the next partition field would get an id that another has")
    chosen = {
        "current-schema-id": (metadata.current_schema_id, {each.schema_id for each in metadata.schemas}),
        "default-spec-id": (metadata.default_spec_id, {each.spec_id for each in metadata.partition_specs}),
        "default-sort-order-id": (metadata.default_sort_order_id, {each.order_id for each in metadata.sort_orders}),
    }
    for name, (number, known) in chosen.items():
        if number not in known:
            outcome.find("metadata", f"the {name} is {number}, which does not exist")


def _field_ids(kind: IcebergType) -> Iterator[int]:
    from pyiceberg.schema import index_by_id
    from pyiceberg.types import StructType

    assert isinstance(kind, StructType)
    yield from index_by_id(kind)
