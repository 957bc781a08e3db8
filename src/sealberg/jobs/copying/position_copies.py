"""Position deletes name data files by location, so they are decoded, and written with the new locations.

    position delete file   file_path, pos ──> the same positions of the copies, sorted again, in one Parquet file
    Puffin file            deletion vectors ──> the same vectors of the copies, in one Puffin file

Positions of files that are not copied are left out: no kept snapshot has these files.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sealberg.errors import FormatError
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_io import naming
from sealberg.files.parquet.writer import FIELD_ID, EncryptedParquetWriter
from sealberg.files.puffin.container import (
    CARDINALITY,
    DELETION_VECTOR,
    MAGIC,
    REFERENCED_DATA_FILE,
    ROW_POSITION,
    Blob,
    Footer,
    PuffinWriter,
)
from sealberg.jobs.copying import entries as at
from sealberg.scan.data_file_reader import load_vector, open_rows
from sealberg.scan.delete_index import DELETE_PATH, DELETE_POS
from sealberg.scan.projection import Projector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.files.puffin.deletion_vector import DeletionVector
    from sealberg.jobs.copying.source import Source
    from sealberg.jobs.copying.target import Target
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.write.snapshot_builder import Identity

SCHEMA: Final = pa.schema(
    [
        pa.field(one.name, kind, nullable=False, metadata={FIELD_ID: str(one.field_id)})
        for one, kind in ((DELETE_PATH, pa.string()), (DELETE_POS, pa.int64()))
    ]
)


@dataclass
class PositionCopies:
    """Copies position deletes and deletion vectors.

    Args:
        moved: from the locations of data files in the source to those in the target.
    """

    source: Source
    target: Target
    moved: Mapping[str, str]
    written: dict[Identity, DataFileV3 | None] = field(default_factory=dict)

    def copy_all(self) -> dict[Identity, DataFileV3 | None]:
        """The new entry of each; None for a file that has no position of a copied file."""
        vectors: dict[str, list[DataFileV3]] = defaultdict(list)
        for file in self.source.positions:
            if file.is_deletion_vector:
                vectors[str(file.file_path)].append(file)
            else:
                self.written[file.identity] = self._positions(file)
        for files in vectors.values():
            self._puffin(files)
        return self.written

    # -- position delete files ------------------------------------------------------------------

    def _positions(self, file: DataFileV3) -> DataFileV3 | None:
        rows = self._moved_rows(file)
        if not rows.num_rows:
            return None
        location, key = self.target.new_file(str(file.file_path), "deletes.parquet")
        with naming(location):
            sink = self.target.storage.new_output(location).create(overwrite=True)
            if key is None:
                with sink:
                    pq.write_table(rows, sink)
                length, encoded = len(self.target.storage.new_input(location)), None
            else:
                with EncryptedParquetWriter(sink, SCHEMA, key) as writer:
                    writer.write(rows)
                length, encoded = writer.written.stored_length, writer.written.key_metadata.encode()
        paths, positions = rows["file_path"], rows["pos"]
        low, high = pc.min_max(paths).values(), pc.min_max(positions).values()
        (first, last), (least, most) = (
            [value.as_py() for value in low],
            [value.as_py().to_bytes(8, "little") for value in high],
        )
        made = at.changed_entry(
            file,
            {
                at.PATH: location,
                at.RECORDS: rows.num_rows,
                at.SIZE: length,
                at.COLUMN_SIZES: None,
                7: {DELETE_PATH.field_id: rows.num_rows, DELETE_POS.field_id: rows.num_rows},
                8: {DELETE_PATH.field_id: 0, DELETE_POS.field_id: 0},
                9: None,
                at.LOWER: {DELETE_PATH.field_id: first.encode(), DELETE_POS.field_id: least},
                at.UPPER: {DELETE_PATH.field_id: last.encode(), DELETE_POS.field_id: most},
                at.KEY: encoded,
                at.SPLITS: None,
                at.REFERENCED: self.moved.get(file.referenced_data_file or ""),
            },
        )
        made[2] = type(file.file_format)("PARQUET")
        return made

    def _moved_rows(self, file: DataFileV3) -> pa.Table:
        with open_rows(self.source.io, file) as rows:
            projector = Projector(*rows.schema([DELETE_PATH, DELETE_POS]), {})
            names = [projector.source(one) for one in (DELETE_PATH, DELETE_POS)]
            if None in names:
                raise FormatError(f"{file.file_path!s}: the position delete file lacks the column file_path or pos")
            path, position = projector.column(DELETE_PATH), projector.column(DELETE_POS)
            pieces = [
                pa.table({"file_path": self._moved_paths(path(batch)), "pos": position(batch)})
                for _, batch in rows.batches([name for name in names if name is not None], None)
            ]
        found = pa.concat_tables(pieces) if pieces else SCHEMA.empty_table()
        kept = found.filter(pc.is_valid(found["file_path"]))
        return kept.sort_by([("file_path", "ascending"), ("pos", "ascending")]).cast(SCHEMA)

    def _moved_paths(self, paths: Any) -> pa.Array:
        whole = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
        packed = whole.dictionary_encode()
        places = pa.array([self.moved.get(path) for path in packed.dictionary.to_pylist()], pa.string())
        return places.take(packed.indices)

    # -- deletion vectors -----------------------------------------------------------------------

    def _puffin(self, files: list[DataFileV3]) -> None:
        vectors = [(file, place) for file in files if (place := self.moved.get(file.referenced_data_file or ""))]
        self.written.update({file.identity: None for file in files})
        if not vectors:
            return
        location, key = self.target.new_file(str(files[0].file_path), "deletes.puffin")
        with naming(location):
            sink = self.target.storage.new_output(location).create(overwrite=True)
            loaded = [(place, load_vector(self.source.io, file)) for file, place in vectors]
            if key is None:
                with sink:
                    blobs, length = _write_plain(sink, loaded)
                encoded = None
            else:
                with PuffinWriter(Ags1Writer(sink, key)) as writer:
                    blobs = [writer.add(place, vector) for place, vector in loaded]
                    written = writer.close()
                length, encoded = written.stored_length, written.key_metadata.encode()
        for (file, place), blob in zip(vectors, blobs, strict=True):
            fields = {at.PATH: location, at.SIZE: length, at.KEY: encoded, at.REFERENCED: place}
            self.written[file.identity] = at.changed_entry(
                file, {**fields, at.OFFSET: blob.offset, at.LENGTH: blob.length}
            )


def _write_plain(sink: Any, vectors: list[tuple[str, DeletionVector]]) -> tuple[list[Blob], int]:
    """A Puffin file of a table that is not encrypted."""
    blobs: list[Blob] = []
    parts = [MAGIC]
    offset = len(MAGIC)
    for place, vector in vectors:
        payload = vector.encode()
        properties = {REFERENCED_DATA_FILE: place, CARDINALITY: str(vector.cardinality)}
        blobs.append(
            Blob(DELETION_VECTOR, (ROW_POSITION,), offset, len(payload), properties=MappingProxyType(properties))
        )
        parts.append(payload)
        offset += len(payload)
    content = b"".join((*parts, Footer(tuple(blobs), MappingProxyType({})).encode()))
    sink.write(content)
    return blobs, len(content)
