"""Which snapshots and refs an expiry removes: the rules of Iceberg Java's RemoveSnapshots.

    refs        main stays; another branch or tag goes when its snapshot is older than its `max-ref-age-ms`
    branches    the newest `min-snapshots-to-keep`, and those after them that are no older than `max-snapshot-age-ms`
    tags        their snapshot
    no branch   a snapshot that no branch or tag leads to stays until it is as old

A branch has settings of its own, or those of the expiry, or those of the table (`history.expire.*`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from sealberg.errors import ConfigError
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sealberg.metadata.table_metadata import V3Ref, V3Snapshot, V3TableMetadata

MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"
DEFAULT_MAX_SNAPSHOT_AGE: Final = 5 * 24 * 60 * 60 * 1000
DEFAULT_MIN_SNAPSHOTS: Final = 1
FOREVER: Final = 2**63 - 1


@dataclass(frozen=True)
class Retention:
    """What an expiry was asked for; None where the table's properties decide.

    Args:
        older_than_ms: snapshots before this time (milliseconds since the epoch) may go.
        retain_last: how many snapshots of each branch stay, whatever their age.
        snapshot_ids: these snapshots go, whatever their age; refused while a ref names one of them.
        refs: these branches and tags go, whatever their age.
        only_named: nothing else goes, however old it is.
    """

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: frozenset[int] = frozenset()
    refs: frozenset[str] = frozenset()
    only_named: bool = False

    def __post_init__(self) -> None:
        if self.retain_last is not None and self.retain_last < 1:
            raise ConfigError(f"the number of snapshots to retain is {self.retain_last}, expected at least 1")
        if MAIN_BRANCH in self.refs:
            raise ConfigError(f"the branch {MAIN_BRANCH} cannot be removed: it is the table")


@dataclass(frozen=True)
class Expiry:
    """What goes: snapshots by id, branches and tags by name."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.snapshot_ids or self.refs)


def expiry(metadata: V3TableMetadata, asked: Retention, now_ms: int) -> Expiry:
    """What the expiry removes from these metadata at this time."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    if asked.only_named:
        left = {name: ref for name, ref in metadata.refs.items() if name not in asked.refs}
        _refuse_named(asked.snapshot_ids, left)
        named = tuple(number for number in known if number in asked.snapshot_ids)
        return Expiry(named, tuple(name for name in metadata.refs if name in asked.refs))
    limits = _Limits.of(metadata.properties, asked, now_ms)
    refs = {
        name: ref
        for name, ref in metadata.refs.items()
        if name not in asked.refs and _is_ref_kept(name, ref, known, limits, now_ms)
    }
    _refuse_named(asked.snapshot_ids, refs)
    kept = {ref.snapshot_id for ref in refs.values()}
    led_to = set(kept)
    for ref in refs.values():
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            line = list(_ancestors(ref.snapshot_id, known))
            led_to.update(snapshot.snapshot_id for snapshot in line)
            kept.update(_newest(line, ref, limits, now_ms))
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in led_to and snapshot.timestamp_ms >= limits.older_than_ms:
            kept.add(snapshot.snapshot_id)
    gone = [number for number in known if number not in kept or number in asked.snapshot_ids]
    return Expiry(tuple(gone), tuple(name for name in metadata.refs if name not in refs))


@dataclass(frozen=True)
class _Limits:
    older_than_ms: int
    min_snapshots: int
    max_ref_age_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str], asked: Retention, now_ms: int) -> _Limits:
        age = value_of(properties, MAX_SNAPSHOT_AGE, DEFAULT_MAX_SNAPSHOT_AGE)
        least = value_of(properties, MIN_SNAPSHOTS, DEFAULT_MIN_SNAPSHOTS)
        return cls(
            now_ms - age if asked.older_than_ms is None else asked.older_than_ms,
            least if asked.retain_last is None else asked.retain_last,
            value_of(properties, MAX_REF_AGE, FOREVER),
        )


def _is_ref_kept(name: str, ref: V3Ref, known: Mapping[int, V3Snapshot], limits: _Limits, now_ms: int) -> bool:
    if name == MAIN_BRANCH:
        return True
    snapshot = known.get(ref.snapshot_id)
    most = limits.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return snapshot is not None and now_ms - snapshot.timestamp_ms <= most


def _refuse_named(snapshot_ids: Collection[int], refs: Mapping[str, V3Ref]) -> None:
    for number in snapshot_ids:
        names = [name for name, ref in refs.items() if ref.snapshot_id == number]
        if names:
            raise ConfigError(f"Cannot expire {number}. Still referenced by refs: [{', '.join(names)}]")


def _newest(line: list[V3Snapshot], branch: V3Ref, limits: _Limits, now_ms: int) -> Iterator[int]:
    """The snapshots of a branch that stay; `line` begins with the newest."""
    own_age, own_least = branch.max_snapshot_age_ms, branch.min_snapshots_to_keep
    older_than = limits.older_than_ms if own_age is None else now_ms - own_age
    least = limits.min_snapshots if own_least is None else own_least
    for at, snapshot in enumerate(line):
        if at >= least and snapshot.timestamp_ms < older_than:
            return
        yield snapshot.snapshot_id


def _ancestors(snapshot_id: int | None, known: Mapping[int, V3Snapshot]) -> Iterator[V3Snapshot]:
    at = known.get(snapshot_id) if snapshot_id is not None else None
    while at is not None:
        yield at
        at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
