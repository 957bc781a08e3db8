"""All procedures of a catalog by name, and the answers to the JVM's requests for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError
from sealberg.spark.driver.calls import Calls
from sealberg.spark.driver.procedures import audits, definitions, keys, maintenance, moves, refs, snapshots
from sealberg.spark.driver.procedures.signature import CallContext
from sealberg.spark.driver.session_settings import SessionSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from sealberg.spark.driver.calls import Call
    from sealberg.spark.driver.procedures.signature import Procedure
    from sealberg.spark.protocol.procedures import (
        CallProcedure,
        CancelProcedure,
        ContinueProcedure,
        ContinueWithFilter,
        ListProcedures,
        ProcedureDescription,
        ProcedureRows,
        ProcedureStep,
    )

BY_NAME: Final[dict[str, Procedure]] = {
    each.name: each
    for room in (snapshots, definitions, refs, maintenance, keys, moves, audits)
    for each in room.PROCEDURES
}


class Procedures:
    """The procedures of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._calls = Calls()

    def list(self, _: ListProcedures) -> tuple[ProcedureDescription, ...]:
        return tuple(procedure.signature for procedure in BY_NAME.values())

    def call(self, request: CallProcedure) -> ProcedureStep:
        SessionSettings.of(request.settings)  # an unknown setting is an error here as in every statement
        procedure = BY_NAME.get(request.procedure)
        if procedure is None:
            raise ConfigError(f"unknown procedure {request.procedure}; known are {', '.join(sorted(BY_NAME))}")

        def answer(call: Call) -> ProcedureRows:
            context = CallContext(
                self._catalog,
                request.current_namespace,
                request.arguments,
                call,
                procedure.name,
                call.resolve,
                request.case_sensitive,
            )
            return procedure.rows(procedure.call(context))

        step: ProcedureStep = self._calls.begin(f"CALL {self._catalog.name}.system.{procedure.name}", answer)
        return step

    def resume(self, request: ContinueProcedure | ContinueWithFilter) -> ProcedureStep:
        step: ProcedureStep = self._calls.resume(request)
        return step

    def cancel(self, request: CancelProcedure) -> None:
        self._calls.cancel(request)
