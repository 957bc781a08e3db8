"""Version 3 tables made file by file, so that a test has exactly the files that it needs.

    small = SmallTable(tmp_path, schema)
    one = small.parquet([{"id": 1}, {"id": 2}])
    small.snapshot(one)                              sequence number 1
    small.snapshot(small.vector({one: [0]}))         sequence number 2
    small.table().scan().to_arrow()

Of the write path it uses only the writers of single files and manifests.
"""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.data_file import EncryptedAvroWriter
from sealberg.files.file_io import EncryptingFileIO
from sealberg.files.parquet.writer import EncryptedParquetWriter, write_options
from sealberg.files.puffin.container import PuffinWriter
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import UnitestKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_writer import ManifestWriter, write_manifest_list
from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata, new_metadata
from sealberg.table.base import EncryptedTable
from sealberg.table.static_table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sealberg.format.key_metadata import KeyMetadata

KMS = {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS"}
POSITION_DELETES = Schema(
    NestedField(2147483546, "file_path", StringType(), required=True),
    NestedField(2147483545, "pos", LongType(), required=True),
)

Rows = "Sequence[Mapping[str, Any]] | pa.Table"


class SmallTable:
    """A table in a folder.

    Args:
        schemas: all schemas in order; the last is the current schema. Their ids are 0, 1, 2, ...
        specs: all partition specs.
    """

    def __init__(
        self,
        folder: Path,
        *schemas: Schema,
        specs: Sequence[PartitionSpec] = (UNPARTITIONED_PARTITION_SPEC,),
        encrypted: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.encrypted = encrypted
        self.schemas = [Schema(*one.fields, schema_id=number) for number, one in enumerate(schemas)]
        self.schema = self.schemas[-1]
        self.specs = {spec.spec_id: spec for spec in specs}
        self.manager = EncryptionManager(EncryptionSettings("small", "keyA"), kms=UnitestKms.from_properties({}))
        self.io = (
            EncryptingFileIO(PyArrowFileIO(), lambda _: self.manager.new_file_key()) if encrypted else PyArrowFileIO()
        )
        own = {"encryption.key-id": "keyA"} if encrypted else {}
        self.metadata: V3TableMetadata = new_metadata(
            schema=self.schema,
            spec=specs[0],
            sort_order=UNSORTED_SORT_ORDER,
            location=f"file://{folder}",
            properties={**own, **(properties or {})},
        ).model_copy(update={"schemas": self.schemas, "partition_specs": list(specs)})
        self.ring = Keyring()
        self.manifests: list[ManifestFileV3] = []
        self._numbers = itertools.count(1)

    # -- files ----------------------------------------------------------------------------------

    def parquet(
        self, rows: Any, schema: Schema | None = None, *, row_group_rows: int | None = None, **about: Any
    ) -> DataFileV3:
        """Write a Parquet file; `about` has additional fields of its manifest entry."""
        schema = schema or self.schema
        table = _table(rows, schema)
        location, path = self._place("parquet")
        options = {**write_options({}), **({"row_group_rows": row_group_rows} if row_group_rows else {})}
        key: KeyMetadata | None = None
        if self.encrypted and about.pop("sealed", True):
            with EncryptedParquetWriter(
                path.open("wb"), table.schema, self.manager.new_file_key(), options=options
            ) as writer:
                writer.write(table)
            key = writer.written.key_metadata
        else:
            pq.write_table(table, path, row_group_size=row_group_rows, compression="zstd")
        return self._entry(location, FileFormat.PARQUET, table, schema, key, about)

    def avro(self, rows: Any, schema: Schema | None = None, **about: Any) -> DataFileV3:
        schema = schema or self.schema
        table = _table(rows, schema)
        location, path = self._place("avro")
        with EncryptedAvroWriter(Ags1Writer(path.open("wb"), self.manager.new_file_key()), schema) as writer:
            writer.write(table)
        return self._entry(location, FileFormat.AVRO, table, schema, writer.close().key_metadata, about)

    def position_deletes(self, *pairs: tuple[DataFileV3, int], avro: bool = False, **about: Any) -> DataFileV3:
        rows = [{"file_path": str(file.file_path), "pos": position} for file, position in pairs]
        make = self.avro if avro else self.parquet
        return make(rows, POSITION_DELETES, content=DataFileContent.POSITION_DELETES, **about)

    def equality_deletes(self, rows: Any, schema: Schema, *ids: int, avro: bool = False, **about: Any) -> DataFileV3:
        make = self.avro if avro else self.parquet
        return make(rows, schema, content=DataFileContent.EQUALITY_DELETES, equality_ids=list(ids), **about)

    def vector(self, deleted: Mapping[DataFileV3, Sequence[int]]) -> list[DataFileV3]:
        """Write one Puffin file with the deletion vectors of several data files."""
        location, path = self._place("puffin")
        places = {}
        with closing(PuffinWriter(Ags1Writer(path.open("wb"), self.manager.new_file_key()))) as writer:
            for file, positions in deleted.items():
                places[file] = writer.add(str(file.file_path), DeletionVector.of(positions))
        written = writer.close()
        files = []
        for file, blob in places.items():
            made = DataFileV3.from_args(
                content=DataFileContent.POSITION_DELETES,
                file_path=location,
                file_format=FileFormat.PUFFIN,
                partition=file.partition,
                record_count=len(set(deleted[file])),
                file_size_in_bytes=path.stat().st_size,
                key_metadata=written.key_metadata.encode(),
                referenced_data_file=str(file.file_path),
                content_offset=blob.offset,
                content_size_in_bytes=blob.length,
            )
            made.spec_id = file.spec_id
            files.append(made)
        return files

    def _place(self, suffix: str) -> tuple[str, Path]:
        path = self.folder / f"file-{next(self._numbers):05}.{suffix}"
        return f"file://{path}", path

    def _entry(
        self,
        location: str,
        file_format: FileFormat,
        table: pa.Table,
        schema: Schema,
        key: KeyMetadata | None,
        about: dict[str, Any],
    ) -> DataFileV3:
        about = dict(about)
        spec_id = about.pop("spec_id", next(iter(self.specs)))
        partition = Record(*about.pop("partition", ()))
        lower, upper = _bounds(table, schema) if about.pop("bounds", True) else ({}, {})
        made = DataFileV3.from_args(
            **{
                "content": DataFileContent.DATA,
                "file_path": location,
                "file_format": file_format,
                "partition": partition,
                "record_count": table.num_rows,
                "file_size_in_bytes": 1,
                "lower_bounds": lower,
                "upper_bounds": upper,
                "key_metadata": key.encode() if key is not None else None,
                **about,
            }
        )
        made.spec_id = spec_id
        return made

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self, *added: DataFileV3 | list[DataFileV3], operation: Operation = Operation.APPEND) -> int:
        """Commit files, with one manifest for each kind and spec; returns the snapshot's id."""
        files = [file for one in added for file in (one if isinstance(one, list) else [one])]
        number = len(self.metadata.snapshots) + 1
        snapshot_id = number * 1000
        groups: dict[tuple[int, ManifestContent], list[DataFileV3]] = {}
        for file in files:
            content = ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES
            groups.setdefault((file.spec_id, content), []).append(file)
        for (spec_id, content), group in groups.items():
            self.manifests.append(self._manifest(spec_id, content, group, snapshot_id))
        return self._list(number, snapshot_id, operation)

    def _manifest(
        self, spec_id: int, content: ManifestContent, files: list[DataFileV3], snapshot_id: int
    ) -> ManifestFileV3:
        writer = ManifestWriter(
            self.io,
            self._place("avro")[0],
            self.manager.new_file_key() if self.encrypted else None,
            spec=self.specs[spec_id],
            schema=self.schema,
            snapshot_id=snapshot_id,
            content=content,
        )
        for file in files:
            writer.add(file)
        return writer.close()

    def _list(self, number: int, snapshot_id: int, operation: Operation) -> int:
        location = self._place("avro")[0]
        key, next_row_id = write_manifest_list(
            self.io,
            location,
            self.manager.new_file_key() if self.encrypted else None,
            self.manifests,
            snapshot_id=snapshot_id,
            parent_snapshot_id=self.metadata.current_snapshot_id,
            sequence_number=number,
            first_row_id=self.metadata.next_row_id,
        )
        key_id = None
        if key is not None:
            self.ring, key_id = self.manager.seal_list_key(self.ring, key)
        members = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": self.metadata.current_snapshot_id,
            "sequence-number": number,
            "timestamp-ms": 1_700_000_000_000 + number,
            "manifest-list": location,
            "summary": Summary(operation),
            "schema-id": self.schema.schema_id,
            "first-row-id": self.metadata.next_row_id,
            "added-rows": next_row_id - self.metadata.next_row_id,
            "key-id": key_id,
        }
        snapshot = V3Snapshot.model_validate(members)
        self.metadata = self.metadata.model_copy(
            update={
                "snapshots": [*self.metadata.snapshots, snapshot],
                "current_snapshot_id": snapshot_id,
                "last_sequence_number": number,
                "next_row_id": next_row_id,
                "encryption_keys": self.ring,
            }
        )
        # What the list gave to new manifests stays theirs in the next one.
        reader = EncryptingFileIO(PyArrowFileIO(), lambda _: key) if key is not None else self.io
        self.manifests = [one for one in snapshot.manifests(reader) if isinstance(one, ManifestFileV3)]
        return snapshot_id

    # -- the table ------------------------------------------------------------------------------

    def write_metadata(self, metadata: V3TableMetadata | None = None) -> str:
        path = self.folder / f"{next(self._numbers):05}.metadata.json"
        path.write_text((metadata or self.metadata).to_json())
        return f"file://{path}"

    def table(self, **properties: str) -> EncryptedTable:
        """The table, loaded anew."""
        found = open_table(self.write_metadata(), {**KMS, **properties})
        assert isinstance(found, EncryptedTable)
        return found


def _table(rows: Any, schema: Schema) -> pa.Table:
    arrow = schema_to_pyarrow(schema)
    if isinstance(rows, pa.Table):
        return rows.cast(arrow)
    return pa.Table.from_pylist([dict(row) for row in rows], schema=arrow)


def _bounds(table: pa.Table, schema: Schema) -> tuple[dict[int, bytes], dict[int, bytes]]:
    lower, upper = {}, {}
    for field in schema.fields:
        column = table[field.name]
        if isinstance(field.field_type, LongType | StringType) and column.null_count < len(column):
            ends = pc.min_max(column).as_py()
            lower[field.field_id] = to_bytes(field.field_type, ends["min"])
            upper[field.field_id] = to_bytes(field.field_type, ends["max"])
    return lower, upper
