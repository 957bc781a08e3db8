"""Requests of the JVM, each answered by the backend of its catalog.

    {"catalog": "prod", "verb": "load-table", "arguments": {...}} ──> Backend of prod ──> {"ok": ...}

One dispatcher serves all catalogs of a process. A program puts catalogs into the dispatcher by `install`; in a process
that a JVM has started, the JVM asks for a catalog by OpenCatalog. An error is an answer, too: the JVM makes an
exception of the error.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from sealberg.errors import ConfigError
from sealberg.keys.audit import OnBehalfOf, on_behalf_of
from sealberg.spark.catalog_options import check_session
from sealberg.spark.driver.backend import failed
from sealberg.spark.protocol.calls import Call, Session
from sealberg.spark.protocol.frames import MOST_FRAME
from sealberg.spark.protocol.processes import OpenCatalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.spark.driver.backend import Backend

_log = logging.getLogger(__name__)


class Dispatcher:
    """The backends of this process, by the names of their catalogs; safe to share among threads."""

    def __init__(self, open_catalog: Callable[[str, OpenCatalog], Backend] | None = None) -> None:
        """With no catalogs yet.

        Args:
            open_catalog: the backend for a catalog's name and what Spark was started with; None in a process whose
                program calls `install`.
        """
        self._backends: dict[str, Backend] = {}
        self._open_catalog = open_catalog

    def install(self, catalog: str, backend: Backend) -> None:
        self._backends[catalog] = backend

    def serves(self, catalog: str) -> bool:
        return catalog in self._backends

    def answer(self, request: bytes) -> bytes:
        """The answer to one request, as bytes on both sides."""
        try:
            call = Call.from_json(json.loads(request))
            answer = json.dumps(self._answer(call), separators=(",", ":")).encode()
            if len(answer) > MOST_FRAME:
                raise ConfigError(
                    f"the answer has {len(answer)} bytes, the JVM takes {MOST_FRAME}: ask for fewer files"
                )
        except Exception as error:  # noqa: BLE001 (the JVM must hear of every error)
            _log.debug("a request failed", exc_info=True)
            return json.dumps(failed(error)).encode()
        return answer

    def _answer(self, call: Call) -> dict[str, Any]:
        own = self._open_catalog is None  # the sessions are those of the program that calls `install`
        session = call.session or Session(())
        check_session(call.catalog, session.settings, own=own)
        client = None if session.user is None else OnBehalfOf(session.user, bool(session.authenticated))
        on_behalf_of.set(client)  # of this thread, at each request anew
        if call.verb == OpenCatalog.verb() and self._open_catalog is not None:
            opened = self._open_catalog(call.catalog, OpenCatalog.from_json(call.arguments))
            self.install(call.catalog, opened)
            return {"ok": opened.has_java_kms}
        backend = self._backends.get(call.catalog)
        if backend is None:
            raise ConfigError(f"catalog {call.catalog} is not installed: call sealberg.spark.install(spark)")
        return backend.call(call.verb, call.arguments)
