"""A version 3 table, encrypted or not: PyIceberg's `Table` with our scans, and without keys in what it shows.

table.scan(...)     rows of any snapshot; _file, _pos, _row_id, _last_updated_sequence_number can be selected
table.inspect       metadata tables; key_metadata is b"[redacted]" where there is a key, null where there is none
table.to_polars()   by way of a scan; engines that open the files themselves are refused, for they have no keys
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table
from pyiceberg.table.inspect import InspectTable
from pyiceberg.typedef import EMPTY_DICT

from sealberg.errors import UnsupportedError
from sealberg.table.scan import SealedDataScan, SealedIncrementalAppendScan

if TYPE_CHECKING:
    import polars as pl  # type: ignore[import-not-found,unused-ignore]
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.typedef import Properties

    from sealberg.table.metadata import V3TableMetadata

REDACTED: Final = b"[redacted]"
KEY_METADATA: Final = "key_metadata"
ALL: Final = AlwaysTrue()


class SealedTable(Table):
    """A version 3 table."""

    metadata: V3TableMetadata

    def scan(
        self,
        row_filter: str | BooleanExpression = ALL,
        selected_fields: tuple[str, ...] = ("*",),
        case_sensitive: bool = True,
        snapshot_id: int | None = None,
        options: Properties = EMPTY_DICT,
        limit: int | None = None,
    ) -> SealedDataScan:
        return SealedDataScan(
            table_metadata=self.metadata,
            io=self.io,
            row_filter=row_filter,
            selected_fields=selected_fields,
            case_sensitive=case_sensitive,
            snapshot_id=snapshot_id,
            options=options,
            limit=limit,
            catalog=self.catalog,
            table_identifier=self.name(),
        )

    def incremental_append_scan(
        self,
        *,
        from_snapshot_id_exclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        row_filter: str | BooleanExpression = ALL,
        selected_fields: tuple[str, ...] = ("*",),
        case_sensitive: bool = True,
        options: Properties = EMPTY_DICT,
        limit: int | None = None,
    ) -> SealedIncrementalAppendScan:
        return SealedIncrementalAppendScan(
            table_metadata=self.metadata,
            io=self.io,
            row_filter=row_filter,
            selected_fields=selected_fields,
            case_sensitive=case_sensitive,
            from_snapshot_id=from_snapshot_id_exclusive,
            to_snapshot_id=to_snapshot_id_inclusive,
            options=options,
            limit=limit,
        )

    @property
    def inspect(self) -> SealedInspect:
        return SealedInspect(self)

    def to_polars(self) -> pl.LazyFrame:
        return self.scan().to_polars().lazy()

    def to_daft(self) -> NoReturn:
        raise UnsupportedError(
            "Daft opens the files of a table itself and has no keys; give it table.scan().to_arrow()"
        )

    def to_bodo(self) -> NoReturn:
        raise UnsupportedError(
            "Bodo opens the files of a table itself and has no keys; give it table.scan().to_arrow()"
        )

    def __datafusion_table_provider__(self, session: Any | None = None) -> NoReturn:
        raise UnsupportedError(
            "DataFusion opens the files of a table itself and has no keys; give it table.scan().to_arrow()"
        )


class SealedInspect(InspectTable):
    """PyIceberg's metadata tables; those that have keys of files show that there is one, and not which."""

    def entries(self, snapshot_id: int | None = None) -> pa.Table:
        return redacted(super().entries(snapshot_id))

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        return redacted(super().files(snapshot_id))

    def data_files(self, snapshot_id: int | None = None) -> pa.Table:
        return redacted(super().data_files(snapshot_id))

    def delete_files(self, snapshot_id: int | None = None) -> pa.Table:
        return redacted(super().delete_files(snapshot_id))

    def manifests(self) -> pa.Table:
        return redacted(super().manifests())

    def all_files(self) -> pa.Table:
        return redacted(super().all_files())

    def all_data_files(self) -> pa.Table:
        return redacted(super().all_data_files())

    def all_delete_files(self) -> pa.Table:
        return redacted(super().all_delete_files())

    def all_manifests(self) -> pa.Table:
        return redacted(super().all_manifests())


def redacted(table: pa.Table) -> pa.Table:
    """The table without the bytes of keys, in columns and in structs."""
    arrays = [_redacted(one, table.column(at)) for at, one in enumerate(table.schema)]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _redacted(one: pa.Field, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    if one.name == KEY_METADATA:
        return pa.array([REDACTED if valid else None for valid in column.is_valid().to_pylist()], one.type)
    if not pa.types.is_struct(one.type):
        return column
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    children = [_redacted(inner, array.field(at)) for at, inner in enumerate(one.type)]
    return pa.StructArray.from_arrays(children, fields=list(one.type), mask=array.is_null())
