"""The audit log: one line of JSON for each call to a KMS, and one for each table opened from the KEK cache.

A copy of a table into plaintext (`sealberg decrypt`) has a line when it begins and one when it ends, with its reason.

    {"time": "2026-01-31T12:00:00.000Z", "event": "unwrap", "table": "hr.salaries", "kek_id": "...",
     "master_key_id": "hr", "kms": "vault", "pid": 4711, "user": "etl", "result": "ok"}

The lines go to the logger `sealberg.audit` at level INFO. Unless the application sets that level and
adds a handler, no line is computed or written. docs/audit.md describes the fields.
No field holds a byte of a key: an error is recorded by its type only.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOGGER: Final = logging.getLogger("sealberg.audit")
LOGGER.addHandler(logging.NullHandler())  # without a handler Python prints to stderr


@dataclass(frozen=True, slots=True)
class OnBehalfOf:
    """A user of a server for SQL, and whether the server has proved that it is this user."""

    user: str
    authenticated: bool


on_behalf_of: Final[ContextVar[OnBehalfOf | None]] = ContextVar("on_behalf_of", default=None)


@dataclass(frozen=True, slots=True)
class KeyUse:
    """Which key of which table is used."""

    table: str
    kek_id: str
    master_key_id: str
    kms: str | None

    @contextmanager
    def recorded(self, event: str) -> Iterator[None]:
        """A context around one call to the KMS; writes one line when the call succeeds or fails."""
        try:
            yield
        except BaseException as error:
            self.record(event, error=type(error).__name__)
            raise
        self.record(event)

    def record(self, event: str, *, error: str | None = None) -> None:
        about = {"kek_id": self.kek_id, "master_key_id": self.master_key_id, "kms": self.kms}
        _write(event, self.table, about, "ok" if error is None else "error", error)


@dataclass(frozen=True, slots=True)
class Decryption:
    """A table is copied into plaintext, and why."""

    table: str
    target: str
    reason: str

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """A context around the copy; writes one line before it and one line when it succeeds or fails."""
        about = {"target": self.target, "reason": self.reason}
        _write("decrypt", self.table, about, "begun")
        try:
            yield
        except BaseException as error:
            _write("decrypt", self.table, about, "error", type(error).__name__)
            raise
        _write("decrypt", self.table, about, "ok")


def _write(event: str, table: str, about: Mapping[str, str | None], result: str, error: str | None = None) -> None:
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": event,
        "table": table,
        **about,
        "pid": os.getpid(),
        "user": _user(os.geteuid()),
        "result": result,
    }
    if (client := on_behalf_of.get()) is not None:
        line |= {"on_behalf_of": client.user, "authenticated": client.authenticated}
    LOGGER.info("%s", json.dumps(line if error is None else {**line, "error": error}))


@lru_cache(maxsize=8)
def _user(uid: int) -> str:
    """The user name of the process from the operating system; environment variables could be forged."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
