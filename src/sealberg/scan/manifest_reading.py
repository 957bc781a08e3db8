"""Reads manifests as columns and filters them: several at once where a plan searches many.

    what an earlier plan kept ──> filtered on the caller's thread
    the others ── in groups ──> threads ── search_together ──> columns of the filter: most manifests end here
                                           read_together   ──> whole columns of those that may have a file, filtered

Manifests that are short together are fetched first, each by a thread, and then decoded in groups that are as large as
they may be. Groups of longer ones are small at first, while the plan learns whether searching is worth it
(`manifest_search`), and there are enough of them for many threads, which fetch them too and wait for an object store
most of their time. Threads take turns at filtering (`packing_turn`). `for_each` needs the columns of each manifest
once, and holds few of them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.manifest import ManifestFileV3
from sealberg.metadata.manifest_column_reader import kept_columns
from sealberg.metadata.manifest_columns import ManifestColumns
from sealberg.metadata.manifest_decoder import decoding, fetch
from sealberg.metadata.manifest_groups import read_together, search_together
from sealberg.metadata.packing_turn import packing_turn
from sealberg.scan.manifest_search import MANY, SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

    from sealberg.metadata.manifest_groups import Searched
    from sealberg.metadata.packed_column import Rows
    from sealberg.metadata.searched_columns import FilterColumns
    from sealberg.scan.manifest_filter import Keep, ManifestFilter
    from sealberg.scan.manifest_search import ManifestSearch

    Kept = tuple[ManifestColumns, Rows] | None
    Group = Sequence[ManifestFileV3]
    Run = Callable[[Callable[[Group], Any], Sequence[Group]], Iterable[Any]]

T = TypeVar("T")

MOST: Final = 16  # manifests of a group
MOST_BYTES: Final = 4 << 20  # of the manifests of a group, as they are stored
GROUPS: Final = 32  # of many manifests, at least: PyIceberg's executor has at most so many threads
FEW: Final = MANY  # manifests, which no plan searches
AHEAD: Final = 16 << 20  # bytes of manifests that are fetched before they are decoded
READERS: Final = 2  # threads of `for_each`: each decodes a group, with some kilobytes for a file
READ_FILES: Final = 10_000  # files of a group of `for_each`, unless one manifest has more
CORES: Final = os.cpu_count() or 1


def read_here(io: FileIO, manifests: Sequence[ManifestFile], keep: Keep) -> list[tuple[ManifestColumns, Rows]]:
    """Read manifests on threads of this process: their columns and the rows to keep, where there are any."""
    return [each for each in kept_rows(io, manifests, keep, _on_threads) if each is not None]


def for_each(io: FileIO, manifests: Group, act: Callable[[ManifestColumns], T]) -> list[T]:
    """What `act` makes of the columns of each manifest."""
    found: dict[int, T] = {}
    others: dict[int, ManifestFileV3] = {}
    for number, manifest in enumerate(manifests):
        columns = kept_columns(manifest, io)
        if isinstance(columns, ManifestColumns):
            found[number] = act(columns)
        else:
            others[number] = manifest

    def read(group: Group) -> list[T]:
        missing = [each for each in group if kept_columns(each, io) is None]
        made = []
        for columns in read_together(group, io, _fetched(io, missing, _on_threads)):
            with packing_turn:
                made.append(act(columns))
        return made

    with ThreadPoolExecutor(READERS) as pool:
        found.update(zip(others, chain.from_iterable(pool.map(read, _by_files(list(others.values())))), strict=True))
    return [found[number] for number in range(len(manifests))]


def _by_files(manifests: Group) -> Iterator[Group]:
    """The manifests in groups with about as many files each, in their order."""
    group: list[ManifestFileV3] = []
    files = 0
    for manifest in manifests:
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        named = sum(count or 0 for count in counts)
        if group and (len(group) == MOST or files + named > READ_FILES):
            yield group
            group, files = [], 0
        group.append(manifest)
        files += named
    if group:
        yield group


def _on_threads(read: Callable[[Group], Any], groups: Sequence[Group]) -> Iterable[Any]:
    return map(read, groups) if len(groups) < 2 else ExecutorFactory.get_or_create().map(read, groups)


def kept_rows(io: FileIO, manifests: Sequence[ManifestFile], keep: Keep, run: Run = map) -> list[Kept]:
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
        fetched = _fetched(io, [each for each in others.values() if each not in left], run)

        def read(group: Group) -> list[Kept]:
            return _read(io, group, keep, search, left, fetched)

        groups = list(in_groups(list(others.values()), ahead=bool(fetched)))
        read_now = chain.from_iterable(run(read, groups))
        found.update(zip(others, read_now, strict=True))
    return [found[number] for number in range(len(manifests))]


def _fetched(io: FileIO, manifests: Group, run: Run) -> dict[ManifestFileV3, bytes]:
    """Manifests that are short together: their groups would fetch them one after another."""
    if sum(each.manifest_length for each in manifests) > AHEAD:
        return {}

    def fetched(group: Group) -> bytes:
        with decoding(group[0].manifest_path):
            return fetch(io, group[0].manifest_path)

    return dict(zip(manifests, run(fetched, [[each] for each in manifests]), strict=True))


def in_groups(manifests: Group, *, ahead: bool) -> Iterator[Group]:
    """The manifests in groups, in their order; `ahead` says that they have been fetched."""
    count = len(manifests)
    alone, size = (0, -(-count // CORES)) if ahead or count < FEW else (SAMPLE, count // GROUPS)
    size = min(MOST, max(1, size))
    group: list[ManifestFileV3] = []
    length = 0
    for number, manifest in enumerate(manifests):
        if group and (number <= alone or len(group) == size or length + manifest.manifest_length > MOST_BYTES):
            yield group
            group, length = [], 0
        group.append(manifest)
        length += manifest.manifest_length
    if group:
        yield group


def _read(
    io: FileIO,
    manifests: Group,
    keep: Keep,
    search: ManifestSearch,
    left: set[ManifestFileV3],
    fetched: Mapping[ManifestFileV3, bytes],
) -> list[Kept]:
    asked = [
        number
        for number, manifest in enumerate(manifests)
        if search.begins(manifest.partition_spec_id) and manifest not in left
    ]
    searched = search_together([manifests[number] for number in asked], io, search.statistics, fetched)
    excluded = {asked[at] for at in _excluded(searched, keep.filter, search)}
    whole = [number for number in range(len(manifests)) if number not in excluded]
    made: list[Kept] = [None] * len(manifests)
    found = read_together([manifests[number] for number in whole], io, fetched)
    for number, columns in zip(whole, found, strict=True):
        with packing_turn:
            made[number] = _kept(columns, keep)
    return made


def _kept(columns: ManifestColumns, keep: Keep) -> Kept:
    rows = columns.live_rows()
    if len(rows):
        rows = keep(columns, rows)
    return (columns, rows) if len(rows) else None


def _excluded(searched: Iterable[Searched], by: ManifestFilter, search: ManifestSearch) -> Iterator[int]:
    """The numbers of the manifests of which the columns of the filter exclude all files."""
    for found in searched:
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
