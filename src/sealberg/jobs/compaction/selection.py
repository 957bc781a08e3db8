"""Which files are rewritten, and which of them together: the choice of Java's rewrite_data_files.

    files of a snapshot ──by partition──> candidates: too small, too large, too many deletes
                        ──bins of max-file-group-size-bytes──> groups that are worth it ──> FileGroup

A group has files of one partition. Its files are rewritten together, and committed together or not at all. Files of
an older partition spec may hold rows of any partition, so they form groups of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealberg.scan.delete_index import only_path
from sealberg.write.snapshot_summary import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sealberg.jobs.compaction.options import CompactOptions, Sizes
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.scan.planner import EncryptedFileScanTask


@dataclass(frozen=True)
class InputFile:
    """A data file, the delete files that apply to it, and its data sequence number. Nobody changes them: they are
    shared with other plans."""

    file: DataFileV3
    deletes: tuple[DataFileV3, ...]
    sequence_number: int

    @property
    def path(self) -> str:
        return str(self.file.file_path)

    @property
    def size(self) -> int:
        return int(self.file.file_size_in_bytes)

    @property
    def vectors(self) -> tuple[DataFileV3, ...]:
        return tuple(file for file in self.deletes if file.is_deletion_vector)

    @classmethod
    def of(cls, task: EncryptedFileScanTask) -> InputFile:
        file, deletes = task.shared
        ordered = sorted(deletes, key=lambda delete: str(delete.file_path))
        return cls(file, tuple(ordered), task.sequence_number or 0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FileGroup:
    """Files that are rewritten together.

    Attributes:
        number: from 0, in the order of the work.
        partitioned: all rows belong to the partition of the first file; False for files of an older spec.
        snapshot_id, sequence_number: of the snapshot that the group was read from.
    """

    number: int
    files: tuple[InputFile, ...] = field(repr=False)
    partitioned: bool
    snapshot_id: int
    sequence_number: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def choose(
    tasks: Iterable[EncryptedFileScanTask],
    options: CompactOptions,
    sizes: Sizes,
    *,
    spec_id: int,
    snapshot_id: int,
    sequence_number: int,
) -> tuple[FileGroup, ...]:
    """The groups to rewrite, in the order that the options ask for."""
    made = [
        (tuple(packed), current)
        for current, files in _by_partition(tasks, spec_id)
        for packed in _packed([file for file in files if _is_candidate(file, options, sizes)], options)
        if options.rewrite_all or _is_worth_it(packed, options, sizes)
    ]
    return tuple(
        FileGroup(number, files, current, snapshot_id, sequence_number)
        for number, (files, current) in enumerate(_limited(_ordered(made, options.rewrite_job_order), options))
    )


def choose_again(
    groups: Sequence[FileGroup],
    tasks: Iterable[EncryptedFileScanTask],
    options: CompactOptions,
    sizes: Sizes,
    *,
    snapshot_id: int,
    sequence_number: int,
) -> tuple[FileGroup, ...]:
    """The same groups as they are in a newer snapshot: without the files that are gone, and with newer deletes."""
    live = {str(task.shared[0].file_path): task for task in tasks}
    made = []
    for group in groups:
        files = tuple(InputFile.of(live[file.path]) for file in group.files if file.path in live)
        if files and (options.rewrite_all or _is_worth_it(files, options, sizes)):
            made.append(FileGroup(group.number, files, group.partitioned, snapshot_id, sequence_number))
    return tuple(made)


def _by_partition(tasks: Iterable[EncryptedFileScanTask], spec_id: int) -> Iterator[tuple[bool, list[InputFile]]]:
    """The files of each partition of the current spec, and all files of older specs together."""
    found: dict[tuple[int, str] | None, list[InputFile]] = {}
    for task in tasks:
        file = InputFile.of(task)
        found.setdefault(partition_of(file.file) if file.file.spec_id == spec_id else None, []).append(file)
    for key, files in found.items():
        yield key is not None, files


def _is_candidate(file: InputFile, options: CompactOptions, sizes: Sizes) -> bool:
    return options.rewrite_all or not sizes.least <= file.size <= sizes.most or has_too_many_deletes(file, options)


def has_too_many_deletes(file: InputFile, options: CompactOptions) -> bool:
    """Only deletes of this file alone are counted: other delete files do not say how many rows they delete here."""
    if len(file.deletes) >= options.delete_file_threshold:
        return True
    known = sum(delete.record_count for delete in file.deletes if _is_of_one_file(delete))
    rows = file.file.record_count
    return bool(file.deletes) and min(known, rows) >= options.delete_ratio_threshold * rows


def _is_of_one_file(delete: DataFileV3) -> bool:
    return delete.content.name == "POSITION_DELETES" and only_path(delete) is not None


def _packed(files: Sequence[InputFile], options: CompactOptions) -> Iterator[list[InputFile]]:
    """Bins in the order of the files: a bin is closed when the next file does not fit."""
    packed: list[InputFile] = []
    size = 0
    for file in files:
        full = size + file.size > options.max_file_group_size_bytes
        if packed and (full or len(packed) >= options.max_file_group_input_files):
            yield packed
            packed, size = [], 0
        packed.append(file)
        size += file.size
    if packed:
        yield packed


def _is_worth_it(files: Sequence[InputFile], options: CompactOptions, sizes: Sizes) -> bool:
    size = sum(file.size for file in files)
    several = len(files) > 1
    return (
        (several and (len(files) >= options.min_input_files or size > sizes.target))
        or size > sizes.most
        or any(has_too_many_deletes(file, options) for file in files)
    )


def _ordered(groups: list[tuple[tuple[InputFile, ...], bool]], order: str) -> list[tuple[tuple[InputFile, ...], bool]]:
    by, _, direction = order.partition("-")
    if by == "bytes":
        return sorted(groups, key=lambda group: sum(f.size for f in group[0]), reverse=direction == "desc")
    if by == "files":
        return sorted(groups, key=lambda group: len(group[0]), reverse=direction == "desc")
    return groups


def _limited(
    groups: Iterable[tuple[tuple[InputFile, ...], bool]], options: CompactOptions
) -> Iterator[tuple[tuple[InputFile, ...], bool]]:
    """At most max-files-to-rewrite files; the last group may lose some of its files."""
    left = options.max_files_to_rewrite
    for files, current in groups:
        if left is None:
            yield files, current
        elif left > 0:
            yield files[:left], current
            left -= len(files)
