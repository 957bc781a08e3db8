"""The metadata columns `_spec_id`, `_partition` and `_deleted` of files that the Python worker reads.

    SELECT id, _deleted    ──> the scan reads id, _pos of all rows, deleted or not ──> id, _deleted

Rows that deletes have removed are returned only to a query that reads `_deleted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sealberg.spark.metadata_tables.entry_rows import Partitions
from sealberg.spark.metadata_tables.unified_partition import partition_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyroaring import BitMap

    from sealberg.metadata.manifest import DataFileV3

SPEC_ID: Final = "_spec_id"
PARTITION: Final = "_partition"
DELETED: Final = "_deleted"
POS: Final = "_pos"


@dataclass(frozen=True)
class ComputedColumns:
    """What a query asks for of these columns.

    Args:
        names: the columns that are computed here.
        stored: the columns that the scan reads.
    """

    names: Sequence[str]
    stored: list[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> ComputedColumns | None:
        """None if the query asks for none of them."""
        computed = [name for name in names if name in (SPEC_ID, PARTITION, DELETED)]
        stored = [name for name in names if name not in computed]
        if DELETED in computed and POS not in stored:
            stored.append(POS)
        return cls(computed, stored) if computed else None

    @property
    def shows_deleted(self) -> bool:
        return DELETED in self.names

    def added(
        self, batch: pa.RecordBatch, metadata: TableMetadata, file: DataFileV3, gone: BitMap | None
    ) -> pa.RecordBatch:
        """The batch with these columns behind its own; `gone` are the positions of deleted rows."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self.names:
            if name == SPEC_ID:
                columns[name] = _repeated(file.spec_id, pa.int32(), batch.num_rows)
            elif name == PARTITION:
                kind = pa.struct(list(schema_to_pyarrow(partition_schema(metadata), include_field_ids=False)))
                columns[name] = _repeated(Partitions(metadata).of(file), kind, batch.num_rows)
            else:
                assert gone is not None, "deleted rows were found before the batch was read"
                columns[name] = pa.array([at in gone for at in batch.column(POS).to_numpy()], pa.bool_())
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)
