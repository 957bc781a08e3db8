"""A version 3 table, encrypted or not: PyIceberg's `Table` with the scans of this package; it never shows a key.

table.scan(...)     rows of any snapshot; _file, _pos, _row_id, _last_updated_sequence_number can be selected
table.inspect       metadata tables; key_metadata is b"[redacted]" where a file has a key, otherwise null
table.to_polars()   reads with a scan; engines that open the files themselves are refused, because they have no keys
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.inspect import InspectTable
from pyiceberg.table.locations import LocationProvider
from pyiceberg.typedef import EMPTY_DICT

from sealberg.errors import FormatError, PlaintextFileError, UnsupportedError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.partition_types import refuse_unknown
from sealberg.metadata.storage_properties import location_provider
from sealberg.metadata.table_metadata import V3Snapshot
from sealberg.pyiceberg_private import inspected_files_schema, values_of
from sealberg.scan.scan import EncryptedDataScan, EncryptedIncrementalAppendScan
from sealberg.table.files_table import REDACTED, entries_table, files_table
from sealberg.table.partitions_table import partitions_table, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import polars as pl  # type: ignore[import-not-found,unused-ignore]
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.typedef import Identifier, Properties

    from sealberg.metadata.table_metadata import V3TableMetadata

ALL: Final = AlwaysTrue()
DATA: Final = (DataFileContent.DATA,)
DELETES: Final = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)


class EncryptedTable(Table):
    """A version 3 table."""

    metadata: V3TableMetadata

    def location_provider(self) -> LocationProvider:
        """Where files go, for other libraries. They write without keys, so they get no place for a data file."""
        places = self.new_places()
        return _NoDataPlaces(places, self.name()) if KEY_ID_PROPERTY in self.metadata.properties else places

    def new_places(self) -> LocationProvider:
        """Where new files go, for writers of this package."""
        return location_provider(self.metadata.location, self.metadata.properties, self.catalog.properties)

    def scan(
        self,
        row_filter: str | BooleanExpression = ALL,
        selected_fields: tuple[str, ...] = ("*",),
        case_sensitive: bool = True,
        snapshot_id: int | None = None,
        options: Properties = EMPTY_DICT,
        limit: int | None = None,
    ) -> EncryptedDataScan:
        return EncryptedDataScan(
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
    ) -> EncryptedIncrementalAppendScan:
        return EncryptedIncrementalAppendScan(
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
    def inspect(self) -> EncryptedInspect:
        return EncryptedInspect(self)

    def to_polars(self) -> pl.LazyFrame:
        return self.scan().to_polars().lazy()

    def to_daft(self) -> NoReturn:
        raise UnsupportedError(
            "to_daft() is not supported: Daft opens the files of a table itself and has no keys. Pass it "
            "table.scan().to_arrow() instead"
        )

    def to_bodo(self) -> NoReturn:
        raise UnsupportedError(
            "to_bodo() is not supported: Bodo opens the files of a table itself and has no keys. Pass it "
            "table.scan().to_arrow() instead"
        )

    def __datafusion_table_provider__(self, session: Any | None = None) -> NoReturn:
        raise UnsupportedError(
            "DataFusion's table provider is not supported: DataFusion opens the files of a table itself and has no "
            "keys. Pass it table.scan().to_arrow() instead"
        )


def new_places(table: Table) -> LocationProvider:
    """Where new files of any table go, for writers of this package."""
    return table.new_places() if isinstance(table, EncryptedTable) else table.location_provider()


class _NoDataPlaces(LocationProvider):
    """Refuses, before the first byte, a library that would write data files of an encrypted table by itself."""

    def __init__(self, places: LocationProvider, name: Identifier) -> None:
        super().__init__(places.table_location, places.table_properties)
        self._places, self._name = places, ".".join(name)

    def new_data_location(self, data_file_name: str, partition_key: PartitionKey | None = None) -> NoReturn:  # noqa: ARG002
        raise PlaintextFileError(
            f"{self._name} is encrypted, and whoever asks where to put a data file would write it without a key; "
            "nothing was written. Write by table.append(), overwrite(), upsert() or dynamic_partition_overwrite(), or "
            "on Spark. Rows of other libraries come as an Arrow table, such as frame.to_arrow() of polars and Daft"
        )

    def new_table_metadata_file_location(self, new_version: int = 0) -> str:
        return self._places.new_table_metadata_file_location(new_version)

    def new_metadata_location(self, metadata_file_name: str) -> str:
        return self._places.new_metadata_location(metadata_file_name)


class EncryptedInspect(InspectTable):
    """PyIceberg's metadata tables, with redacted key metadata."""

    def __init__(self, tbl: EncryptedTable) -> None:
        metadata = tbl.metadata.model_copy(
            update={"snapshots": [_redacted(snapshot) for snapshot in tbl.metadata.snapshots]}
        )
        super().__init__(EncryptedTable(tbl.name(), metadata, tbl.metadata_location, tbl.io, tbl.catalog, tbl.config))
        self._table = tbl

    def partitions(
        self, snapshot_id: int | None = None, row_filter: str | BooleanExpression = ALL, case_sensitive: bool = True
    ) -> pa.Table:
        """The files of each partition of a snapshot, counted; PyIceberg's makes an object for each file."""
        refuse_unknown(self._table.metadata)
        return partitions_table(self._table, snapshot_id, row_filter, case_sensitive=case_sensitive)

    def entries(self, snapshot_id: int | None = None) -> pa.Table:
        return entries_table(self._table, snapshot_of(self._table, snapshot_id), self._files_schema())

    def manifests(self) -> pa.Table:
        return _shown(super().manifests)

    def all_manifests(self) -> pa.Table:
        return _shown(super().all_manifests)

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        return self._of_snapshot(snapshot_id, tuple(DataFileContent))

    def data_files(self, snapshot_id: int | None = None) -> pa.Table:
        return self._of_snapshot(snapshot_id, DATA)

    def delete_files(self, snapshot_id: int | None = None) -> pa.Table:
        return self._of_snapshot(snapshot_id, DELETES)

    def all_files(self) -> pa.Table:
        return self._of_all_snapshots(tuple(DataFileContent))

    def all_data_files(self) -> pa.Table:
        return self._of_all_snapshots(DATA)

    def all_delete_files(self) -> pa.Table:
        return self._of_all_snapshots(DELETES)

    def _files_schema(self) -> pa.Schema:
        refuse_unknown(self._table.metadata)
        return inspected_files_schema(self)

    def _of_snapshot(self, snapshot_id: int | None, contents: Collection[DataFileContent]) -> pa.Table:
        # PyIceberg takes 0 for no number.
        is_empty = not snapshot_id and self._table.metadata.current_snapshot() is None
        snapshots = [] if is_empty else [snapshot_of(self._table, snapshot_id)]
        return files_table(self._table, snapshots, contents, self._files_schema())

    def _of_all_snapshots(self, contents: Collection[DataFileContent]) -> pa.Table:
        return files_table(self._table, self._table.metadata.snapshots, contents, self._files_schema())


def _shown(manifests: Callable[[], pa.Table]) -> pa.Table:
    try:
        return manifests()
    except (IndexError, struct.error) as error:
        raise FormatError(f"the partitions of a manifest do not fit their spec: {error}") from error


class _ShownSnapshot(V3Snapshot):
    def manifests(self, io: FileIO, **_: Any) -> list[ManifestFile]:
        return [_ShownManifest(*values_of(manifest)) for manifest in super().manifests(io)]


def _redacted(snapshot: V3Snapshot) -> _ShownSnapshot:
    return _ShownSnapshot.model_construct(**{name: getattr(snapshot, name) for name in V3Snapshot.model_fields})


class _ShownManifest(ManifestFileV3):
    @property
    def key_metadata(self) -> bytes | None:
        return None if super().key_metadata is None else REDACTED

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True, **_: Any) -> list[ManifestEntry]:
        entries = super().fetch_manifest_entry(io, discard_deleted)
        for entry in entries:
            file = entry.data_file
            shown = _ShownFile(*values_of(file))
            shown.spec_id = file.spec_id
            entry.data_file = shown
        return entries


class _ShownFile(DataFileV3):
    def __init__(self, *values: Any) -> None:
        # PyIceberg requires metrics, which a delete file need not have.
        super().__init__(*({} if at in _STATISTICS and value is None else value for at, value in enumerate(values)))

    @property
    def key_metadata(self) -> bytes | None:
        return None if super().key_metadata is None else REDACTED


_STATISTICS: Final = range(6, 12)
