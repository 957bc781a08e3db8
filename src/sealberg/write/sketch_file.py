"""Sketches of columns as a statistics file of an encrypted table: Puffin inside AGS1, under a key of its own.

    {field id: ThetaSketch} ──> <snapshot id>-<uuid>.stats, beside the metadata, as Java names it ──> WrittenSketches

metadata.json is not encrypted, so the entry of the file there describes the blobs without their numbers of distinct
values. Iceberg Java's optimiser reads these numbers from metadata.json, and only there: `publish_ndv` writes them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealberg.files.file_io import EncryptedOutputFile, keyed, naming
from sealberg.files.puffin.container import NDV, PuffinWriter
from sealberg.metadata.statistics import V3StatisticsFile
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sealberg.files.puffin.container import Blob
    from sealberg.files.puffin.theta_sketch import ThetaSketch
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.write.context import WriteContext


@dataclass(frozen=True)
class WrittenSketches:
    """A finished statistics file that no metadata name yet, and its key."""

    file: V3StatisticsFile
    key: KeyMetadata = field(repr=False)


def write_sketches(
    context: WriteContext, snapshot: V3Snapshot, sketches: Mapping[int, ThetaSketch], *, publish_ndv: bool = False
) -> WrittenSketches:
    """Write the sketches of the columns of a snapshot."""
    assert context.encryption is not None, "only encrypted statistics are written here"
    number, sequence_number = snapshot.snapshot_id, snapshot.sequence_number or 0
    location = context.locations.new_metadata_location(f"{number}-{uuid.uuid4()}.stats")
    output = context.io.new_output(keyed(location, context.encryption.new_file_key().encode()))
    assert isinstance(output, EncryptedOutputFile), "a location with a key becomes an AGS1 file"
    with StagedFiles(context.io, [location]), naming(location):
        with PuffinWriter(output.create()) as writer:
            for field_id, sketch in sketches.items():
                writer.add_sketch(field_id, sketch, snapshot_id=number, sequence_number=sequence_number)
        written = writer.close()
    file = V3StatisticsFile.model_validate(
        {
            "snapshot-id": number,
            "statistics-path": location,
            "file-size-in-bytes": written.stored_length,
            "file-footer-size-in-bytes": written.footer_length,
            "blob-metadata": [_described(blob, publish_ndv=publish_ndv) for blob in written.footer.blobs],
        }
    )
    return WrittenSketches(file, written.key_metadata)


def _described(blob: Blob, *, publish_ndv: bool) -> dict[str, Any]:
    return {
        "type": blob.type,
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "fields": list(blob.fields),
        "properties": {NDV: blob.properties[NDV]} if publish_ndv else None,
    }
