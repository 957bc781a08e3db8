"""Streaming reads. An offset crosses as its text: Spark writes the text to a checkpoint, and only Python reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Struct
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.scans import ScanPlan


@dataclass(frozen=True)
class StreamStart(Request):
    """The answer is the offset before the first batch of a stream."""

    ANSWER: ClassVar[Any] = str


@dataclass(frozen=True)
class StreamHead(Request):
    """The answer is the snapshot at which a query with Trigger.AvailableNow ends."""

    handle: TableHandle
    ANSWER: ClassVar[Any] = int


@dataclass(frozen=True)
class LatestOffset(Request):
    """The answer is the offset at which the next batch ends.

    Args:
        read_all: whether the limits of the options do not count.
        head: no batch goes beyond this snapshot.
    """

    handle: TableHandle
    options: Mapping[str, str]
    start: str
    read_all: bool
    head: int | None = None
    ANSWER: ClassVar[Any] = str


@dataclass(frozen=True)
class StreamScanRequest(Request):
    """The files between two offsets."""

    handle: TableHandle
    columns: Struct
    options: Mapping[str, str]
    start: str
    end: str
    ANSWER: ClassVar[Any] = ScanPlan
