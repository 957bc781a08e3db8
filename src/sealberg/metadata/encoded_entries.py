"""Entries of manifests as the bytes of their Avro records, which a new manifest takes over as they are.

    a new file ──PyIceberg's Avro writer──────────────────────────────────────┐
    a manifest ──columns──> live rows, inherited fields filled in ──NumPy─────┴──> EncodedEntry ──> ManifestWriter

A manifest that is written anew has most entries of an older one: whole columns are decoded and encoded, and no entry
becomes a Python object. Where the older manifest has other types for its partition values than the table has now,
its entries are decoded and encoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import IntegerType, ListType, MapType, NestedField, StructType

from sealberg.errors import FormatError
from sealberg.files.avro.column_encoder import encode
from sealberg.metadata.avro_output import AvroForm
from sealberg.metadata.manifest import VERSION, DataFileV3
from sealberg.metadata.manifest_columns import Inherited
from sealberg.metadata.manifest_decoder import decode_manifest, decoding
from sealberg.metadata.manifest_fields import (
    BOUNDS,
    COUNTS,
    FILE,
    KEY_METADATA,
    LISTS,
    NUMBERS,
    PARTITION,
    PATH,
    SMALL_TYPES,
    TEXTS,
    DecodedColumns,
)
from sealberg.metadata.packed_groups import PackedPartition
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from sealberg.metadata.manifest import ManifestFileV3

    Identity = tuple[str, int | None]

_EXISTING, _DELETED = ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
_SNAPSHOT_ID, _SEQUENCE, _FILE_SEQUENCE, _FORMAT, _ROWS, _FIRST_ROW_ID, _OFFSET = 1, 3, 4, 101, 103, 142, 144
_EQUALITY_IDS: Final = 135


class EncodedEntry(NamedTuple):
    """An entry of a manifest; its record holds the key of its file."""

    status: ManifestEntryStatus
    sequence_number: int | None
    partition: tuple[Any, ...]
    record_count: int
    record: bytes

    def __repr__(self) -> str:
        return f"EncodedEntry({self.status.name}, {self.record_count} records)"


class LiveEntries(NamedTuple):
    """The live entries of a manifest, and which files among them are now deleted."""

    entries: list[EncodedEntry]
    removed: set[Identity]


@dataclass(frozen=True)
class EntryEncoder:
    """Encodes entries for the manifests of one partition type."""

    partition_type: StructType

    @cached_property
    def schema(self) -> Schema:
        # PyIceberg writes the ids of equality deletes as longs. The specification has ints, and Java reads only ints.
        ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        fields = [
            NestedField(each.field_id, each.name, ids, each.required, each.doc)
            if each.field_id == _EQUALITY_IDS
            else each
            for each in data_file_with_partition(self.partition_type, VERSION).fields
        ]
        return manifest_entry_schema_with_data_file(VERSION, StructType(*fields))

    @cached_property
    def form(self) -> AvroForm:
        """The form of a manifest."""
        return AvroForm(self.schema, "manifest_entry")

    def of(self, entry: ManifestEntry) -> EncodedEntry:
        """An entry as PyIceberg has it."""
        stream = BytesIO()
        self.form.writer.write(BinaryEncoder(stream), entry)
        file = entry.data_file
        partition = tuple(values_of(file.partition))
        return EncodedEntry(entry.status, entry.sequence_number, partition, file.record_count, stream.getvalue())

    def live(
        self, manifest: ManifestFileV3, io: FileIO, snapshot_id: int, gone: Set[Identity] = frozenset()
    ) -> LiveEntries:
        """The live entries of a manifest as existing files; those that are `gone` as files that the snapshot deletes.

        Entries that an older snapshot has deleted are left out.
        """
        location = manifest.manifest_path
        with decoding(location):
            stored = decode_manifest(io, location)
            if not self._has_partition(stored.partition):
                return self._one_by_one(manifest, io, snapshot_id, gone)
            return self._encoded(stored, Inherited.of(manifest), snapshot_id, gone)

    # -- columns ---------------------------------------------------------------------------------

    def _has_partition(self, stored: Mapping[int, pa.Array]) -> bool:
        """Whether the columns have the types of this partition type."""
        fields = self.partition_type.fields
        return [each.field_id for each in fields] == list(stored) and all(
            stored[each.field_id].type == _arrow_type(each.field_type) for each in fields
        )

    def _encoded(
        self, stored: DecodedColumns, inherited: Inherited, snapshot_id: int, gone: Set[Identity]
    ) -> LiveEntries:
        statuses, rows = stored.statuses(), stored.numbers(_ROWS)
        columns = {number: stored.numbers(number) for number in NUMBERS}
        columns[_SNAPSHOT_ID] = inherited.snapshots(columns[_SNAPSHOT_ID])
        for number in (_SEQUENCE, _FILE_SEQUENCE):
            columns[number] = inherited.sequence_numbers(columns[number], statuses)
        columns[_FIRST_ROW_ID] = inherited.first_row_ids(columns[_FIRST_ROW_ID], statuses, rows)
        columns |= {number: stored.texts(number, required=number in (PATH, _FORMAT)) for number in TEXTS}
        columns[_FORMAT] = _formats(columns[_FORMAT])
        columns[KEY_METADATA] = stored.keys()
        columns |= {number: _collection(stored, number) for number in (*COUNTS, *BOUNDS, *LISTS)}
        columns |= stored.partition
        live = pa.array(np.flatnonzero(statuses.to_numpy(zero_copy_only=False) != _DELETED.value))
        if len(live) < stored.count:
            columns = {number: values.take(live) for number, values in columns.items()}
        _check_sequence_numbers(columns)
        removed, hits = _removed(columns, gone)
        columns[0] = pc.if_else(removed, _DELETED.value, _EXISTING.value)
        columns[_SNAPSHOT_ID] = pc.if_else(removed, snapshot_id, columns[_SNAPSHOT_ID])
        records = encode([columns[each.field_id] for each in self._flat.fields], self._flat, len(live))
        made = map(
            EncodedEntry,
            [_DELETED if each else _EXISTING for each in removed.to_pylist()],
            columns[_SEQUENCE].to_pylist(),
            self._partitions(columns, len(live)),
            columns[_ROWS].to_pylist(),
            records.to_pylist(),
        )
        return LiveEntries(list(made), hits)

    def _partitions(self, columns: Mapping[int, pa.Array], count: int) -> list[tuple[Any, ...]]:
        packed = [PackedPartition.of(columns[each.field_id]) for each in self.partition_type.fields]
        values = [each.objects(np.arange(count)) for each in packed]
        return list(zip(*values, strict=True)) if values else [()] * count

    @cached_property
    def _flat(self) -> StructType:
        """The fields of the entry, in which file and partition, which are required, are replaced by their fields."""
        return StructType(*_flat(self.schema.as_struct()))

    # -- objects ---------------------------------------------------------------------------------

    def _one_by_one(self, manifest: ManifestFileV3, io: FileIO, snapshot_id: int, gone: Set[Identity]) -> LiveEntries:
        made, hits = [], set()
        for entry in manifest.fetch_manifest_entry(io):
            file = entry.data_file
            assert isinstance(file, DataFileV3)
            entry.status = _EXISTING
            if file.identity in gone:
                hits.add(file.identity)
                entry.status, entry.snapshot_id = _DELETED, snapshot_id
            made.append(self.of(entry))
        return LiveEntries(made, hits)


def _flat(struct: StructType) -> Iterator[NestedField]:
    for each in struct.fields:
        if each.field_id in (FILE, PARTITION):
            assert isinstance(each.field_type, StructType)
            yield from _flat(each.field_type)
        elif isinstance(each.field_type, MapType):
            yield NestedField(each.field_id, each.name, _pairs(each.field_type), each.required)
        else:
            yield each


def _pairs(kind: MapType) -> ListType:
    """The bytes of a map are those of a list of pairs."""
    pair = StructType(
        NestedField(kind.key_id, "key", kind.key_type, required=True),
        NestedField(kind.value_id, "value", kind.value_type, required=True),
    )
    return ListType(element_id=0, element_type=pair, element_required=True)


def _arrow_type(kind: IcebergType) -> pa.DataType:
    found = schema_to_pyarrow(kind)
    plain = found.storage_type if isinstance(found, pa.BaseExtensionType) else found
    return SMALL_TYPES.get(plain, plain)


def _collection(stored: DecodedColumns, number: int) -> pa.Array:
    """Maps of statistics and lists, with a type even where no entry has one."""
    found = stored.fields.get(number)
    if found is not None and not pa.types.is_null(found.type):
        return found
    value = pa.binary() if number in BOUNDS else pa.int64()
    item = value if number in LISTS else pa.struct([("key", pa.int64()), ("value", value)])
    return pa.nulls(stored.count, pa.large_list(item))


def _formats(texts: pa.Array) -> pa.Array:
    encoded = texts.dictionary_encode()
    names = [FileFormat(each.decode()).value.encode() for each in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.binary()).take(encoded.indices)


def _removed(columns: Mapping[int, pa.Array], gone: Set[Identity]) -> tuple[pa.BooleanArray, set[Identity]]:
    """The rows of these files: one Puffin file may hold several deletion vectors."""
    paths = columns[PATH]
    mask = np.zeros(len(paths), bool)
    hits: set[Identity] = set()
    if gone:
        wanted = pa.array({path.encode() for path, _ in gone}, pa.binary())
        for row in np.flatnonzero(pc.is_in(paths, wanted).to_numpy(zero_copy_only=False)):
            identity = (paths[row].as_py().decode(), columns[_OFFSET][row].as_py())
            if identity in gone:
                mask[row] = True
                hits.add(identity)
    return pa.array(mask), hits


def _check_sequence_numbers(columns: Mapping[int, pa.Array]) -> None:
    missing = columns[_SEQUENCE].is_null()
    if missing.true_count:
        path = columns[PATH].filter(missing)[0].as_py().decode(errors="replace")
        raise FormatError(f"the manifest entry of the existing file {path} has no sequence number")
