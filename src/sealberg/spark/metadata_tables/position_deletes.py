"""The rows of `position_deletes`: one for each deleted position that a delete file or a deletion vector names.

delete file          file_path, pos, and `row` where the writer has stored the deleted row
deletion vector      the data file that it belongs to, pos; `row` is null
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.types import NestedField

from sealberg.errors import FormatError
from sealberg.scan.data_file_reader import load_vector, open_rows
from sealberg.scan.delete_index import DELETE_PATH, DELETE_POS
from sealberg.scan.projection import Projector
from sealberg.spark.metadata_tables.entry_rows import Partitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.metadata.manifest import DataFileV3

ROW_ID: Final = 2147483544  # of the column `row` of a delete file, by the specification
VECTOR_ROWS: Final = 1 << 16


class PositionDeletes:
    """Reads delete files as batches.

    Args:
        arrow: the columns of the metadata table.
    """

    def __init__(self, metadata: TableMetadata, io: FileIO, arrow: pa.Schema) -> None:
        self._io = io
        self._arrow = arrow
        self._partitions = Partitions(metadata)
        self._row = NestedField(ROW_ID, "row", metadata.schema().as_struct(), required=False)

    def batches(self, file: DataFileV3) -> Iterator[pa.RecordBatch]:
        read = self._of_vector(file) if file.is_deletion_vector else self._of_file(file)
        for columns in read:
            yield self._batch(columns, file)

    def _of_vector(self, file: DataFileV3) -> Iterator[dict[str, pa.Array]]:
        positions = load_vector(self._io, file).positions().cast(pa.int64())
        for start in range(0, len(positions), VECTOR_ROWS):
            part = positions.slice(start, VECTOR_ROWS)
            yield {"file_path": pa.repeat(pa.scalar(file.referenced_data_file, pa.string()), len(part)), "pos": part}

    def _of_file(self, file: DataFileV3) -> Iterator[dict[str, pa.Array]]:
        with open_rows(self._io, file) as rows:
            fields = (DELETE_PATH, DELETE_POS, self._row)
            projector = Projector(*rows.schema(fields), {})
            names = [projector.source(field) for field in fields]
            if None in names[:2]:
                raise FormatError(f"{file.file_path!s}: the position delete file lacks the column file_path or pos")
            columns = {
                field.name: projector.column(field)
                for field, name in zip(fields, names, strict=True)
                if name is not None
            }
            for _, batch in rows.batches([name for name in names if name is not None], None):
                yield {name: column(batch) for name, column in columns.items()}

    def _batch(self, columns: dict[str, pa.Array], file: DataFileV3) -> pa.RecordBatch:
        count = len(columns["pos"])
        if not self._arrow.names:
            return counted(count)
        constants: dict[str, Any] = {
            "partition": self._partitions.of(file),
            "spec_id": file.spec_id,
            "delete_file_path": str(file.file_path),
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size_in_bytes,
        }
        made = [
            columns[field.name]
            if field.name in columns
            else pa.repeat(pa.scalar(constants.get(field.name), field.type), count)
            for field in self._arrow
        ]
        return pa.RecordBatch.from_arrays(made, self._arrow.names)


def counted(rows: int) -> pa.RecordBatch:
    """A batch of rows without columns, for a query that only counts."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["none"]).select([])
