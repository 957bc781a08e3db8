"""Reads manifests as columns and filters them: several at once where a plan searches many.

    manifests ── in groups ──> threads ── search_together ──> columns of the filter: most manifests end here
                                          read_columns    ──> whole columns of those that may have a file, filtered

Groups are small at first, while the plan learns whether searching is worth it (`manifest_search`), and there are
always enough of them for many threads, which wait for an object store most of their time.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_column_reader import read_columns
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.searched_groups import search_together
from sealberg.scan.manifest_search import SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.searched_columns import FilterColumns
    from sealberg.metadata.searched_groups import Searched
    from sealberg.scan.manifest_filter import Keep, ManifestFilter
    from sealberg.scan.manifest_search import ManifestSearch

MOST: Final = 16  # manifests of a group
GROUPS: Final = 32  # at least: PyIceberg's executor has at most so many threads


def read_here(io: FileIO, manifests: Sequence[ManifestFile], keep: Keep) -> list[tuple[ManifestColumns, Rows]]:
    """Read manifests on threads of this process: their columns and the rows to keep, where there are any."""

    search = keep.search(len(manifests))

    def read(group: Sequence[ManifestFile]) -> list[tuple[ManifestColumns, Rows] | None]:
        return kept_rows(io, group, keep, search)

    with gc_paused():
        groups = list(in_groups(manifests))
        found = map(read, groups) if len(groups) == 1 else ExecutorFactory.get_or_create().map(read, groups)
        return [each for each in chain.from_iterable(found) if each is not None]


def in_groups(manifests: Sequence[ManifestFile]) -> Iterator[Sequence[ManifestFile]]:
    """The manifests in groups, in their order."""
    size = min(MOST, max(1, len(manifests) // GROUPS))
    for manifest in manifests[:SAMPLE]:
        yield [manifest]
    for start in range(SAMPLE, len(manifests), size):
        yield manifests[start : start + size]


def kept_rows(
    io: FileIO, manifests: Sequence[ManifestFile], keep: Keep, search: ManifestSearch
) -> list[tuple[ManifestColumns, Rows] | None]:
    """For each manifest its columns and the rows to keep; None if none is kept."""
    chosen = [_ours(manifest) for manifest in manifests]
    excluded = _excluded(io, chosen, keep.filter, search)
    return [None if number in excluded else _kept(io, each, keep) for number, each in enumerate(chosen)]


def _ours(manifest: ManifestFile) -> ManifestFileV3:
    assert isinstance(manifest, ManifestFileV3), "the manifest list reader makes only ManifestFileV3"
    return manifest


def _kept(io: FileIO, manifest: ManifestFileV3, keep: Keep) -> tuple[ManifestColumns, Rows] | None:
    columns = read_columns(manifest, io)
    rows = columns.live_rows()
    if len(rows):
        rows = keep(columns, rows)
    return (columns, rows) if len(rows) else None


def _excluded(io: FileIO, manifests: Sequence[ManifestFileV3], by: ManifestFilter, search: ManifestSearch) -> set[int]:
    """The numbers of the manifests of which the columns of the filter exclude all files."""
    numbers = [number for number, each in enumerate(manifests) if search.begins(each.partition_spec_id)]
    excluded = set()
    for found in search_together([manifests[number] for number in numbers], io, search.statistics):
        if isinstance(found.columns, ManifestColumns):
            continue  # they are kept, and will be filtered
        for (at, _), left in zip(found.parts, _left(found, by), strict=True):
            search.note(left=left)
            if not left:
                excluded.add(numbers[at])
    return excluded


def _left(found: Searched, by: ManifestFilter) -> list[bool]:
    """For each manifest, whether the filter leaves one of its files."""
    try:
        rows = _matching(found.columns, by)
    except Exception:
        if len(found.parts) == 1:
            raise
        return [len(_matching(columns, by)) > 0 for _, columns in found.parts]  # its error is about one manifest
    ends = np.cumsum([len(columns) for _, columns in found.parts])
    places = np.searchsorted(rows, ends)
    left: list[bool] = (np.diff(places, prepend=0) > 0).tolist()
    return left


def _matching(columns: FilterColumns, by: ManifestFilter) -> Rows:
    rows = columns.live_rows()
    return by.matching(columns, rows) if len(rows) else rows
