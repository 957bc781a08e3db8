"""Snapshots, refs and manifest lists: sequence numbers, row ids and totals that agree with each other.

metadata      the branch main has the current snapshot; sequence numbers and row ids only grow
list          is authentic; each manifest once; new manifests get consecutive row ids
all files     no file twice, no row id twice, deletion vectors are of live files, totals of the summary
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import ManifestContent

from sealberg.files.file_io import keyed
from sealberg.format.ags1 import Layout
from sealberg.jobs.checks.summaries import check_partitions, check_summary
from sealberg.metadata.manifest import ManifestFileV3, read_list_file
from sealberg.write.snapshot_summary import TOTALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.jobs.checks.manifests import Digest
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.summaries import Changes
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata

MAIN: Final = "main"


def check_metadata(metadata: V3TableMetadata, outcome: Outcome) -> None:
    """What table metadata say of snapshots, without any other file."""
    if len({snapshot.snapshot_id for snapshot in metadata.snapshots}) != len(metadata.snapshots):
        outcome.find("snapshot", "two snapshots have the same id")
    main = metadata.refs.get(MAIN)
    if (main.snapshot_id if main is not None else None) != metadata.current_snapshot_id:
        outcome.find(
            "snapshot", f"the current snapshot is {metadata.current_snapshot_id}, the branch main is at another"
        )
    schemas = {schema.schema_id for schema in metadata.schemas}
    for snapshot in metadata.snapshots:
        number = snapshot.snapshot_id
        if (snapshot.sequence_number or 0) > metadata.last_sequence_number:
            text = (
                f"the sequence number {snapshot.sequence_number} is above the table's {metadata.last_sequence_number}"
            )
            outcome.find("sequence", text, None, number)
        if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
            outcome.find("snapshot", f"the schema {snapshot.schema_id} of the snapshot does not exist", None, number)
        check_partitions(snapshot, outcome)
    _check_row_ids(metadata, outcome)


def _check_row_ids(metadata: V3TableMetadata, outcome: Outcome) -> None:
    ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    for before, after in pairwise(ordered):
        if before.sequence_number == after.sequence_number:
            outcome.find("sequence", "two snapshots have the same sequence number", None, after.snapshot_id)
        if None in (before.first_row_id, before.added_rows, after.first_row_id):
            continue
        expected = (before.first_row_id or 0) + (before.added_rows or 0)
        follows = (after.sequence_number or 0) == (before.sequence_number or 0) + 1
        if (after.first_row_id or 0) < expected or (follows and after.first_row_id != expected):
            text = f"the snapshot's first row id is {after.first_row_id}, expected {expected} after the snapshot before"
            outcome.find("row-ids", text, None, after.snapshot_id)
    for snapshot in ordered:
        if snapshot.first_row_id is None or snapshot.added_rows is None:
            outcome.find("row-ids", "the snapshot has no first row id or no added rows", None, snapshot.snapshot_id)
    if ordered and ordered[-1].first_row_id is not None:
        last = ordered[-1]
        expected = (last.first_row_id or 0) + (last.added_rows or 0)
        newest = last.sequence_number == metadata.last_sequence_number
        if metadata.next_row_id < expected or (newest and metadata.next_row_id != expected):
            outcome.find("row-ids", f"the table's next row id is {metadata.next_row_id}, expected {expected}")


def read_list(
    state: TableState, snapshot: V3Snapshot, key: KeyMetadata | None, outcome: Outcome
) -> list[ManifestFileV3] | None:
    """The lines of a manifest list; None if it could not be read."""
    location, number = str(snapshot.manifest_list), snapshot.snapshot_id
    lines: list[ManifestFileV3] | None = None
    with outcome.catching("manifest list (the manifests that it names were not checked)", location, number):
        if key is not None and key.file_length is None:
            outcome.find("no-length", "the key metadata of the manifest list have no file length", location, number)
        found = read_list_file(state.io, location if key is None else keyed(location, key.encode()))
        lines = [line for line in found if isinstance(line, ManifestFileV3)]
    if lines is None:
        outcome.count("manifest-list", stored=(key.file_length or 0) if key is not None else 0)
        return None
    stored = (key.file_length if key is not None else None) or len(state.storage.new_input(location))
    units = Layout(stored).block_count if key is not None else 0
    outcome.count("manifest-list", stored=stored, checked=stored, units=units)
    _check_lines(snapshot, lines, outcome)
    return lines


def _check_lines(snapshot: V3Snapshot, lines: Sequence[ManifestFileV3], outcome: Outcome) -> None:
    location, number = str(snapshot.manifest_list), snapshot.snapshot_id
    paths = [str(line.manifest_path) for line in lines]
    for path in {path for path in paths if paths.count(path) > 1}:
        outcome.find("entry", "the manifest is in the manifest list twice", path, number)
    given = 0
    for line in lines:
        path = str(line.manifest_path)
        if (line.sequence_number or 0) > (snapshot.sequence_number or 0):
            text = (
                f"the manifest has the sequence number {line.sequence_number}, the snapshot {snapshot.sequence_number}"
            )
            outcome.find("sequence", text, path, number)
        if line.content == ManifestContent.DELETES:
            if line.first_row_id is not None:
                outcome.find("row-ids", "a manifest of deletes has a first row id", path, number)
            continue
        if line.first_row_id is None:
            outcome.find("row-ids", "the manifest has no first row id", path, number)
            continue
        # Also manifests of older snapshots, in the first snapshot of version 3. One without rows may tie with a new one
        rows = (line.existing_rows_count or 0) + (line.added_rows_count or 0)
        new = line.first_row_id >= (snapshot.first_row_id or 0) and (line.added_snapshot_id == number or rows > 0)
        if not new:
            continue
        expected = (snapshot.first_row_id or 0) + given
        if line.first_row_id != expected:
            outcome.find(
                "row-ids", f"the manifest's first row id is {line.first_row_id}, expected {expected}", path, number
            )
        given += rows
    if snapshot.added_rows is not None and given != snapshot.added_rows:
        text = f"the snapshot claims {snapshot.added_rows} new row ids, its new manifests have {given}"
        outcome.find("row-ids", text, location, number)


def check_files(snapshot: V3Snapshot, digests: Sequence[Digest], changes: Changes, outcome: Outcome) -> None:
    """What must hold for all files of a snapshot together."""
    number, where = snapshot.snapshot_id, str(snapshot.manifest_list)
    data = list(chain.from_iterable(digest.data for digest in digests))
    live = set(data)
    if len(live) != len(data):
        outcome.find("entry", f"{len(data) - len(live)} data files are in the snapshot twice", where, number)
    vectors = list(chain.from_iterable(digest.vectors for digest in digests))
    if len(set(vectors)) != len(vectors):
        outcome.find("entry", "a data file has two deletion vectors", where, number)
    lost = sum(vector not in live for vector in set(vectors))
    if lost:
        outcome.find("entry", f"{lost} deletion vectors are of data files that are not in the snapshot", where, number)
    ranges = sorted(
        (first, count)
        for digest in digests
        for first, count in zip(digest.first_row_ids, digest.row_counts, strict=True)
        if count
    )
    if any(first + count > after for (first, count), (after, _) in pairwise(ranges)):
        outcome.find("row-ids", "two data files of the snapshot have the same row ids", where, number)
    end = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
    if ranges and snapshot.first_row_id is not None and ranges[-1][0] + ranges[-1][1] > end:
        outcome.find(
            "row-ids", f"a data file has row ids above {end}, the end of the snapshot's row ids", where, number
        )
    totals: Counter[str] = Counter()
    for digest in digests:
        totals.update(digest.totals)
    check_summary(snapshot, {name: totals[added] for name, (added, _) in TOTALS.items()}, changes.of(number), outcome)
