"""The Python process that a JVM starts: its hello, its address, and the catalogs that it opens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Failure, Request
from sealberg.spark.protocol.codec import Message


@dataclass(frozen=True)
class StartDriver(Message):
    """The line that the JVM writes to the process's stdin.

    Args:
        protocol: the version of the messages.
        sealberg: the version of the jar; None for a jar that does not know its version.
        properties_file: the value of spark.sealberg.properties-file.
        settings: the names in Spark's configuration that begin with spark.sealberg.
    """

    protocol: int
    settings: tuple[str, ...]
    sealberg: str | None = None
    properties_file: str | None = None


@dataclass(frozen=True)
class DriverStarted(Message):
    """The line that the process writes to its stdout: its address, or why it has none."""

    path: str | None = None
    token: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class OpenCatalog(Request):
    """The first request for a catalog; the answer says whether its KMS client is a class of Java.

    Args:
        options: spark.sql.catalog.NAME.* of the application's start, without the prefix.
        configured: whether spark.sql.catalog.NAME was there as well; None: no.
    """

    options: Mapping[str, str]
    configured: bool | None = None
    ANSWER: ClassVar[Any] = bool
