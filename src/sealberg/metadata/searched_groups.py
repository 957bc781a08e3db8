"""Searches several manifests at once: the columns of a filter, decoded together, packed together and filtered together.

    16 manifests of a thousand files ── fetched, decrypted, decompressed one by one
      one schema, one partition spec ──> their blocks one after another ── one call of polars ──> SearchedGroup
        its parts                    ──> SearchedColumns of each, for the cache
    another schema or spec           ──> a group of its own

The work of Python is done once for a group. Rows are told apart by the counts of the blocks, which the decoder holds
to. If anything of a group fails, its manifests are searched one by one, and the error names the manifest that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from sealberg.metadata.manifest_column_reader import (
    KEPT,
    partition_of,
    searched_alone,
    searched_fields,
    statistics_of,
)
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.manifest_decoder import decoding, fetch, open_fetched
from sealberg.metadata.manifest_fields import RECORD_COUNT
from sealberg.metadata.packed_column import PackedNumbers
from sealberg.metadata.packing_turn import packing_turn
from sealberg.metadata.searched_columns import FilterColumns, SearchedColumns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO

    from sealberg.metadata.manifest import ManifestFileV3
    from sealberg.metadata.manifest_decoder import Layout, OpenedManifest
    from sealberg.metadata.manifest_fields import DecodedColumns
    from sealberg.metadata.packed_groups import PackedPartition, PackedStatistics

MOST_WAITING: Final = 8 << 20  # bytes of decompressed entries


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SearchedGroup(FilterColumns):
    """The searched columns of several manifests, their entries one after another."""

    location: str
    spec_id: int
    status: PackedNumbers
    record_count: PackedNumbers
    partition: Mapping[int, PackedPartition]
    known: Mapping[str, PackedStatistics]

    def statistics(self, name: str) -> PackedStatistics | None:
        return self.known.get(name)


@dataclass(frozen=True, slots=True)
class Searched:
    """Columns for filters, of one manifest or of several.

    Args:
        columns: what to filter; the entries of each manifest follow those of the one before.
        parts: the columns of each manifest, by its number among those that were asked for.
    """

    columns: FilterColumns
    parts: Sequence[tuple[int, ManifestColumns | SearchedColumns]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Fetched:
    number: int
    manifest: ManifestFileV3
    raw: bytes
    opened: OpenedManifest
    kept: bool


def search_together(manifests: Sequence[ManifestFileV3], io: FileIO, statistics: Collection[str]) -> Iterator[Searched]:
    """The columns that are kept, where these maps of statistics are among them; else these maps, and a few more."""
    waiting = _Waiting(io, frozenset(statistics))
    for number, manifest in enumerate(manifests):
        yield from waiting.add(number, manifest)
    yield from waiting.rest()


class _Waiting:
    """Manifests that wait for others like them, to be decoded together."""

    def __init__(self, io: FileIO, statistics: frozenset[str]) -> None:
        self._io = io
        self._statistics = statistics
        self._groups: dict[tuple[Layout, int, frozenset[str]], list[_Fetched]] = {}
        self._plain_bytes = 0
        self._before: OpenedManifest | None = None

    def add(self, number: int, manifest: ManifestFileV3) -> Iterator[Searched]:
        kept, wanted = manifest.is_kept(self._io), self._statistics
        found = KEPT.find(manifest.cache_key) if kept else None
        if isinstance(found, ManifestColumns) or (found is not None and found.known.keys() >= wanted):
            yield Searched(found, [(number, found)])
            return
        if found is not None:
            wanted = wanted.union(found.known)
        with decoding(manifest.manifest_path):
            raw = fetch(self._io, manifest.manifest_path) if found is None else found.manifest
            opened = open_fetched(raw, self._before)
        self._before = replace(opened, blocks=[])
        member = _Fetched(number, manifest, raw, opened, kept)
        if opened.layout is None:
            yield _alone(member, self._io, wanted)
            return
        key = opened.layout, manifest.partition_spec_id, wanted
        self._groups.setdefault(key, []).append(member)
        self._plain_bytes += opened.plain_bytes
        if self._plain_bytes >= MOST_WAITING:
            yield from self.rest()

    def rest(self) -> Iterator[Searched]:
        """What is waiting."""
        groups, self._groups, self._plain_bytes = self._groups, {}, 0
        for (_, _, wanted), group in groups.items():
            yield from _decoded(group, self._io, wanted)


def _decoded(members: Sequence[_Fetched], io: FileIO, wanted: frozenset[str]) -> Iterator[Searched]:
    found = _together(members, wanted) if len(members) > 1 else None
    if found is None:
        yield from (_alone(each, io, wanted) for each in members)
    else:
        yield found


def _alone(member: _Fetched, io: FileIO, wanted: frozenset[str]) -> Searched:
    with decoding(member.manifest.manifest_path):
        made = searched_alone(member.manifest, io, member.raw, wanted)
    _keep(member, made)
    return Searched(made, [(member.number, made)])


def _together(members: Sequence[_Fetched], wanted: frozenset[str]) -> Searched | None:
    """None if it fails for whatever reason: a manifest that is the reason fails alone as well, and is named then."""
    layout = members[0].opened.layout
    assert layout is not None
    blocks = [block for member in members for block in member.opened.blocks]
    try:
        found = layout.decode(blocks, searched_fields(wanted), partition=True)
        with packing_turn:
            return _packed(members, found, wanted)
    except Exception:  # noqa: BLE001
        return None


def _packed(members: Sequence[_Fetched], found: DecodedColumns, wanted: frozenset[str]) -> Searched:
    first = members[0].manifest
    group = SearchedGroup(
        f"{first.manifest_path!s} and {len(members) - 1} more",
        first.partition_spec_id,
        PackedNumbers.of(found.statuses()),
        PackedNumbers.of(found.numbers(RECORD_COUNT)),
        partition_of(found),
        {name: statistics_of(found, name) for name in wanted},
    )
    ends = accumulate((member.opened.rows for member in members), initial=0)
    parts = []
    for member, (start, stop) in zip(members, pairwise(ends), strict=True):
        part = _part(member, group, found, start, stop)
        _keep(member, part)
        parts.append((member.number, part))
    return Searched(group, parts)


def _part(member: _Fetched, group: SearchedGroup, found: DecodedColumns, start: int, stop: int) -> SearchedColumns:
    return SearchedColumns(
        str(member.manifest.manifest_path),
        group.spec_id,
        member.raw,
        group.status.part(start, stop),
        group.record_count.part(start, stop),
        partition_of(found, start, stop),
        {name: each.part(start, stop) for name, each in group.known.items()},
    )


def _keep(member: _Fetched, made: ManifestColumns | SearchedColumns) -> None:
    if member.kept:
        KEPT.put(member.manifest.cache_key, made)
