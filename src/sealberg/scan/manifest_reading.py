"""Reads manifests as columns and filters them: several at once where a plan searches many.

    what an earlier plan kept ──> filtered on the caller's thread
    the others ── in groups ──> threads ── search_together ──> columns of the filter: most manifests end here
                                           read_columns    ──> whole columns of those that may have a file, filtered

Groups are small at first, while the plan learns whether searching is worth it (`manifest_search`), and there are
always enough of them for many threads, which wait for an object store most of their time. Threads take turns at
filtering (`packing_turn`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_column_reader import kept_columns, read_columns
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.packing_turn import packing_turn
from sealberg.metadata.searched_groups import search_together
from sealberg.scan.manifest_search import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.searched_columns import FilterColumns
    from sealberg.metadata.searched_groups import Searched
    from sealberg.scan.manifest_filter import Keep, ManifestFilter
    from sealberg.scan.manifest_search import ManifestSearch

    Kept = tuple[ManifestColumns, Rows] | None
    Group = Sequence[ManifestFileV3]
    Read = Callable[[Group], list[Kept]]

MOST: Final = 16  # manifests of a group
MOST_BYTES: Final = 4 << 20  # of the manifests of a group, as they are stored
GROUPS: Final = 32  # at least: PyIceberg's executor has at most so many threads


def read_here(io: FileIO, manifests: Sequence[ManifestFile], keep: Keep) -> list[tuple[ManifestColumns, Rows]]:
    """Read manifests on threads of this process: their columns and the rows to keep, where there are any."""
    return [each for each in kept_rows(io, manifests, keep, _on_threads) if each is not None]


def _on_threads(read: Read, groups: Sequence[Group]) -> Iterable[list[Kept]]:
    return map(read, groups) if len(groups) < 2 else ExecutorFactory.get_or_create().map(read, groups)


def kept_rows(
    io: FileIO,
    manifests: Sequence[ManifestFile],
    keep: Keep,
    run: Callable[[Read, Sequence[Group]], Iterable[list[Kept]]] = map,
) -> list[Kept]:
    """For each manifest its columns and the rows to keep; None if none is kept.

    Args:
        run: applies a function to groups of manifests, and yields the results in order.
    """
    search = keep.search(len(manifests))
    found: dict[int, Kept] = {}
    others: dict[int, ManifestFileV3] = {}
    left: set[ManifestFileV3] = set()  # by columns that were kept
    with gc_paused():
        for number, manifest in enumerate(manifests):
            assert isinstance(manifest, ManifestFileV3), "the manifest list reader makes only ManifestFileV3"
            columns = kept_columns(manifest, io)
            if isinstance(columns, ManifestColumns):
                found[number] = _kept(columns, keep)
                continue
            if columns is not None and search.is_answered_by(columns):
                is_left = len(_matching(columns, keep.filter)) > 0
                search.note(left=is_left)
                if not is_left:
                    found[number] = None
                    continue
                left.add(manifest)
            others[number] = manifest

        def read(group: Group) -> list[Kept]:
            return _read(io, group, keep, search, left)

        read_now = chain.from_iterable(run(read, list(in_groups(list(others.values())))))
        found.update(zip(others, read_now, strict=True))
    return [found[number] for number in range(len(manifests))]


def in_groups(manifests: Group) -> Iterator[Group]:
    """The manifests in groups, in their order."""
    size = min(MOST, max(1, len(manifests) // GROUPS))
    group: list[ManifestFileV3] = []
    length = 0
    for number, manifest in enumerate(manifests):
        if group and (number <= SAMPLE or len(group) == size or length + manifest.manifest_length > MOST_BYTES):
            yield group
            group, length = [], 0
        group.append(manifest)
        length += manifest.manifest_length
    if group:
        yield group


def _read(io: FileIO, manifests: Group, keep: Keep, search: ManifestSearch, left: set[ManifestFileV3]) -> list[Kept]:
    asked = [
        number
        for number, manifest in enumerate(manifests)
        if search.begins(manifest.partition_spec_id) and manifest not in left
    ]
    excluded = {asked[at] for at in _excluded(io, [manifests[number] for number in asked], keep.filter, search)}
    made: list[Kept] = []
    for number, manifest in enumerate(manifests):
        if number in excluded:
            made.append(None)
            continue
        columns = read_columns(manifest, io)
        with packing_turn:
            made.append(_kept(columns, keep))
    return made


def _kept(columns: ManifestColumns, keep: Keep) -> Kept:
    rows = columns.live_rows()
    if len(rows):
        rows = keep(columns, rows)
    return (columns, rows) if len(rows) else None


def _excluded(io: FileIO, manifests: Group, by: ManifestFilter, search: ManifestSearch) -> Iterator[int]:
    """The numbers of the manifests of which the columns of the filter exclude all files."""
    for found in search_together(manifests, io, search.statistics):
        if isinstance(found.columns, ManifestColumns):
            continue  # they will be filtered as a whole
        with packing_turn:
            left = _left(found, by)
        for (number, _), is_left in zip(found.parts, left, strict=True):
            search.note(left=is_left)
            if not is_left:
                yield number


def _left(found: Searched, by: ManifestFilter) -> list[bool]:
    """For each manifest, whether the filter leaves one of its files."""
    try:
        rows = _matching(found.columns, by)
    except Exception:
        if len(found.parts) == 1:
            raise
        return [len(_matching(columns, by)) > 0 for _, columns in found.parts]  # its error is about one manifest
    ends = np.cumsum([len(columns) for _, columns in found.parts])
    left: list[bool] = (np.diff(np.searchsorted(rows, ends), prepend=0) > 0).tolist()
    return left


def _matching(columns: FilterColumns, by: ManifestFilter) -> Rows:
    rows = columns.live_rows()
    return by.matching(columns, rows) if len(rows) else rows
