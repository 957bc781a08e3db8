"""Tables as Spark sees them: descriptions, read options, and the statements that make, change and drop tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.changes import TableChange
from sealberg.spark.protocol.codec import Message, Struct
from sealberg.spark.protocol.handles import TableHandle

RowLevelMode = Literal["copy-on-write", "merge-on-read"]
PlanningMode = Literal["auto", "local", "distributed"]
StageMode = Literal["create", "replace", "create-or-replace"]


@dataclass(frozen=True)
class TransformField(Message):
    """A partition field: `column` is quoted as Spark parses it, `width` is that of bucket and truncate, else 0."""

    transform: str
    width: int
    column: str


@dataclass(frozen=True)
class ScanOptions(Message):
    """How a scan is planned and split into tasks; None where neither option, session nor table says anything."""

    split_size: int | None = None
    file_open_cost: int | None = None
    parallelism: int | None = None
    adaptive: bool | None = None
    vectorized: bool | None = None
    aggregates: bool | None = None
    locality: bool | None = None
    column_statistics: bool | None = None
    data_planning: PlanningMode | None = None
    delete_planning: PlanningMode | None = None


@dataclass(frozen=True)
class RowLevelModes(Message):
    """Whether a command writes files anew or marks rows in deletion vectors; None if the property cannot be read."""

    delete: RowLevelMode | None = None
    update: RowLevelMode | None = None
    merge: RowLevelMode | None = None


@dataclass(frozen=True)
class TableDescription(Message):
    """All that Java needs to know of a table at a snapshot.

    Args:
        handle: names the table in every later request of the query.
        name: as the query has named it, with the name of a branch or tag.
        schema: as Spark shows it.
        partition_type: of `_partition`: the fields of all partition specs.
        read_schema: with the types, ids and defaults by which files are read.
        record_count: rows of the snapshot, for Spark's statistics.
        size_in_bytes: data files of the snapshot, for Spark's statistics.
        filterable_columns: columns for which Parquet's own filters may be used.
        scan_options: None if a property of the table cannot be read.
    """

    TAG: ClassVar[str] = "table"
    handle: TableHandle
    name: str
    schema: Struct
    read_schema: Struct
    partitions: tuple[TransformField, ...]
    partition_type: Struct
    properties: Mapping[str, str]
    record_count: int
    size_in_bytes: int
    filterable_columns: tuple[str, ...]
    accepts_any_schema: bool
    evolves_schema: bool
    row_level_modes: RowLevelModes
    scan_options: ScanOptions | None = None


@dataclass(frozen=True)
class MetadataTableDescription(Message):
    """A metadata table, `hr.pay.files` for instance, at a snapshot.

    Args:
        handle: names the table and the snapshot in later requests.
        kind: files, snapshots ...
        name: as the query has named it.
        partition_columns: by which the rows are partitioned, quoted as Spark parses them.
    """

    TAG: ClassVar[str] = "metadata-table"
    handle: TableHandle
    kind: str
    name: str
    schema: Struct
    partition_columns: tuple[str, ...]


LoadedTable = TableDescription | MetadataTableDescription


@dataclass(frozen=True)
class LoadTable(Request):
    """A statement names a table.

    Args:
        table: its name, and behind it that of a branch, a tag or a metadata table.
        settings: spark.wap.* and spark.sql.iceberg.* of the session.
        version: of VERSION AS OF.
        timestamp_us: of TIMESTAMP AS OF.
    """

    table: tuple[str, ...]
    settings: Mapping[str, str]
    version: str | None = None
    timestamp_us: int | None = None
    ANSWER: ClassVar[Any] = LoadedTable


@dataclass(frozen=True)
class PartitionTransform(Message):
    """One expression of PARTITIONED BY; a transform without a column is refused by Python."""

    transform: str
    column: tuple[str, ...]
    width: str | None = None


@dataclass(frozen=True)
class TableDefinition(Message):
    """The columns, partitions and properties of CREATE and REPLACE TABLE."""

    table: tuple[str, ...]
    schema: Struct
    partitions: tuple[PartitionTransform, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class CreateTable(Request):
    definition: TableDefinition
    ANSWER: ClassVar[Any] = LoadedTable


@dataclass(frozen=True)
class AlterTable(Request):
    table: tuple[str, ...]
    changes: tuple[TableChange, ...]
    ANSWER: ClassVar[Any] = LoadedTable


@dataclass(frozen=True)
class DropTable(Request):
    """The answer says whether there was such a table."""

    table: tuple[str, ...]
    purge: bool
    ANSWER: ClassVar[Any] = bool


@dataclass(frozen=True)
class RenameTable(Request):
    table: tuple[str, ...]
    to: tuple[str, ...]


@dataclass(frozen=True)
class StageTable(Request):
    """CREATE or REPLACE TABLE AS SELECT: the table appears together with its rows."""

    mode: StageMode
    definition: TableDefinition
    ANSWER: ClassVar[Any] = TableDescription


@dataclass(frozen=True)
class CommitStagedTable(Request):
    handle: TableHandle


@dataclass(frozen=True)
class AbortStagedTable(Request):
    handle: TableHandle


@dataclass(frozen=True)
class ReadOptionsAnswer(Message):
    """`chosen` is the snapshot or branch that the options choose; None where they choose none."""

    scan_options: ScanOptions
    chosen: TableDescription | None = None


@dataclass(frozen=True)
class ResolveReadOptions(Request):
    """What the options of a read and the settings of the session choose of a table.

    Args:
        row_level: whether the rows are read to be changed.
    """

    handle: TableHandle
    options: Mapping[str, str]
    settings: Mapping[str, str]
    row_level: bool
    ANSWER: ClassVar[Any] = ReadOptionsAnswer
