"""Metadata tables on Spark, `hr.salaries.files` for instance: described, chosen by options, planned.

    hr.salaries.files                        ──> MetadataTableDescription: columns, and the snapshot that is read
    VERSION AS OF, snapshot-id, branch ...   ──> the same at another snapshot
    MetadataScanRequest                      ──> MetadataPlan: the rows, if they are few
                                                 or pieces, which Python workers read beside Spark's tasks

What is few is counted in cells: rows times columns. An answer has at most INLINE_CELLS of them, and so has a task,
unless one manifest or delete file alone has more; a worker sends rows on in batches. The tables without pieces
(`snapshots`, `manifests`, `partitions` ...) are as long as the metadata that the driver holds anyway, or as the number
of partitions.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.transforms import VoidTransform
from pyiceberg.types import ListType, MapType, StructType
from pyiceberg.utils.concurrent import ExecutorFactory

from sealberg.errors import ConfigError, ConflictError
from sealberg.files.confined_io import check_store
from sealberg.files.file_io import EncryptingFileIO
from sealberg.spark.arrow import to_spark
from sealberg.spark.driver.arrow_json import json_value
from sealberg.spark.driver.read_options import BY_SPARK, POINTS, ReadOptions, chosen_snapshot
from sealberg.spark.driver.storage import data_folder, storage
from sealberg.spark.metadata_tables.kinds import OF_ALL_SNAPSHOTS, OF_ONE_SNAPSHOT
from sealberg.spark.metadata_tables.pieces import PieceReader, pieces, whole_rows
from sealberg.spark.metadata_tables.schemas import schema
from sealberg.spark.metadata_tables.unified_partition import partition_fields
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.metadata_tables import MetadataPlan
from sealberg.spark.protocol.scans import PlannedFile, ScanPlan
from sealberg.spark.protocol.tables import MetadataTableDescription
from sealberg.spark.types import spark_schema
from sealberg.spark.worker.payload import MetadataPayload, PiecesPayload, python_program, strip_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.metadata_tables.pieces import Piece
    from sealberg.spark.protocol.metadata_tables import MetadataScanRequest, ResolveMetadataOptions

INLINE_CELLS: Final = 400_000
READ_METADATA: Final = "read-metadata"


def describe(table: Table, kind: str, past: Snapshot | None) -> MetadataTableDescription:
    """A metadata table of the current snapshot, or of one in the past."""
    name = f"{'.'.join(table.name())}.{kind}"
    if past is not None:
        _check_travels(name, kind)
    handle = _handle(table, past or table.metadata.current_snapshot(), past=past is not None)
    columns = spark_schema(schema(table.metadata, kind))
    return MetadataTableDescription(handle, kind, name, columns, tuple(_partition_columns(table, kind)))


def _partition_columns(table: Table, kind: str) -> Iterator[str]:
    """Java shows `position_deletes` as partitioned like the table, and no other metadata table."""
    if kind == "position_deletes":
        shown = {field.field_id: field.name for field in partition_fields(table.metadata)}
        for field in table.metadata.spec().fields:
            if field.field_id in shown and not isinstance(field.transform, VoidTransform):
                yield "partition.`{}`".format(shown[field.field_id].replace("`", "``"))


def _handle(table: Table, snapshot: Snapshot | None, *, past: bool) -> TableHandle:
    metadata = table.metadata
    snapshot_id = snapshot.snapshot_id if snapshot is not None else None
    uuid, location = str(metadata.table_uuid), table.metadata_location
    return TableHandle(tuple(table.name()), uuid, metadata.current_schema_id, past, snapshot_id, location)


def _check_travels(name: str, kind: str) -> None:
    """As in Java: `all_files` of one snapshot would be a contradiction, and `snapshots` are those of the table."""
    if kind in OF_ALL_SNAPSHOTS:
        raise ConfigError(
            f"{name} is the same at every snapshot, so VERSION AS OF, TIMESTAMP AS OF, {', '.join(POINTS)} have no "
            f"meaning there; they choose a snapshot of {', '.join(OF_ONE_SNAPSHOT)}"
        )


def resolve(tables: Tables, request: ResolveMetadataOptions) -> TableHandle:
    """The handle of the snapshot that the options of a read choose."""
    handle = request.handle
    name = f"{handle.name}.{request.kind}"
    given = {key: value for key, value in request.options.items() if not (handle.past and key.lower() in BY_SPARK)}
    if other := sorted(key for key in given if key.lower() not in POINTS):
        raise ConfigError(
            f"{name} is a metadata table, which takes {', '.join(POINTS)} only; leave out {', '.join(other)}"
        )
    options = ReadOptions.of(name, given)
    if not options.chooses:
        return handle
    _check_travels(name, request.kind)
    if handle.past:
        raise ConfigError(f"{name} is already read at a point in time: leave out {options.named}")
    table = tables.named(handle)
    return _handle(table, chosen_snapshot(table, name, options), past=True)


def plan(tables: Tables, request: MetadataScanRequest) -> MetadataPlan:
    """The rows of a metadata table, or how tasks read them."""
    handle, kind = request.handle, request.kind
    table = tables.named(handle)
    snapshot = table.metadata.snapshot_by_id(handle.snapshot_id) if handle.snapshot_id is not None else None
    if snapshot is None and handle.snapshot_id is not None and kind in OF_ONE_SNAPSHOT:
        raise ConflictError(f"snapshot {handle.snapshot_id} of {handle.name} has expired since this query named it")
    names = [field["name"] for field in request.columns["fields"]]
    reader = PieceReader(table.metadata, table.io, kind, names)
    found = pieces(table, kind, snapshot)
    if found is None:
        return MetadataPlan(_json_rows(reader.made(whole_rows(table, kind, snapshot)), request.columns))
    cells = _cells(table, kind, names)
    if sum(piece.rows for piece in found) * cells <= INLINE_CELLS:
        read = ExecutorFactory.get_or_create().map(lambda piece: list(reader.batches(piece)), found)
        return MetadataPlan(_json_rows(chain.from_iterable(read), request.columns))
    return MetadataPlan(plan=_in_tasks(table, kind, found, max(1, INLINE_CELLS // cells)))


def _in_tasks(table: Table, kind: str, found: Sequence[Piece], most_rows: int) -> ScanPlan:
    io, name = table.io, f"{'.'.join(table.name())}.{kind}"
    for piece in found:
        check_store(io, piece.location)  # which the FileIO does where the driver reads
    allow_plaintext = isinstance(io, EncryptingFileIO) and io.allow_plaintext
    payload = MetadataPayload(strip_metadata(table.metadata), kind, isinstance(io, EncryptingFileIO), allow_plaintext)
    files = [
        # The length is a weight only: no such file is opened.
        PlannedFile(
            name,
            1,
            sum(piece.rows for piece in group),
            worker_verb=READ_METADATA,
            worker_payload=PiecesPayload(group).pickled(),
        )
        for group in _grouped(found, most_rows)
    ]
    return ScanPlan(python_program(), tuple(files), storage(io, data_folder(table.metadata)), payload.pickled())


def _grouped(found: Iterable[Piece], most_rows: int) -> Iterator[tuple[Piece, ...]]:
    """The pieces of each task: as many as have this many rows together, and one at least."""
    group: list[Piece] = []
    rows = 0
    for piece in found:
        if group and rows + piece.rows > most_rows:
            yield tuple(group)
            group, rows = [], 0
        group.append(piece)
        rows += piece.rows
    if group:
        yield tuple(group)


def _cells(table: Table, kind: str, names: Sequence[str]) -> int:
    """The values of a row; a map has one for each column of the table."""
    columns = len(table.metadata.schema().field_ids)
    whole = schema(table.metadata, kind)
    return 1 + sum(_values(field.field_type, columns) for field in whole.fields if field.name in names)


def _values(kind: IcebergType, columns: int) -> int:
    match kind:
        case StructType():
            return sum(_values(field.field_type, columns) for field in kind.fields)
        case MapType() | ListType():
            return 2 * columns
    return 1


def _json_rows(batches: Iterable[pa.RecordBatch], columns: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        made = to_spark(batch, columns)
        arrays = [[json_value(value, array.type) for value in array.to_pylist()] for array in made.columns]
        found += zip(*arrays, strict=True) if arrays else [()] * batch.num_rows
    return tuple(found)
