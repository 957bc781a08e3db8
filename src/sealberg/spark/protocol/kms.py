"""A KMS client that is a class of Java: the JVM asks Python which class it is, and then for one job after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message

KmsAct = Literal["none", "wrap", "unwrap", "generate"]


@dataclass(frozen=True)
class KmsDescription(Message):
    """The class, and what its `initialize` takes: the properties of the catalog, which can be secrets."""

    impl: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class DescribeKms(Request):
    """The first request of the JVM for the KMS of a catalog."""

    ANSWER: ClassVar[Any] = KmsDescription


@dataclass(frozen=True)
class KmsOutcome(Message):
    """What the client returned for a job.

    Args:
        key: of unwrap and generate.
        wrapped: of wrap and generate.
        failure: the class of the exception and the line of the client that threw it; its message could hold a key.
    """

    key: bytes | None = field(default=None, repr=False)
    wrapped: bytes | None = None
    failure: str | None = None


@dataclass(frozen=True)
class KmsJob(Message):
    """A job for the client; `none` if there was none for some seconds."""

    act: KmsAct
    master_key_id: str | None = None
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ServeKms(Request):
    """The outcome of the job before, if there was one; the answer is the next job, and may take seconds."""

    outcome: KmsOutcome | None = None
    ANSWER: ClassVar[Any] = KmsJob
