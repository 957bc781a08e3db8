"""Plans of batch reads, estimates for the optimiser, and aggregates out of metadata.

ScanRequest ──> ScanPlan                                                 planned by the driver
ScanRequest ──> PlanTasks ── tasks of Spark ──> ContinuePlan ──> PlanTasks | PlanFiles | ScanPlan
│                         └── cancelled, or failed ──> CancelPlan
├─────────────> PlanFiles ── kept ──> ContinuePlan ──> PlanFiles | ScanPlan      more files than a message has
└── given up ──> CancelPlan
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Columns, Message, Scalar, Struct, Value
from sealberg.spark.protocol.filters import Filter
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.storage import StorageSettings
from sealberg.spark.protocol.tables import PlanningMode

WorkerVerb = Literal["read-file", "read-part", "find-deleted", "read-metadata"]
AggregateFunction = Literal["count-all", "count", "min", "max"]


@dataclass(frozen=True, slots=True)
class PlannedFile(Message):
    """A data file to read.

    Args:
        file_length: as key metadata or manifest say.
        record_count: of the whole file, deleted rows included.
        key: the data encryption key; None for a file that is not encrypted or that the Python worker reads.
        deleted_positions: a serialized bitmap of positions; None where no row is deleted.
        worker_verb: what the Python worker does: read the file or a part of it, find the deleted rows of a part, or
            read a metadata table.
        worker_payload: a pickled FilePayload or MetadataPayload for the Python worker.
        spec_id: for `_spec_id`.
        partition: for `_partition`, in the fields that the query asks for; None where it does not ask for the column.
    """

    location: str
    file_length: int
    record_count: int
    first_row_id: int | None = None
    sequence_number: int | None = None
    key: bytes | None = field(default=None, repr=False)
    aad_prefix: bytes | None = None
    deleted_positions: bytes | None = None
    worker_verb: WorkerVerb | None = None
    worker_payload: bytes | None = field(default=None, repr=False)
    spec_id: int | None = None
    partition: tuple[Value, ...] | None = None


@dataclass(frozen=True)
class ScanPlan(Message):
    """The files of a scan.

    Args:
        python: the program that executors start as the Python worker.
        files: one array for each field, since a plan may have ten thousand files.
        storage: None for a table without snapshots.
        table_payload: a pickled TablePayload; None where no file has a `worker_verb`.
        planning_tasks: how many tasks have read manifests; None where the driver has read them all.
    """

    TAG: ClassVar[str] = "plan"
    python: str
    files: Columns[PlannedFile]
    storage: StorageSettings | None = None
    table_payload: bytes | None = field(default=None, repr=False)
    planning_tasks: int | None = None


@dataclass(frozen=True)
class PlanTasks(Message):
    """Manifests for the tasks of Spark.

    Args:
        call: the id of the plan, for ContinuePlan.
        description: of the Spark job, for the UI.
        python: the program that executors start as the Python worker.
        tasks: pickled functions with their arguments, which hold the keys of their own manifests.
    """

    TAG: ClassVar[str] = "tasks"
    call: str
    description: str
    python: str
    tasks: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class PlanFiles(Message):
    """Some files of a plan that has very many; the others follow."""

    TAG: ClassVar[str] = "files"
    call: str
    files: Columns[PlannedFile]


PlanStep = ScanPlan | PlanTasks | PlanFiles


@dataclass(frozen=True)
class Planning(Message):
    """Who may plan a scan.

    Args:
        call: the id of the plan, for CancelPlan.
        data_mode, delete_mode: None is auto.
        slots: tasks that Spark runs at a time.
        parallelism: the same as Iceberg Java counts it: at least as many as a shuffle has partitions.
        most_result_bytes: of spark.driver.maxResultSize; 0 is no bound.
    """

    call: str
    slots: int
    parallelism: int
    most_result_bytes: int
    data_mode: PlanningMode | None = None
    delete_mode: PlanningMode | None = None


@dataclass(frozen=True)
class ScanRequest(Request):
    """The files that a query reads; `columns` are those that Spark asks for."""

    handle: TableHandle
    columns: Struct
    filters: tuple[Filter, ...]
    planning: Planning
    ANSWER: ClassVar[Any] = PlanStep


@dataclass(frozen=True)
class ContinuePlan(Request):
    """The results of the tasks, in the order of the tasks; none after PlanFiles."""

    call: str
    results: tuple[bytes, ...] = field(repr=False)
    ANSWER: ClassVar[Any] = PlanStep


@dataclass(frozen=True)
class CancelPlan(Request):
    """The Spark job of a plan has failed or was cancelled, or nobody waits for the plan; it ends, if it has begun."""

    call: str


@dataclass(frozen=True)
class Aggregate(Message):
    """`column` is None for count(*)."""

    function: AggregateFunction
    column: str | None = None


@dataclass(frozen=True)
class AggregateAnswer(Message):
    """None where the metadata do not tell all of the values. Decimals are texts."""

    values: tuple[Scalar, ...] | None = None


@dataclass(frozen=True)
class AggregateRequest(Request):
    handle: TableHandle
    aggregates: tuple[Aggregate, ...]
    ANSWER: ClassVar[Any] = AggregateAnswer


@dataclass(frozen=True)
class ColumnEstimate(Message):
    """Statistics of a column; None where they are not known.

    Args:
        lower, upper: the smallest and the largest value as texts: numbers, true and false, days and microseconds since
            1970. No string or binary column has them.
    """

    name: str
    distinct_count: int | None = None
    null_count: int | None = None
    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True)
class ScanEstimate(Message):
    """What a scan will read; None where nothing is known of the files.

    Args:
        size_in_bytes: of the whole files, all columns.
    """

    columns: tuple[ColumnEstimate, ...]
    record_count: int | None = None
    size_in_bytes: int | None = None


@dataclass(frozen=True)
class EstimateRequest(Request):
    """Statistics of a scan, for Spark's cost-based optimiser."""

    handle: TableHandle
    columns: Struct
    filters: tuple[Filter, ...]
    ANSWER: ClassVar[Any] = ScanEstimate
