"""Writes manifests and manifest lists of version 3 tables.

    files ──add, keep, remove──> ManifestWriter ──close──> ManifestFileV3 ──> write_manifest_list ──> list key, row ids

Entries are encoded by `encoded_entries`, in the whole layout of version 3, many per Avro block. Every file of an
encrypted table is an AGS1 stream with its own key; the file's parent stores the key and the length.
"""

from __future__ import annotations

from functools import lru_cache, partial
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
)
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StructType, UnknownType

from sealberg.errors import FormatError, UnsupportedError
from sealberg.files.file_io import EncryptedOutputFile, keyed, naming
from sealberg.metadata import java_json
from sealberg.metadata.avro_output import AvroForm, FormedAvroFile
from sealberg.metadata.decode_cache import Cache
from sealberg.metadata.encoded_entries import EntryEncoder
from sealberg.metadata.manifest import VERSION, DataFileV3, ManifestFileV3, keep_list
from sealberg.metadata.manifest_codec import DEFAULT as DEFAULT_CODEC
from sealberg.metadata.schema_json import schema_json, spec_json
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.metadata.encoded_entries import EncodedEntry

UNASSIGNED: Final = -1
LINES_PER_BLOCK: Final = 250  # of a manifest list
ENTRIES_PER_BLOCK: Final = 500  # PyIceberg's one entry per Avro block doubles the size of a manifest

_LIST: Final = AvroForm(MANIFEST_LIST_FILE_SCHEMAS[VERSION], "manifest_file")
_BLOCKS: Final = Cache[bytes](16 << 20, len)


class ManifestWriter:
    """Writes one manifest: `add`, `keep`, `remove`, then `close` for its entry in the manifest list.

    Args:
        io: the table's FileIO.
        location: the path of the manifest.
        key: a new key, or None in a table that is not encrypted.
    """

    def __init__(
        self,
        io: FileIO,
        location: str,
        key: KeyMetadata | None,
        *,
        spec: PartitionSpec,
        schema: Schema,
        snapshot_id: int,
        content: ManifestContent = ManifestContent.DATA,
        compression: str = DEFAULT_CODEC,
    ) -> None:
        self._output = io.new_output(keyed(location, key.encode() if key is not None else None))
        self._location = str(location)
        self._spec, self._schema = spec, schema
        self._encoder = entry_encoder(spec, schema)
        self._snapshot_id = snapshot_id
        self._content = content
        self._compression = compression
        self.entries: list[EncodedEntry] = []

    def add(self, file: DataFileV3, sequence_number: int | None = None) -> None:
        """A new file; it inherits the snapshot's sequence number unless one is given (a rewrite keeps the old one)."""
        self._put(ManifestEntryStatus.ADDED, self._snapshot_id, sequence_number, None, file)

    def keep(self, entry: ManifestEntry) -> None:
        """An existing file."""
        self._put(
            ManifestEntryStatus.EXISTING,
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            entry.data_file,
        )

    def remove(self, entry: ManifestEntry) -> None:
        """A file that this snapshot deletes."""
        self._put(
            ManifestEntryStatus.DELETED,
            self._snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            entry.data_file,
        )

    def _put(
        self,
        status: ManifestEntryStatus,
        snapshot_id: int | None,
        sequence_number: int | None,
        file_sequence_number: int | None,
        file: DataFile,
    ) -> None:
        if status != ManifestEntryStatus.ADDED and sequence_number is None:
            raise FormatError(f"the manifest entry of the existing file {file.file_path!s} has no sequence number")
        entry = ManifestEntry(status, snapshot_id, sequence_number, file_sequence_number, file)
        self.entries.append(self._encoder.of(entry))

    def put(self, entries: Iterable[EncodedEntry]) -> None:
        """Entries that are encoded for manifests of the same spec and schema."""
        self.entries.extend(entries)

    def __len__(self) -> int:
        return len(self.entries)

    def close(self) -> ManifestFileV3:
        """Write the manifest; returns its entry for the manifest list, with key and length."""
        if not self.entries:
            raise FormatError("internal error: a manifest without entries is not written")
        with (
            naming(self._output.location),
            FormedAvroFile[ManifestEntry](
                self._output,
                self._encoder.form,
                metadata={
                    "schema": java_json.dumps(schema_json(self._schema)),
                    "partition-spec": java_json.dumps(spec_json(self._spec)["fields"]),
                    "partition-spec-id": str(self._spec.spec_id),
                    "format-version": str(VERSION),
                    "content": "data" if self._content == ManifestContent.DATA else "deletes",
                },
                codec=self._compression,
            ) as writer,
        ):
            for at in range(0, len(self.entries), ENTRIES_PER_BLOCK):
                block = self.entries[at : at + ENTRIES_PER_BLOCK]
                _write_block(writer, len(block), _compressed(writer, b"".join(entry.record for entry in block)))
        return self._line()

    def _line(self) -> ManifestFileV3:
        def count(status: ManifestEntryStatus) -> tuple[int, int]:
            counts = [entry.record_count for entry in self.entries if entry.status == status]
            return len(counts), sum(counts)

        added, existing, deleted = (count(status) for status in (_ADDED, _EXISTING, _DELETED))
        numbers = [e.sequence_number for e in self.entries if e.status != _DELETED and e.sequence_number is not None]
        partitions = [Record(*values) for values in dict.fromkeys(entry.partition for entry in self.entries)]
        return ManifestFileV3.from_args(
            manifest_path=self._location,
            manifest_length=len(self._output),
            partition_spec_id=self._spec.spec_id,
            content=self._content,
            sequence_number=UNASSIGNED,
            min_sequence_number=min(numbers, default=UNASSIGNED),
            added_snapshot_id=self._snapshot_id,
            added_files_count=added[0],
            existing_files_count=existing[0],
            deleted_files_count=deleted[0],
            added_rows_count=added[1],
            existing_rows_count=existing[1],
            deleted_rows_count=deleted[1],
            partitions=construct_partition_summaries(self._spec, self._schema, partitions),
            key_metadata=_key_of(self._output),
        )


def entry_encoder(spec: PartitionSpec, schema: Schema) -> EntryEncoder:
    """Encodes entries for the manifests of a spec; made once for each partition type.

    Raises:
        UnsupportedError: a partition field has no type, because no schema of the table has its column any more.
    """
    void = {field.field_id for field in spec.fields if isinstance(field.transform, VoidTransform)}
    fields = []
    for field in spec.partition_type(schema).fields:
        if isinstance(field.field_type, UnknownType):
            raise UnsupportedError(
                f"the type of partition field {field.name} of spec {spec.spec_id} is not known: its column was "
                "dropped, and the schemas that had it were removed. Files of this spec can be read; to change "
                "them, copy the rows into a new table"
            )
        # A void field may be null: PyIceberg takes it for NOT NULL, as its column.
        is_void = field.field_id in void
        fields.append(NestedField(field.field_id, field.name, field.field_type) if is_void else field)
    return _encoder_of(StructType(*fields))


_encoder_of: Final = lru_cache(maxsize=64)(EntryEncoder)


_ADDED, _EXISTING, _DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED


def write_manifest_list(
    io: FileIO,
    location: str,
    key: KeyMetadata | None,
    manifests: Sequence[ManifestFileV3],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int,
    compression: str = DEFAULT_CODEC,
) -> tuple[KeyMetadata | None, int]:
    """Write the manifest list of a snapshot and assign row ids; returns its key with length, and the next row id."""
    output = io.new_output(keyed(location, key.encode() if key is not None else None))
    lines: list[ManifestFile] = []
    next_row_id, fresh = first_row_id, 0  # `fresh`: up to the last line that is not as an older list has it
    for at, manifest in enumerate(manifests, 1):
        line = ManifestFileV3(*values_of(manifest))  # a copy
        if line.sequence_number == UNASSIGNED:
            line.sequence_number = sequence_number
        if line.min_sequence_number == UNASSIGNED:
            line.min_sequence_number = sequence_number
        if line.content == ManifestContent.DATA and line.first_row_id is None:
            line.first_row_id = next_row_id
            next_row_id += (line.existing_rows_count or 0) + (line.added_rows_count or 0)
        if line.sequence_number == sequence_number:
            fresh = at
        lines.append(line)
    with (
        naming(output.location),
        FormedAvroFile[ManifestFile](
            output,
            _LIST,
            metadata={
                "snapshot-id": str(snapshot_id),
                "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
                "sequence-number": str(sequence_number),
                "first-row-id": str(first_row_id),
                "format-version": str(VERSION),
            },
            codec=compression,
        ) as writer,
    ):
        _write_lines(writer, lines, fresh, compression)
    if not isinstance(output, EncryptedOutputFile):
        return None, next_row_id
    keep_list(location, output.key_metadata, lines)
    return output.key_metadata, next_row_id


def _write_lines(writer: FormedAvroFile[ManifestFile], lines: list[ManifestFile], fresh: int, codec: str) -> None:
    """Write the lines; blocks of lines that an older list had are encoded and compressed once in a process.

    A commit adds lines in front, so blocks are counted from the end: the next list has the same blocks again.
    """
    first = fresh + (len(lines) - fresh) % LINES_PER_BLOCK
    if first:
        writer.write_block(lines[:first])
    for at in range(first, len(lines), LINES_PER_BLOCK):
        block = lines[at : at + LINES_PER_BLOCK]
        content = _BLOCKS.get((codec, *chain.from_iterable(map(_identity, block))), partial(_content, writer, block))
        _write_block(writer, len(block), content)


def _content(writer: FormedAvroFile[ManifestFile], block: list[ManifestFile]) -> bytes:
    stream = BytesIO()
    encoder = BinaryEncoder(output_stream=stream)
    for line in block:
        writer.writer.write(encoder, line)
    return _compressed(writer, stream.getvalue())


def _compressed(writer: FormedAvroFile[Any], plain: bytes) -> bytes:
    codec = writer.compression_codec()
    return codec.compress(plain)[0] if codec else plain


def _write_block(writer: FormedAvroFile[Any], count: int, content: bytes) -> None:
    writer.encoder.write_int(count)
    writer.encoder.write_int(len(content))
    writer.encoder.write(content)
    writer.encoder.write(writer.sync_bytes)


def _identity(line: ManifestFile) -> Iterator[str | bytes | int | None]:
    """All that a line holds, flat."""
    for value in values_of(line):
        if isinstance(value, list):
            yield len(value)
            yield from chain.from_iterable(map(values_of, value))
        else:
            yield value


def _key_of(output: object) -> bytes | None:
    return output.key_metadata.encode() if isinstance(output, EncryptedOutputFile) else None
