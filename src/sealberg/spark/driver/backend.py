"""The requests of the JVM to one catalog, each with the function that answers it; errors go back as values.

    call("load-table", {"table": ["hr", "salaries"], ...}) ──> {"ok": {...}}  or  {"error": {"kind": ..., "text": ...}}
         └─ LoadTable.from_json ──> Tables.load ──> LoadTable.ANSWER as JSON

One backend stands behind one catalog of a session. Calls come on the threads of `bridge_server`, several at a time.
Tables that are being created wait in the backend for their rows; nothing else is kept from one call to the next. No
request starts a Spark job: the job would need a connection while its caller holds one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from sealberg.errors import ConfigError
from sealberg.metadata.metadata_file import RecentTexts, remembering
from sealberg.spark.driver import metadata_tables, read_options, stream_planning
from sealberg.spark.driver.aggregates import aggregate
from sealberg.spark.driver.calls import Calls
from sealberg.spark.driver.commits import Writes
from sealberg.spark.driver.estimates import Estimates
from sealberg.spark.driver.java_kms import JavaKms
from sealberg.spark.driver.namespaces import Namespaces
from sealberg.spark.driver.planning import plan
from sealberg.spark.driver.procedures.registry import Procedures
from sealberg.spark.driver.storage import fresh_storage
from sealberg.spark.driver.tables import Tables
from sealberg.spark.error_text import error_text
from sealberg.spark.protocol import kms, namespaces, procedures, scans, streams, tables, writes
from sealberg.spark.protocol import metadata_tables as inspections
from sealberg.spark.protocol.calls import Failure, FailureKind, Request
from sealberg.spark.protocol.codec import encode
from sealberg.spark.protocol.storage import RefreshStorage
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

_KINDS: dict[type[Exception], FailureKind] = {
    NoSuchTableError: "no-such-table",
    TableAlreadyExistsError: "table-exists",
    NoSuchNamespaceError: "no-such-namespace",
    NamespaceAlreadyExistsError: "namespace-exists",
    NamespaceNotEmptyError: "namespace-not-empty",
}
_log = logging.getLogger(__name__)


class Backend:
    """The Python behind one catalog of a Spark session."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._texts = RecentTexts()
        self.tables = Tables(catalog)
        self.writes = Writes(self.tables)
        self._kms = JavaKms.of(catalog)
        acts = self._acts()
        self._acts_by_verb = {kind.verb(): (kind, act) for kind, act in acts.items()}

    def _acts(self) -> dict[type[Request], Callable[[Any], Any]]:
        named, called, plans = Namespaces(self.catalog), Procedures(self.catalog), Calls()
        return {
            namespaces.ListTables: named.tables,
            namespaces.ListNamespaces: named.list,
            namespaces.LoadNamespace: named.load,
            namespaces.CreateNamespace: named.create,
            namespaces.AlterNamespace: named.alter,
            namespaces.DropNamespace: named.drop,
            tables.LoadTable: self.tables.load,
            tables.CreateTable: self.tables.create,
            tables.AlterTable: self.tables.alter,
            tables.DropTable: self.tables.drop,
            tables.RenameTable: self.tables.rename,
            tables.StageTable: self.tables.stage,
            tables.CommitStagedTable: self.tables.commit_staged,
            tables.AbortStagedTable: self.tables.abort_staged,
            tables.ResolveReadOptions: lambda request: read_options.resolve(self.tables, request),
            inspections.ResolveMetadataOptions: lambda request: metadata_tables.resolve(self.tables, request),
            inspections.MetadataScanRequest: lambda request: metadata_tables.plan(self.tables, request),
            scans.ScanRequest: lambda request: plan(self.tables, plans, request),
            scans.ContinuePlan: plans.resume,
            scans.CancelPlan: plans.cancel,
            scans.EstimateRequest: Estimates(self.tables).estimate,
            scans.AggregateRequest: lambda request: aggregate(self.tables, request),
            streams.StreamStart: lambda _: stream_planning.start(),
            streams.StreamHead: lambda request: stream_planning.head(self.tables, request),
            streams.LatestOffset: lambda request: stream_planning.latest(self.tables, request),
            streams.StreamScanRequest: lambda request: stream_planning.planned(self.tables, request),
            **({} if self._kms is None else {kms.DescribeKms: self._kms.describe, kms.ServeKms: self._kms.serve}),
            RefreshStorage: lambda request: fresh_storage(self.tables, request),
            writes.BeginWrite: self.writes.begin,
            writes.CommitRequest: self.writes.commit,
            writes.CanDeleteWhere: self.writes.can_delete,
            writes.DeleteWhere: self.writes.delete,
            procedures.ListProcedures: called.list,
            procedures.CallProcedure: called.call,
            procedures.ContinueProcedure: called.resume,
            procedures.ContinueWithFilter: called.resume,
            procedures.CancelProcedure: called.cancel,
        }

    @property
    def has_java_kms(self) -> bool:
        """Whether the JVM has to run the KMS client."""
        return self._kms is not None

    def call(self, verb: str, arguments: Any) -> dict[str, Any]:
        """The answer to one request, as JSON on both sides."""
        try:
            if verb not in self._acts_by_verb:
                raise ConfigError(f"unknown verb {verb}: the jar and sealberg {__version__} must be of one version")
            kind, act = self._acts_by_verb[verb]
            with remembering(self._texts):
                return {"ok": encode(kind.ANSWER, act(kind.from_json(arguments)))}
        except Exception as error:  # noqa: BLE001 (the JVM must hear of every error)
            _log.debug("%s failed", verb, exc_info=True)
            return failed(error)


def failed(error: Exception) -> dict[str, Any]:
    """An error as an answer."""
    kind: FailureKind = next((kind for known, kind in _KINDS.items() if isinstance(error, known)), "error")
    return {"error": Failure(kind, error_text(error)).to_json()}
