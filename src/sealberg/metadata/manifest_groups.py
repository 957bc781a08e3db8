"""Several manifests decoded at once: whole, or only the columns that a filter needs.

    16 manifests of a thousand files ── fetched, decrypted, decompressed one by one
      one schema, one partition spec ──> their blocks one after another ── one call of polars ──> packed together
        read_together                ──> ManifestColumns of each
        search_together              ──> SearchedGroup, to be filtered at once; SearchedColumns of each, for the cache
    another schema or spec           ──> a group of its own

The work of Python is done once for a group. Rows are told apart by the counts of the blocks, which the decoder holds
to. If anything of a group fails, its manifests are decoded one by one, and the error names the manifest that has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sealberg.metadata.manifest_column_reader import (
    KEPT,
    StatisticsParts,
    partition_of,
    searched_alone,
    searched_fields,
    whole_alone,
    whole_together,
)
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.manifest_decoder import KNOWN, decoding, fetch, open_fetched
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

    Fetched = Mapping[ManifestFileV3, bytes]  # decrypted manifests that are there already

MOST_WAITING: Final = 8 << 20  # bytes of decompressed entries
NONE_FETCHED: Final[Fetched] = MappingProxyType({})


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


# -- whole manifests ------------------------------------------------------------------------------


def read_together(
    manifests: Sequence[ManifestFileV3], io: FileIO, fetched: Fetched = NONE_FETCHED
) -> list[ManifestColumns]:
    """The columns of each manifest: as `read_columns`, with the same answer."""
    found: dict[int, ManifestColumns] = {}
    waiting = _Waiting(io, fetched)
    for number, manifest in enumerate(manifests):
        may_keep = manifest.is_kept(io)
        kept = KEPT.find(manifest.cache_key) if may_keep else None
        if isinstance(kept, ManifestColumns):
            found[number] = kept
        else:
            for group in waiting.add(number, manifest, kept, frozenset(), may_keep=may_keep):
                found |= _whole(group, io)
    for group in waiting.rest():
        found |= _whole(group, io)
    return [found[number] for number in range(len(manifests))]


def _whole(group: _Group, io: FileIO) -> dict[int, ManifestColumns]:
    made = _whole_together(group)
    if made is None:
        made = []
        for member in group.members:
            with decoding(member.manifest.manifest_path):
                made.append(whole_alone(member.manifest, io, member.raw))
    for member, columns in zip(group.members, made, strict=True):
        _keep(member, columns)
    return {member.number: columns for member, columns in zip(group.members, made, strict=True)}


def _whole_together(group: _Group) -> list[ManifestColumns] | None:
    """None if it fails for whatever reason: a manifest that is the reason fails alone as well, and is named then."""
    if len(group.members) == 1 or group.layout is None:
        return None
    try:
        found = group.layout.decode(group.blocks, KNOWN, partition=True)
        with packing_turn:
            return whole_together([member.manifest for member in group.members], found, group.ends)
    except Exception:  # noqa: BLE001
        return None


# -- the columns of a filter ------------------------------------------------------------------------


def search_together(
    manifests: Sequence[ManifestFileV3], io: FileIO, statistics: Collection[str], fetched: Fetched = NONE_FETCHED
) -> Iterator[Searched]:
    """The columns that are kept, where these maps of statistics are among them; else these maps, and a few more."""
    waiting = _Waiting(io, fetched)
    for number, manifest in enumerate(manifests):
        may_keep, wanted = manifest.is_kept(io), frozenset(statistics)
        kept = KEPT.find(manifest.cache_key) if may_keep else None
        if isinstance(kept, ManifestColumns) or (kept is not None and kept.known.keys() >= wanted):
            yield Searched(kept, [(number, kept)])
            continue
        if kept is not None:
            wanted = wanted.union(kept.known)
        for group in waiting.add(number, manifest, kept, wanted, may_keep=may_keep):
            yield from _searched(group, io)
    for group in waiting.rest():
        yield from _searched(group, io)


def _searched(group: _Group, io: FileIO) -> Iterator[Searched]:
    found = _searched_together(group)
    if found is not None:
        for member, (_, columns) in zip(group.members, found.parts, strict=True):
            _keep(member, columns)
        yield found
        return
    for member in group.members:
        with decoding(member.manifest.manifest_path):
            made = searched_alone(member.manifest, io, member.raw, group.wanted)
        _keep(member, made)
        yield Searched(made, [(member.number, made)])


def _searched_together(group: _Group) -> Searched | None:
    """None if it fails, as `_whole_together`."""
    if len(group.members) == 1 or group.layout is None:
        return None
    try:
        found = group.layout.decode(group.blocks, searched_fields(group.wanted), partition=True)
        with packing_turn:
            return _packed(group, found)
    except Exception:  # noqa: BLE001
        return None


def _packed(group: _Group, found: DecodedColumns) -> Searched:
    first, statistics = group.members[0].manifest, StatisticsParts(found, group.wanted)
    whole = SearchedGroup(
        f"{first.manifest_path!s} and {len(group.members) - 1} more",
        first.partition_spec_id,
        PackedNumbers.of(found.statuses()),
        PackedNumbers.of(found.numbers(RECORD_COUNT)),
        partition_of(found),
        statistics.whole,
    )
    parts = [
        (
            member.number,
            SearchedColumns(
                str(member.manifest.manifest_path),
                whole.spec_id,
                member.raw,
                whole.status.part(start, stop),
                whole.record_count.part(start, stop),
                partition_of(found, start, stop),
                statistics.of(start, stop),
            ),
        )
        for member, (start, stop) in zip(group.members, pairwise(group.ends), strict=True)
    ]
    return Searched(whole, parts)


# -- groups -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Member:
    number: int
    manifest: ManifestFileV3
    raw: bytes
    opened: OpenedManifest
    may_keep: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Group:
    """Manifests to be decoded together.

    Args:
        wanted: names of maps of statistics; none if the manifests are wanted as a whole.
    """

    layout: Layout | None
    wanted: frozenset[str]
    members: Sequence[_Member]

    @property
    def blocks(self) -> list[tuple[int, bytes]]:
        return [block for member in self.members for block in member.opened.blocks]

    @property
    def ends(self) -> list[int]:
        """Where the rows of each manifest end, after a zero."""
        return list(accumulate((member.opened.rows for member in self.members), initial=0))


class _Waiting:
    """Manifests that wait for others like them."""

    def __init__(self, io: FileIO, fetched: Fetched) -> None:
        self._io = io
        self._fetched = fetched
        self._members: dict[tuple[Layout, int, frozenset[str]], list[_Member]] = {}
        self._plain_bytes = 0
        self._before: OpenedManifest | None = None

    def add(
        self,
        number: int,
        manifest: ManifestFileV3,
        kept: SearchedColumns | None,
        wanted: frozenset[str],
        *,
        may_keep: bool,
    ) -> Iterator[_Group]:
        """The groups that wait no longer."""
        with decoding(manifest.manifest_path):
            raw = self._fetched.get(manifest) if kept is None else kept.manifest
            if raw is None:
                raw = fetch(self._io, manifest.manifest_path)
            opened = open_fetched(raw, self._before)
        self._before = replace(opened, blocks=[])
        member = _Member(number, manifest, raw, opened, may_keep)
        if opened.layout is None:
            yield _Group(None, wanted, [member])
            return
        self._members.setdefault((opened.layout, manifest.partition_spec_id, wanted), []).append(member)
        self._plain_bytes += opened.plain_bytes
        if self._plain_bytes >= MOST_WAITING:
            yield from self.rest()

    def rest(self) -> Iterator[_Group]:
        """All groups that wait."""
        found, self._members, self._plain_bytes = self._members, {}, 0
        for (layout, _, wanted), members in found.items():
            yield _Group(layout, wanted, members)


def _keep(member: _Member, made: ManifestColumns | SearchedColumns) -> None:
    if member.may_keep:
        KEPT.put(member.manifest.cache_key, made)
