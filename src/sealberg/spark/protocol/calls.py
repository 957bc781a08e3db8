"""Requests of the JVM, and what comes back.

    {"catalog": "prod", "verb": "load-table", "arguments": {...}}  ──>  {"ok": ...}
                                                                   or   {"error": {"kind": ..., "text": ...}}

The verb is the name of the request's class, and `ANSWER` is the type of what stands at "ok".
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sealberg.spark.protocol.codec import Message, Value, kebab

FailureKind = Literal[
    "error", "no-such-table", "table-exists", "no-such-namespace", "namespace-exists", "namespace-not-empty"
]


class Request(Message):
    """What the JVM asks for; one class a verb."""

    ANSWER: ClassVar[Any] = None

    @classmethod
    def verb(cls) -> str:
        return kebab(cls.__name__)


@dataclass(frozen=True)
class Session(Message):
    """Who sent a request, and what his session has otherwise than the application had at its start.

    Args:
        settings: the whole names of settings that say how a catalog or storage is reached.
        user: of a server for SQL; None where no server says.
        authenticated: whether the server has proved that it is this user.
    """

    settings: tuple[str, ...]
    user: str | None = None
    authenticated: bool | None = None


@dataclass(frozen=True)
class Call(Message):
    """A request on its way to the backend of a catalog; `session` is None where there is nothing to say of it."""

    catalog: str
    verb: str
    arguments: Value
    session: Session | None = None


@dataclass(frozen=True)
class Failure(Message):
    """An error of Python, for an exception of Java."""

    kind: FailureKind
    text: str
