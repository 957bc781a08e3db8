"""What Java asks for, verb by verb; errors go back as values.

    call("load", {"table": ["hr", "salaries"]}) ──> {"ok": {...}}  or  {"error": {"kind": ..., "text": ...}}

One backend stands behind one catalog of a session. Calls come on the threads of `bridge_server`, several at a time; all
that lives from one call to the next are tables that are being created, which wait here for their rows. No verb starts
a Spark job: the job would need a connection while its caller holds one.
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
from sealberg.spark.driver import read_options
from sealberg.spark.driver import stream_planning as stream_verbs
from sealberg.spark.driver.aggregates import aggregate
from sealberg.spark.driver.commits import Writes
from sealberg.spark.driver.namespaces import Namespaces
from sealberg.spark.driver.planning import plan
from sealberg.spark.driver.storage import fresh_storage
from sealberg.spark.driver.tables import Tables
from sealberg.spark.error_text import error_text
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog

_KINDS: dict[type[Exception], str] = {
    NoSuchTableError: "no-such-table",
    TableAlreadyExistsError: "table-exists",
    NoSuchNamespaceError: "no-such-namespace",
    NamespaceAlreadyExistsError: "namespace-exists",
    NamespaceNotEmptyError: "namespace-not-empty",
}
_log = logging.getLogger(__name__)


class Backend:
    """The Python behind one catalog of a Spark session."""

    def __init__(self, catalog: Catalog, options: Mapping[str, str] | None = None) -> None:
        self.catalog = catalog
        self._options = dict(options or {})  # of spark.sql.catalog.NAME.*, as they were when the catalog was loaded
        self._texts = RecentTexts()
        self.tables = tables = Tables(catalog)
        self.writes = writes = Writes(tables)
        names = Namespaces(catalog)
        self._verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "list-tables": names.tables,
            "list-namespaces": names.list,
            "load-namespace": names.load,
            "create-namespace": names.create,
            "alter-namespace": names.alter,
            "drop-namespace": names.drop,
            "load": self._load,
            "create": tables.create,
            "alter": tables.alter,
            "drop": tables.drop,
            "rename": tables.rename,
            "stage": tables.stage,
            "commit-staged": tables.commit_staged,
            "abort-staged": tables.abort_staged,
            "read-options": lambda arguments: read_options.resolve(tables, arguments),
            "plan": lambda arguments: plan(tables, arguments),
            "stream-last": lambda arguments: stream_verbs.last(tables, arguments),
            "stream-latest": lambda arguments: stream_verbs.latest(tables, arguments),
            "stream-plan": lambda arguments: stream_verbs.planned(tables, arguments),
            "storage": lambda arguments: fresh_storage(tables, arguments),
            "aggregate": lambda arguments: aggregate(tables, arguments),
            "begin-write": writes.begin,
            "commit": writes.commit,
            "can-delete": writes.can_delete,
            "delete": writes.delete,
        }

    def _load(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """A statement names a table. An option of the catalog that was changed since `install` would not be obeyed."""
        given: dict[str, str] = arguments.get("options", {})
        loaded = {f"spark.sql.catalog.{self.catalog.name}.{key}": value for key, value in self._options.items()}
        if differ := sorted(key for key, value in given.items() if loaded.get(key) != value):
            raise ConfigError(
                f"{', '.join(differ)} changed after sealberg.spark.install: call install(spark, replace=True), or set "
                "the option back"
            )
        return self.tables.load(arguments)

    def call(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Does what Java asks for."""
        try:
            act = self._verbs.get(verb)
            if act is None:
                raise ConfigError(f"unknown verb {verb}: the jar and sealberg {__version__} must be of one version")
            with remembering(self._texts):
                return {"ok": act(arguments)}
        except Exception as error:  # noqa: BLE001 (whatever it is, Java must hear of it)
            _log.debug("%s failed", verb, exc_info=True)
            return failed(error)


def failed(error: Exception) -> dict[str, Any]:
    """An error as an answer."""
    kind = next((kind for known, kind in _KINDS.items() if isinstance(error, known)), "error")
    return {"error": {"kind": kind, "text": error_text(error)}}
