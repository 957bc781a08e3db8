"""Plans of writes, and commits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message, Scalar, Struct
from sealberg.spark.protocol.filters import Filter
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.storage import StorageSettings

WriteMode = Literal["append", "overwrite", "overwrite-partitions", "copy-on-write", "merge-on-read"]
Command = Literal["delete", "update", "merge"]
Distribution = Literal["none", "hash", "range"]


@dataclass(frozen=True)
class PartitionPath(Message):
    """A partition field, with the names from the top of the schema down to its column."""

    transform: str
    width: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class SortField(Message):
    """A field of the table's sort order; `column` is quoted as Spark parses it."""

    transform: str
    width: int
    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class BloomFilterOptions(Message):
    """A bloom filter of one column; `ndv` is the number of distinct values."""

    fpp: float
    ndv: int | None = None


@dataclass(frozen=True)
class ParquetOptions(Message):
    """How Parquet files are written; `bloom_filters` are by the path of their column."""

    codec: str
    row_group_bytes: int
    page_bytes: int
    dictionary_bytes: int
    page_rows: int
    bloom_max_bytes: int
    bloom_adaptive: bool
    bloom_filters: Mapping[str, BloomFilterOptions]
    level: int | None = None


@dataclass(frozen=True)
class AvroOptions(Message):
    """How the Python worker writes Avro files: the program to start, and a pickled AvroWritePayload."""

    python: str
    payload: bytes


@dataclass(frozen=True)
class WritePlan(Message):
    """What the tasks of a write must know; no key is among it.

    Args:
        schema: of the files.
        field_ids: of columns, elements, keys and values, by their path in a Parquet file.
        fixed_lengths: of fixed columns, by their path; -1 for a uuid.
        distribution: how Spark distributes rows to tasks.
        clustered: whether each task gets its rows sorted by partition.
        folder: where data files go.
        key_length: of data encryption keys, in bytes; 0 for a table that is not encrypted.
        parquet: None where the files are Avro files.
        avro: None where the files are Parquet files.
        advisory_partition_size: None where Spark decides.
        column_positions: of a table that accepts any schema: where each column is in a row of the query, -1 for none.
    """

    schema: Struct
    field_ids: Mapping[str, int]
    fixed_lengths: Mapping[str, int]
    partitions: tuple[PartitionPath, ...]
    distribution: Distribution
    clustered: bool
    order: tuple[SortField, ...]
    folder: str
    storage: StorageSettings
    key_length: int
    target_file_size: int
    schema_id: int
    spec_id: int
    sort_order_id: int
    parquet: ParquetOptions | None = None
    avro: AvroOptions | None = None
    advisory_partition_size: int | None = None
    column_positions: tuple[int, ...] | None = None


@dataclass(frozen=True)
class WriteRequest(Message):
    """One write, as Spark has planned it; the same at its beginning and at its commit.

    Args:
        options: of the write.
        settings: of the session when the write was planned.
        case_sensitive: whether Spark tells apart columns by the case of their letters.
        command: of a row-level operation; None for INSERT.
        query_schema: of the rows that come; None for a row-level operation.
        filters: that choose the rows of an overwrite.
    """

    handle: TableHandle
    mode: WriteMode
    options: Mapping[str, str]
    settings: Mapping[str, str]
    case_sensitive: bool
    command: Command | None = None
    query_schema: Struct | None = None
    filters: tuple[Filter, ...] | None = None


@dataclass(frozen=True)
class BeginWrite(Request):
    write: WriteRequest
    ANSWER: ClassVar[Any] = WritePlan


@dataclass(frozen=True)
class WrittenFile(Message):
    """A data file that a task has written.

    Args:
        key: the data encryption key, made by the task; None for a table that is not encrypted.
        footer: of a Parquet file, where fetching it from the store would cost a request.
        partition: its values; bytes are base64, decimals are texts.
    """

    location: str
    file_length: int
    record_count: int
    partition: tuple[Scalar, ...]
    key: bytes | None = field(default=None, repr=False)
    aad_prefix: bytes | None = None
    footer: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DeletedPositions(Message):
    """Rows of one data file that a merge-on-read command deletes; `positions` is a serialized bitmap."""

    location: str
    positions: bytes


@dataclass(frozen=True)
class StreamEpoch(Message):
    """One batch of a streaming query."""

    query_id: str
    epoch_id: int


@dataclass(frozen=True)
class CommitRequest(Request):
    """The files of all tasks, as one commit.

    Args:
        schema_id: that the tasks wrote with, as spec_id and sort_order_id are; from the WritePlan.
        scan_filters: of the scan of a row-level operation.
        replaced: the locations that a copy-on-write command has read whole.
    """

    write: WriteRequest
    schema_id: int
    spec_id: int
    sort_order_id: int
    files: tuple[WrittenFile, ...]
    deleted: tuple[DeletedPositions, ...]
    scan_filters: tuple[Filter, ...] | None = None
    replaced: tuple[str, ...] | None = None
    epoch: StreamEpoch | None = None


@dataclass(frozen=True)
class DeleteWhere(Request):
    """DELETE of whole files, which needs no task."""

    handle: TableHandle
    filters: tuple[Filter, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class CanDeleteWhere(Request):
    """The answer says whether the filters match whole files only, as the partitions tell."""

    handle: TableHandle
    filters: tuple[Filter, ...]
    settings: Mapping[str, str]
    ANSWER: ClassVar[Any] = bool
