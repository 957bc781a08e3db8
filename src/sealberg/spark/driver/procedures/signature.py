"""The signature of a procedure: its parameters, the columns of its result, and the function that answers a call.

    Procedure("rollback_to_snapshot", ..., (TABLE, required("snapshot_id", "long")), schema, rollback_to_snapshot)

    CALL prod.system.rollback_to_snapshot('hr.pay', 1)              by position
    CALL prod.system.rollback_to_snapshot(table => 'hr.pay', ...)   by name: Spark has matched and cast both

Names, order, types and result columns are Iceberg's wherever Iceberg has the procedure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sealberg.errors import ConfigError
from sealberg.spark.driver.arrow_json import json_field, json_value
from sealberg.spark.protocol.procedures import ProcedureDescription, ProcedureParameter, ProcedureRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from sealberg.jobs.runner import Runner
    from sealberg.spark.protocol.filters import Filter

STRINGS: Final = {"type": "array", "elementType": "string", "containsNull": True}
LONGS: Final = {"type": "array", "elementType": "long", "containsNull": True}
OPTIONS: Final = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
_RESOLVED: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|(\w+)")  # as Spark's parser, which takes other characters in quotes only


def required(name: str, kind: Any, comment: str = "") -> ProcedureParameter:
    return ProcedureParameter(name, kind, True, comment)


def optional(name: str, kind: Any, comment: str = "") -> ProcedureParameter:
    return ProcedureParameter(name, kind, False, comment)


TABLE: Final = required("table", "string", "the table, with its namespace")


@dataclass(frozen=True)
class CallContext:
    """What a call may use.

    Args:
        catalog: of the procedure.
        namespace: where a table whose name has one part is looked up.
        arguments: by the names of the parameters; None where the call has none.
        runner: runs the files of a job as tasks of the calling session.
        resolve: a filter in SQL on a table, as Spark's analyzer understands it.
        case_sensitive: whether Spark tells apart columns by the case of their letters.
    """

    catalog: Catalog
    namespace: tuple[str, ...]
    arguments: Mapping[str, Any]
    runner: Runner
    procedure: str
    resolve: Callable[[tuple[str, ...], str], Filter]
    case_sensitive: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def identifier(self, name: str = "table") -> tuple[str, ...]:
        """The table that an argument names, without the catalog."""
        given = self.required(name)
        parts = parse_identifier(given, f"{self.procedure}: argument {name}")
        if len(parts) > 2 and parts[0] == self.catalog.name:
            parts = parts[1:]
        if len(parts) == 1 and not self.namespace:
            raise ConfigError(
                f"{self.procedure}: argument {name} is {given!r}, expected a namespace before the name of the table"
            )
        return parts if len(parts) > 1 else (*self.namespace, *parts)

    def table(self, name: str = "table") -> Table:
        return self.catalog.load_table(self.identifier(name))

    def required(self, name: str) -> Any:
        value = self[name]
        if value is None or value == "":
            raise ConfigError(f"{self.procedure}: argument {name} is missing or NULL, expected a value")
        return value


@dataclass(frozen=True)
class Procedure:
    """A procedure of the namespace `system`.

    Args:
        columns: of the result.
        call: returns the rows of the result, as dictionaries by column or as tuples.
    """

    name: str
    description: str
    parameters: tuple[ProcedureParameter, ...]
    columns: pa.Schema
    call: Callable[[CallContext], Iterable[Sequence[Any]]] = field(repr=False)

    @property
    def signature(self) -> ProcedureDescription:
        return ProcedureDescription(self.name, self.description, self.parameters)

    def rows(self, found: Iterable[Sequence[Any]]) -> ProcedureRows:
        fields = [json_field(column, moment=True) for column in self.columns]
        rows = (
            tuple(json_value(value, column.type) for value, column in zip(row, self.columns, strict=True))
            for row in found
        )
        return ProcedureRows({"type": "struct", "fields": fields}, tuple(rows))


def columns(**kinds: pa.DataType) -> pa.Schema:
    """Result columns that are never null; a name that ends in `_or_null` may be, and loses the ending."""
    return pa.schema(
        [
            pa.field(name.removesuffix("_or_null"), kind, nullable=name.endswith("_or_null"))
            for name, kind in kinds.items()
        ]
    )


def parse_identifier(text: str, what: str, *, resolved: bool = False) -> tuple[str, ...]:
    """hr.pay and `odd.name`.pay in their parts, as Spark's SQL has them.

    Args:
        resolved: by Spark, which may leave out quotes around anything but dots.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = (_RESOLVED if resolved else _PART).match(text, at)
        if found is None:
            raise ConfigError(f"{what} is {text!r}, expected the name of a table such as hr.pay or `odd name`.pay")
        parts.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            raise ConfigError(f"{what} is {text!r}, expected a dot at position {at + 1}")
        at += 1
