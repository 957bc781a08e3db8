"""The summary of a snapshot: counts of added and removed files and rows, and totals, with Java's fields."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Summary

from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import PARTITION_LIMIT
from sealberg.properties.table_names import value_of
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.snapshot_builder import FileChanges

PARTITION: Final = "partitions."  # and the partition, with its values
INCLUDED: Final = "partition-summaries-included"
REPLACE_PARTITIONS: Final = "replace-partitions"  # "true" in the summary of a dynamic overwrite

# total: (the count added to it, the count subtracted from it)
TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def summarise(
    changes: FileChanges, metadata: V3TableMetadata, previous: Summary | None, more: Mapping[str, str]
) -> Summary:
    counted: Counter[str] = Counter()
    count_files(counted, changes.added, "added")
    count_files(counted, changes.added_deletes, "added")
    count_files(counted, changes.removed, "removed")
    count_files(counted, changes.removed_deletes, "removed")
    files = (*changes.added, *changes.added_deletes, *changes.removed, *changes.removed_deletes)
    counted["changed-partition-count"] = len({partition_of(file) for file in files})
    parts = {name: str(number) for name, number in counted.items() if number}
    before = previous.additional_properties if previous is not None else dict.fromkeys(TOTALS, "0")
    totals = {
        total: str(int(before[total]) + counted[added] - counted[removed])
        for total, (added, removed) in TOTALS.items()
        # Without the total in the previous summary, the new total is unknown too.
        if before.get(total, "").isdigit()
    }
    return Summary(changes.kind, **{**parts, **_by_partition(changes, metadata), **totals, **more})


def _by_partition(changes: FileChanges, metadata: V3TableMetadata) -> dict[str, str]:
    """Counts per partition, if write.summary.partition-limit asks for them, as in Java.

    They show partition values, and metadata.json is not encrypted: an encrypted table has none, whoever set the limit.
    """
    if KEY_ID_PROPERTY in metadata.properties:
        return {}
    limit = value_of(metadata.properties, PARTITION_LIMIT, 0)
    if limit <= 0:
        return {}
    counted: dict[str, Counter[str]] = {}
    for verb, files in (
        ("added", (*changes.added, *changes.added_deletes)),
        ("removed", (*changes.removed, *changes.removed_deletes)),
    ):
        for file in files:
            path = metadata.specs()[file.spec_id].partition_to_path(file.partition, metadata.schema())
            count_files(counted.setdefault(path, Counter()), (file,), verb)
    if not 0 < len(counted) <= limit:
        return {}
    summaries = {
        f"{PARTITION}{path}": ",".join(f"{name}={number}" for name, number in counts.items() if number)
        for path, counts in counted.items()
    }
    return {INCLUDED: "true", **summaries}


def without_partitions(summary: Summary | None) -> Summary | None:
    """A summary for an encrypted table, whose metadata.json shows no partition values."""
    if summary is None or not partition_values(summary.additional_properties):
        return summary
    hidden = {*partition_values(summary.additional_properties), INCLUDED}
    kept = {name: value for name, value in summary.additional_properties.items() if name not in hidden}
    return Summary(summary.operation, **kept)


def partition_values(summary: Mapping[str, str]) -> list[str]:
    """The names in a summary that show partition values."""
    return [name for name in summary if name.startswith(PARTITION)]


def partition_of(file: DataFileV3) -> tuple[int, str]:
    """The spec id and the partition values of a file, as a string because NaN is not equal to itself."""
    return file.spec_id, repr(values_of(file.partition))


def count_files(counted: Counter[str], files: Iterable[DataFileV3], verb: str) -> None:
    """Count files that a snapshot `added` or `removed`, by the names of its summary."""
    for file in files:
        counted[f"{verb}-files-size"] += file.content_size_in_bytes or file.file_size_in_bytes
        if file.content == DataFileContent.DATA:
            gone = "deleted" if verb == "removed" else verb
            counted[f"{gone}-data-files"] += 1
            counted[f"{gone}-records"] += file.record_count
            continue
        counted[f"{verb}-delete-files"] += 1
        if file.content == DataFileContent.EQUALITY_DELETES:
            counted[f"{verb}-equality-delete-files"] += 1
            counted[f"{verb}-equality-deletes"] += file.record_count
        else:
            counted[f"{verb}-dvs" if file.is_deletion_vector else f"{verb}-position-delete-files"] += 1
            counted[f"{verb}-position-deletes"] += file.record_count
