"""Data files as the columns that filters are evaluated on, made from objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import UnknownType, UUIDType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.types import StructType


class ListedFiles:
    """Implements `FileColumns` for a list of files of one partition spec."""

    def __init__(self, files: Sequence[DataFile], partition: StructType | None = None) -> None:
        self._files = files
        self._partition = partition

    def __len__(self) -> int:
        return len(self._files)

    @property
    def record_counts(self) -> pa.Int64Array:
        return pa.array([file.record_count for file in self._files], pa.int64())

    def lower_bounds(self, field_id: int) -> pa.BinaryArray | None:
        return self._column("lower_bounds", field_id, pa.binary())

    def upper_bounds(self, field_id: int) -> pa.BinaryArray | None:
        return self._column("upper_bounds", field_id, pa.binary())

    def value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._column("value_counts", field_id, pa.int64())

    def null_value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._column("null_value_counts", field_id, pa.int64())

    def nan_value_counts(self, field_id: int) -> pa.Int64Array | None:
        return self._column("nan_value_counts", field_id, pa.int64())

    def partition_values(self, partition_field_id: int) -> pa.Array:
        assert self._partition is not None
        at, field = next((i, f) for i, f in enumerate(self._partition.fields) if f.field_id == partition_field_id)
        values = [file.partition[at] for file in self._files]
        if isinstance(field.field_type, UnknownType):
            return pa.nulls(len(values))
        if isinstance(field.field_type, UUIDType):
            return pa.array(values, pa.binary(16))
        return pa.array(values, schema_to_pyarrow(Schema(field)).field(0).type)

    def _column(self, name: str, field_id: int, kind: pa.DataType) -> Any:
        values = [(getattr(file, name) or {}).get(field_id) for file in self._files]
        return None if all(value is None for value in values) else pa.array(values, kind)
