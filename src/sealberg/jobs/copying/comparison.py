"""Compares a copy with its source before the copy is published; reads the copy as a reader would.

    snapshot by snapshot:  the same files with the same partition, sequence number and row count
    position deletes:      opened, and their positions counted

The columns were compared file by file, by checksums, when each file was copied (file_copy.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent

from sealberg.errors import FormatError
from sealberg.jobs.copying.source import file_of
from sealberg.jobs.copying.target import digest_in, digest_of
from sealberg.scan.data_file_reader import load_vector, open_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry

    from sealberg.jobs.copying.source import Source
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.write.snapshot_builder import Identity


def compare_snapshots(source: Source, copies: Iterable[V3Snapshot], io: FileIO) -> None:
    """FormatError if a snapshot of the copy differs from that of the source."""
    for copy in copies:
        lines = [source.manifests[path] for path in source.lines[copy.snapshot_id]]
        numbered = source.format_version > 1
        live = (entry for manifest in lines for entry in manifest.live)
        made = (entry for manifest in copy.manifests(io) for entry in manifest.fetch_manifest_entry(io))
        expected = Counter(_claims(entry, digest_of, numbered=numbered) for entry in live)
        found = Counter(_claims(entry, digest_in, numbered=numbered) for entry in made)
        if expected != found:
            raise FormatError(
                f"the copy of snapshot {copy.snapshot_id} of {source.name} differs from the source: it has "
                f"{sum(found.values())} files, the source {sum(expected.values())}, or other row counts, partitions "
                "or sequence numbers. Nothing was published"
            )


def _claims(entry: ManifestEntry, digest: Callable[[str], str], *, numbered: bool) -> tuple[object, ...]:
    file = file_of(entry)
    partition = tuple(repr(file.partition[at]) for at in range(len(file.partition)))
    # A position delete file may lose positions of files that are gone.
    records = None if file.content == DataFileContent.POSITION_DELETES else file.record_count
    return digest(str(file.file_path)), file.spec_id, partition, records, entry.sequence_number if numbered else 0


def compare_positions(made: Mapping[Identity, DataFileV3 | None], io: FileIO) -> None:
    """Open every copied position delete file and vector."""
    for file in filter(None, made.values()):
        if file.is_deletion_vector:
            load_vector(io, file)  # compares the cardinality
            continue
        with open_rows(io, file) as rows:
            names = ["file_path"]
            count = sum(batch.num_rows for _, batch in rows.batches(names, None))
        if count != file.record_count:
            raise FormatError(
                f"{file.file_path!s}: the position delete file has {count} rows, expected {file.record_count}"
            )
