"""A KMS client that is a class of Java, of the interface `KeyManagementClient` of Iceberg; a JVM of Spark runs it.

    JavaClassKms.wrap ── job ──>     JavaDesk <── the JVM takes it, by a request that waits for a job
                      <── outcome ──          <── and brings what the client returned, with its next request

Spark's driver opens the desk of each catalog whose `encryption.kms-impl` is such a class. A process without a JVM has
no open desk: an error says so. The class comes from the jars of the application, and is named by whoever starts it.
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from sealberg.errors import AccessDeniedError, ConfigError, KeyAccessError, KmsThrottledError, KmsUnavailableError
from sealberg.keys.kms.client import JAVA_CLASSES, KMS_IMPL, GeneratedKey, KmsClient
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

Act = Literal["wrap", "unwrap", "generate"]
# What the name of an exception says, for retries and for the words of the error.
_KINDS: Final[tuple[tuple[tuple[str, ...], type[KeyAccessError]], ...]] = (
    (("AccessDenied", "Forbidden", "Unauthorized", "PermissionDenied"), AccessDeniedError),
    (("Throttl", "TooManyRequests", "ResourceExhausted"), KmsThrottledError),
    (("Timeout", "Unavailable", "java.io.", "java.net.", "UncheckedIOException"), KmsUnavailableError),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client returned, or the class of the exception that it threw."""

    key: bytes | None = field(default=None, repr=False)
    wrapped: bytes | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A call of the client."""

    act: Act
    master_key_id: str
    content: bytes | None = field(default=None, repr=False)
    outcome: Future[Outcome] = field(default_factory=Future, repr=False, compare=False)


class JavaDesk:
    """Where jobs wait for the JVM; safe to share among threads."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._open = threading.Event()

    def open(self) -> None:
        """A JVM will take jobs."""
        self._open.set()

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def call(self, act: Act, master_key_id: str, content: bytes | None = None) -> Outcome:
        job = Job(act, master_key_id, content)
        self._jobs.put(job)
        return job.outcome.result()  # a guarded client waits no longer than the time limit of a call

    def next(self, seconds: float) -> Job | None:
        """The next job; None if there is none within this time."""
        try:
            return self._jobs.get(timeout=seconds)
        except queue.Empty:
            return None


_DESKS: Final[PerProcess[dict[tuple[str, frozenset[tuple[str, str]]], JavaDesk]]] = PerProcess(dict)


def desk_of(properties: Mapping[str, str]) -> JavaDesk:
    """The desk of a catalog's KMS, in this process: the same for the same properties."""
    name = (properties[KMS_IMPL], frozenset((key, str(value)) for key, value in properties.items()))
    return _DESKS.here().setdefault(name, JavaDesk())


def java_class(properties: Mapping[str, str]) -> str | None:
    """The class of Java that `encryption.kms-impl` names; None if it names a class of Python, or nothing."""
    impl = properties.get(KMS_IMPL)
    if not impl or impl in JAVA_CLASSES or ":" in impl or "." not in impl or impl.startswith("org.apache.iceberg."):
        return None
    module = impl.rpartition(".")[0]
    try:
        return impl if importlib.util.find_spec(module) is None else None
    except (ModuleNotFoundError, ValueError):  # a package around it is not there
        return impl


class JavaClassKms(KmsClient):
    """Master keys behind a class of Java."""

    provider = "java"
    generates = True

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.impl = properties[KMS_IMPL]

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        if not desk_of(properties).is_open:
            impl = properties[KMS_IMPL]
            raise ConfigError(
                f"Cannot initialize KeyManagementClient, cannot import {impl}, which {KMS_IMPL} names: this Python has "
                f"no module {impl.rpartition('.')[0]}. If it is a class of Java, only Spark can run it, from the jars "
                "of the application (spark.jars): use a table of sealberg.spark, or of spark-sql. Python alone takes a "
                "subclass of sealberg.keys.kms.client.KmsClient, as module:Class"
            )
        return cls(properties)

    @classmethod
    def is_built_in(cls) -> bool:
        return False  # what runs is code of others: with retries, time limits and errors around it

    def __repr__(self) -> str:
        return f"JavaClassKms({self.impl!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.properties,)

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return self._bytes("wrapKey", self._call("wrap", master_key_id, key).wrapped)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        return self._bytes("unwrapKey", self._call("unwrap", master_key_id, bytes(wrapped)).key)

    def generate(self, length: int, master_key_id: str) -> GeneratedKey:
        """Java's method has no length: the KMS decides, and another length than the table's is refused."""
        made = self._call("generate", master_key_id)
        key, wrapped = self._bytes("generateKey", made.key), self._bytes("generateKey", made.wrapped)
        if len(key) != length:
            raise ConfigError(
                f"generateKey of {self.impl} made a key of {len(key)} bytes, and encryption.data-key-length is {length}"
            )
        return GeneratedKey(key, wrapped)

    def _call(self, act: Act, master_key_id: str, content: bytes | None = None) -> Outcome:
        outcome = desk_of(self.properties).call(act, master_key_id, content)
        if outcome.failure is None:
            return outcome
        kind = next((kind for words, kind in _KINDS if any(word in outcome.failure for word in words)), KeyAccessError)
        raise kind(f"{self.impl} failed with {outcome.failure}")

    def _bytes(self, method: str, found: bytes | None) -> bytes:
        if not found:
            raise KeyAccessError(f"{method} of {self.impl} returned nothing, expected bytes")
        return found
