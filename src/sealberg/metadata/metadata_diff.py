"""Compares two metadata documents member by member.

    differences(before, after) ─> Difference(group, change, path, before, after, in_place) ...

    group      schemas, partition specs, sort orders, snapshots, current snapshot and refs, encryption keys, properties,
               table, statistics, logs, counters, unknown members
    change     added, removed, changed
    in_place   a schema, spec, order, snapshot or key has its old id but other content. Iceberg gives new content a
               new id, so somebody edited the document. One job does so: `rewrap` wraps a KEK anew under its old id,
               by a commit for which the catalog vouches.

The documents are compared as parsed JSON, so that unknown members are compared too. A wrapped key is shown by its
length and a digest, never by its bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
TABLE, UNKNOWN = "table", "unknown members"
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    TABLE: ("format-version", "table-uuid", "location"),
    "schemas": ("schemas", "current-schema-id", "last-column-id"),
    "partition specs": ("partition-specs", "default-spec-id", "last-partition-id"),
    "sort orders": ("sort-orders", "default-sort-order-id"),
    "snapshots": ("snapshots",),
    "current snapshot and refs": ("current-snapshot-id", "refs"),
    "encryption keys": ("encryption-keys",),
    "properties": ("properties",),
    "statistics": ("statistics", "partition-statistics"),
    "logs": ("snapshot-log", "metadata-log"),
    "counters": ("last-sequence-number", "last-updated-ms", "next-row-id"),
    UNKNOWN: (),
}
# Lists whose items have a permanent id, and the member that holds the id.
FIXED: Final[Mapping[str, str]] = {
    "schemas": "schema-id",
    "partition-specs": "spec-id",
    "sort-orders": "order-id",
    "snapshots": "snapshot-id",
    "encryption-keys": "key-id",
}
# The id members of nested lists: fields of a schema, a spec and an order.
_IDS: Final = ("id", "field-id", "source-id")
_WRAPPED: Final = "encrypted-key-metadata"
_MISSING: Final = object()


@dataclass(frozen=True)
class Difference:
    """One difference between two documents; a missing value is None."""

    group: str
    change: str
    path: str
    before: Any
    after: Any
    in_place: bool = False


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """All differences, group by group."""
    found: list[Difference] = []
    for group, members in GROUPS.items():
        names = members or sorted((before.keys() | after.keys()) - {name for each in GROUPS.values() for name in each})
        for name in names:
            old, new = before.get(name, _MISSING), after.get(name, _MISSING)
            if name in FIXED and isinstance(old, list) and isinstance(new, list):
                found += _by_fixed_id(group, name, old, new)
            else:
                in_place = name == "table-uuid" or (name in FIXED and _is_some(old))
                found += _walk(group, name, old, new, in_place=in_place)
    return found


def _by_fixed_id(group: str, name: str, old: list[Any], new: list[Any]) -> Iterator[Difference]:
    """Compare items with permanent ids: items may be added and removed, but an item must not change."""
    id_name = FIXED[name]
    if not (_have_ids(old, id_name) and _have_ids(new, id_name)):
        # Duplicate or missing ids: readers may differ about which item counts.
        yield from _walk(group, name, old, new, in_place=True)
        return
    was, now = ({item[id_name]: item for item in items} for items in (old, new))
    for each in was:
        path = f"{name}[{each}]"
        if each not in now:
            yield Difference(group, REMOVED, path, _shown(was[each]), None)
        else:
            yield from _walk(group, path, was[each], now[each], in_place=True)
    for each in now:
        if each not in was:
            yield Difference(group, ADDED, f"{name}[{each}]", None, _shown(now[each]))
    yield from _order(group, name, list(was), list(now), in_place=False)


def _walk(group: str, path: str, old: Any, new: Any, *, in_place: bool) -> Iterator[Difference]:
    if _same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            yield from _walk(
                group, f"{path}.{name}", old.get(name, _MISSING), new.get(name, _MISSING), in_place=in_place
            )
    elif isinstance(old, list) and isinstance(new, list):
        yield from _walk_lists(group, path, old, new, in_place=in_place)
    else:
        change = ADDED if old is _MISSING else REMOVED if new is _MISSING else CHANGED
        # For Iceberg, null and a missing member are the same.
        means_something = _is_some(old) or _is_some(new)
        wrapped = path.endswith(_WRAPPED)
        yield Difference(
            group, change, path, _shown(old, wrapped), _shown(new, wrapped), in_place=in_place and means_something
        )


def _walk_lists(group: str, path: str, old: list[Any], new: list[Any], *, in_place: bool) -> Iterator[Difference]:
    id_name = next((name for name in _IDS if old and _have_ids(old, name) and _have_ids(new, name)), None)
    if id_name is None:
        for index in range(max(len(old), len(new))):
            pair = [items[index] if index < len(items) else _MISSING for items in (old, new)]
            yield from _walk(group, f"{path}[{index}]", *pair, in_place=in_place)
        return
    was, now = ({item[id_name]: item for item in items} for items in (old, new))
    for each in dict.fromkeys([*was, *now]):
        here = f"{path}[{id_name}={each}]"
        yield from _walk(group, here, was.get(each, _MISSING), now.get(each, _MISSING), in_place=in_place)
    yield from _order(group, path, list(was), list(now), in_place=in_place)


def _order(group: str, path: str, was: list[Any], now: list[Any], *, in_place: bool) -> Iterator[Difference]:
    """A difference if common items are in another order, which matters for columns of a schema and fields of a spec."""
    old, new = [each for each in was if each in now], [each for each in now if each in was]
    if old != new:
        yield Difference(group, CHANGED, f"{path} (order)", old, new, in_place=in_place)


def _have_ids(items: list[Any], name: str) -> bool:
    ids = [item.get(name) for item in items if isinstance(item, dict)]
    usable = all(isinstance(each, int | str) and not isinstance(each, bool) for each in ids)
    return usable and len(ids) == len(items) and not [each for each, times in Counter(ids).items() if times > 1]


def _same(old: Any, new: Any) -> bool:
    """Equal and of the same type: in Python, True, 1 and 1.0 are equal."""
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name]) for name in old)
    if isinstance(old, list):
        return len(old) == len(new) and all(map(_same, old, new))
    return bool(old == new)


def _is_some(value: Any) -> bool:
    return value is not None and value is not _MISSING


def _shown(value: Any, wrapped: bool = False) -> Any:
    """The value without the bytes of a wrapped key."""
    if value is _MISSING:
        return None
    if isinstance(value, dict):
        return {name: _shown(item, name == _WRAPPED) for name, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return _digest(value) if wrapped and value is not None else value


def _digest(value: Any) -> str:
    text = str(value)
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        content = text.encode("utf-8", "surrogatepass")
    return f"{len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()[:16]}"
