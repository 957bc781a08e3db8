"""One manifest: what its line in the manifest list says, against the entries that it holds.

line: counts of files and rows by status, smallest sequence number, partition summaries, content
entries: status, sequence numbers, partition values, content
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.types import PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.metadata.manifest import ManifestFileV3

STATUSES = {
    ManifestEntryStatus.ADDED: "added",
    ManifestEntryStatus.EXISTING: "existing",
    ManifestEntryStatus.DELETED: "deleted",
}


def check_counts(line: ManifestFileV3, entries: Sequence[ManifestEntry]) -> Iterator[str]:
    """Numbers of files and rows that differ from the entries."""
    files: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for entry in entries:
        name = STATUSES[entry.status]
        files[name] += 1
        rows[name] += entry.data_file.record_count
    for name in STATUSES.values():
        for what, said, found in (
            ("files", getattr(line, f"{name}_files_count"), files[name]),
            ("rows", getattr(line, f"{name}_rows_count"), rows[name]),
        ):
            if said is not None and said != found:
                yield f"the manifest list claims {said} {name} {what}, the manifest has {found}"


def check_content(line: ManifestFileV3, entries: Sequence[ManifestEntry]) -> Iterator[str]:
    """Data files in a delete manifest, or the other way round."""
    data = line.content == ManifestContent.DATA
    wrong = sum((entry.data_file.content == DataFileContent.DATA) != data for entry in entries)
    if wrong:
        yield f"the manifest list says that the manifest holds {line.content.name.lower()}, {wrong} entries are others"


def check_sequence_numbers(
    line: ManifestFileV3, entries: Sequence[ManifestEntry], numbers: dict[int, int | None]
) -> Iterator[str]:
    """Sequence numbers of entries that contradict the line or the snapshots.

    Args:
        entries: with the numbers that they inherit.
        numbers: the sequence number of each snapshot of the table.
    """
    live = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    given = [entry.sequence_number for entry in live if entry.sequence_number is not None]
    if given and line.min_sequence_number != min(given):
        yield f"the manifest list claims {line.min_sequence_number} as smallest sequence number, found {min(given)}"
    added = numbers.get(line.added_snapshot_id or 0)
    if added is not None and line.sequence_number != added:
        yield f"the manifest has the sequence number {line.sequence_number}, its snapshot {added}"
    for entry in entries:
        yield from _check_entry(line, entry, numbers)


def _check_entry(line: ManifestFileV3, entry: ManifestEntry, numbers: dict[int, int | None]) -> Iterator[str]:
    name = str(entry.data_file.file_path).rpartition("/")[2]
    number, file_number = entry.sequence_number, entry.file_sequence_number
    if number is None or file_number is None:
        yield f"the entry of {name} has no sequence number"
        return
    if max(number, file_number) > (line.sequence_number or 0):
        found = f"{number} and {file_number}"
        yield f"the entry of {name} has the sequence numbers {found}, its manifest {line.sequence_number}"
    elif number > file_number:
        yield f"the entry of {name} has the data sequence number {number} above its file sequence number {file_number}"
    if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id != line.added_snapshot_id:
        yield f"the entry of {name} was added by snapshot {entry.snapshot_id}, its manifest by {line.added_snapshot_id}"
    elif entry.status != ManifestEntryStatus.DELETED:
        expected = numbers.get(entry.snapshot_id or 0)
        if expected is not None and file_number != expected:
            yield f"the entry of {name} has the file sequence number {file_number}, its snapshot {expected}"


def check_summaries(
    line: ManifestFileV3, entries: Sequence[ManifestEntry], spec: PartitionSpec, schema: Schema
) -> Iterator[str]:
    """Partition summaries that rule out partition values of entries; a scan would skip these files.

    Args:
        schema: with the columns of the spec that were dropped.
    """
    if not entries:
        return
    if line.partitions is None:
        if spec.fields:
            yield "the manifest list has no partition summaries, which every writer makes"
        return
    if len(line.partitions) != len(spec.fields):
        yield f"the manifest list has {len(line.partitions)} partition summaries, expected {len(spec.fields)}"
        return
    kinds = [field.field_type for field in spec.partition_type(schema).fields]
    for at, (summary, kind) in enumerate(zip(line.partitions, kinds, strict=True)):
        values = [entry.data_file.partition[at] for entry in entries if at < len(entry.data_file.partition)]
        present = [value for value in values if value is not None and value == value]  # noqa: PLR0124 (NaN)
        name = spec.fields[at].name
        if len(present) < len(values) and not summary.contains_null and any(value is None for value in values):
            yield f"the manifest list claims that no partition {name} is null"
        nans = any(value != value for value in values if value is not None)  # noqa: PLR0124 (NaN)
        if summary.contains_nan is not None and summary.contains_nan != nans:
            yield f"the manifest list claims that {'a' if summary.contains_nan else 'no'} partition {name} is NaN"
        if not isinstance(kind, PrimitiveType):
            continue
        try:
            lower = None if summary.lower_bound is None else from_bytes(kind, summary.lower_bound)
            upper = None if summary.upper_bound is None else from_bytes(kind, summary.upper_bound)
            wrong = _outside(present, lower, upper)
        except (TypeError, ValueError):
            continue  # a type without an order
        if wrong:
            yield f"the bounds of partition {name} in the manifest list leave out values of the manifest"


def _outside(values: list[Any], lower: Any, upper: Any) -> bool:
    if values and (lower is None or upper is None):
        return True
    return any(value < lower or value > upper for value in map(_same_type(lower), values))


def _same_type(bound: Any) -> Any:
    """Partition values of UUIDs are bytes in entries; PyIceberg's bounds are UUIDs."""
    from uuid import UUID

    return (
        (lambda value: UUID(bytes=value) if isinstance(value, bytes) else value)
        if isinstance(bound, UUID)
        else (lambda value: value)
    )
