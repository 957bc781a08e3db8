"""CALL, SHOW PROCEDURES and DESCRIBE PROCEDURE.

    CallProcedure ──> ProcedureRows                                              a procedure that needs no tasks
    CallProcedure ──> ProcedureTasks ── tasks of Spark ──> ContinueProcedure ──> ProcedureTasks | ProcedureRows
                                     └── cancelled, or failed ──> CancelProcedure
    CallProcedure ──> ProcedureFilter ── Spark's analyzer ──> ContinueWithFilter ──> as above

The JVM runs the tasks, so they are tasks of the session that called the procedure: visible in its UI, and cancelled
with its job. No request waits for a Spark job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message, SparkType, Struct, Value
from sealberg.spark.protocol.filters import Filter


@dataclass(frozen=True)
class ProcedureParameter(Message):
    """A parameter; one that is not required is NULL if the call leaves it out."""

    name: str
    type: SparkType
    required: bool
    comment: str


@dataclass(frozen=True)
class ProcedureDescription(Message):
    name: str
    description: str
    parameters: tuple[ProcedureParameter, ...]


@dataclass(frozen=True)
class ListProcedures(Request):
    """All procedures of a catalog, which are in its namespace `system`."""

    ANSWER: ClassVar[Any] = tuple[ProcedureDescription, ...]


@dataclass(frozen=True)
class ProcedureRows(Message):
    """The result; `arrow_json` says how the values are encoded."""

    TAG: ClassVar[str] = "rows"
    schema: Struct
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class ProcedureTasks(Message):
    """Work for the tasks of Spark.

    Args:
        call: the id of the call, for ContinueProcedure.
        description: of the Spark job, for the UI.
        python: the program that executors start as the Python worker.
        tasks: pickled functions with their arguments, which hold the keys of their own files.
    """

    TAG: ClassVar[str] = "tasks"
    call: str
    description: str
    python: str
    tasks: tuple[bytes, ...]


@dataclass(frozen=True)
class ProcedureFilter(Message):
    """A filter that Spark must resolve against the columns of a table, and optimize."""

    TAG: ClassVar[str] = "filter"
    call: str
    table: tuple[str, ...]
    text: str


ProcedureStep = ProcedureRows | ProcedureTasks | ProcedureFilter


@dataclass(frozen=True)
class CallProcedure(Request):
    """Call a procedure.

    Args:
        procedure: the name of the procedure.
        arguments: by the names of the parameters; null where the call has none.
        current_namespace: where a table whose name has one part is looked up.
        settings: spark.wap.* and spark.sql.iceberg.* of the session.
        case_sensitive: whether Spark tells apart columns by the case of their letters.
    """

    procedure: str
    arguments: Mapping[str, Value]
    current_namespace: tuple[str, ...]
    settings: Mapping[str, str]
    case_sensitive: bool
    ANSWER: ClassVar[Any] = ProcedureStep


@dataclass(frozen=True)
class ContinueProcedure(Request):
    """The results of the tasks, in the order of the tasks."""

    call: str
    results: tuple[bytes, ...]
    ANSWER: ClassVar[Any] = ProcedureStep


@dataclass(frozen=True)
class ContinueWithFilter(Request):
    """The filter, resolved."""

    call: str
    filter: Filter
    ANSWER: ClassVar[Any] = ProcedureStep


@dataclass(frozen=True)
class CancelProcedure(Request):
    """The Spark job of a call has failed or was cancelled; the call ends, and cleans up what it has begun.

    Args:
        results: of the tasks that were finished by then, in any order: what they have written is deleted.
    """

    call: str
    results: tuple[bytes, ...]
