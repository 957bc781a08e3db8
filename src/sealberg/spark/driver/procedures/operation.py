"""The procedure of an operation, made from its options: CALL prod.system.NAME(...).

    the fields of the options ──> parameters: name, type, required, comment
    arguments ──> options ──> plan ──> executed by tasks of the calling session ──> rows

Iceberg's procedures have names, an order and further parameters of their own, which are given beside the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sealberg.jobs.core import Tables
from sealberg.jobs.selection import dotted
from sealberg.spark.driver.procedures.signature import LONGS, OPTIONS, STRINGS, TABLE, CallContext, Procedure
from sealberg.spark.driver.procedures.where import row_filter
from sealberg.spark.protocol.procedures import ProcedureParameter

if TYPE_CHECKING:
    import pyarrow as pa

    from sealberg.jobs.core import Operation, Parameter

Rows = Iterable[Sequence[Any]]
# How a parameter is written in SQL, by the kind of its field.
KINDS: Final[dict[str, Any]] = {
    "TableName": "string",
    "name": "string",
    "str": "string",
    "Level": "string",
    "filter": "string",
    "int": "integer",
    "snapshot": "long",
    "bool": "boolean",
    "timedelta | datetime": "timestamp",
    "Iterable[int]": LONGS,
    "Iterable[str]": STRINGS,
    "names": STRINGS,
    "entries": OPTIONS,
}


def moment(call: CallContext, name: str) -> datetime | None:
    """A timestamp of SQL."""
    micros = call[name]
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


VALUES: Final[dict[str, Callable[[CallContext, str], Any]]] = {
    "TableName": lambda call, name: call.identifier(name),
    "name": lambda call, name: dotted(call.identifier(name)),
    "timedelta | datetime": moment,
    "filter": lambda call, _: row_filter(call),
}


def procedure(
    operation: Operation[Any],
    description: str,
    columns: pa.Schema,
    rows: Callable[[CallContext, Any], Rows],
    *,
    before: Callable[[CallContext], None] | None = None,
    more: tuple[ProcedureParameter, ...] = (),
) -> Procedure:
    """The procedure with the name and the parameters of an operation.

    Args:
        rows: of the result.
        before: refuses a call.
        more: parameters that are for `before`.
    """

    def call(context: CallContext) -> Rows:
        if before is not None:
            before(context)
        return rows(context, executed(operation, context))

    name = operation.name.replace("-", "_")
    return Procedure(name, description, (*parameters(operation), *more), columns, call)


def parameters(operation: Operation[Any], *names: str) -> tuple[ProcedureParameter, ...]:
    """The parameters of an operation in SQL: all, or those with these names in this order."""
    known = {each.sql: _described(each.sql, each) for each in operation.parameters if each.sql is not None}
    if issubclass(operation.options, Tables):
        known = {TABLE.name: replace(TABLE, required=not operation.options.ALL_BY_DEFAULT), **known}
    return tuple(known[name] for name in names or known)


def _described(name: str, each: Parameter) -> ProcedureParameter:
    comment = f"{each.help[0].lower()}{each.help[1:].removesuffix('.')}"
    return ProcedureParameter(name, KINDS[each.kind], each.is_required, comment)


def executed(operation: Operation[Any], call: CallContext, **more: Any) -> Any:
    """The result of the operation with the arguments of a call, and with options that SQL does not have."""
    runner = more.pop("using", call.runner)
    options = {**arguments(operation, call), **more}
    if any(each.name == "runner" for each in operation.parameters):
        options["runner"] = runner
    plan = operation.of(operation.options(catalog=call.catalog, **options))
    return plan.execute(runner=runner) if operation.on_files else plan.execute()


def arguments(operation: Operation[Any], call: CallContext) -> dict[str, Any]:
    """The arguments of a call, by the names of the fields; a field of which nothing was said is left to its default."""
    given: dict[str, Any] = {}
    for each in operation.parameters:
        if each.sql is None or (call[each.sql] is None and not each.is_required):
            continue
        if each.is_required:
            call.required(each.sql)
        given[each.name] = VALUES.get(each.kind, CallContext.__getitem__)(call, each.sql)
    if issubclass(operation.options, Tables) and (call["table"] is not None or not operation.options.ALL_BY_DEFAULT):
        given["tables"] = (call.identifier(),)
    return given
