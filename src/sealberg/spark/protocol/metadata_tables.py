"""Reads of metadata tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sealberg.spark.protocol.calls import Request
from sealberg.spark.protocol.codec import Message, Struct, Value
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.scans import ScanPlan


@dataclass(frozen=True)
class ResolveMetadataOptions(Request):
    """The snapshot that the options of a read choose of a metadata table; the answer is the new handle."""

    handle: TableHandle
    kind: str
    options: Mapping[str, str]
    ANSWER: ClassVar[Any] = TableHandle


@dataclass(frozen=True)
class MetadataPlan(Message):
    """The rows themselves, if they are few; else a plan by which tasks read them. One of the two is there.

    Args:
        rows: `arrow_json` says how the values are encoded.
        plan: its files are pieces of the metadata table, each for one task.
    """

    rows: tuple[tuple[Value, ...], ...] | None = None
    plan: ScanPlan | None = None


@dataclass(frozen=True)
class MetadataScanRequest(Request):
    """The rows of a metadata table; `columns` are whole columns of its schema."""

    handle: TableHandle
    kind: str
    columns: Struct
    ANSWER: ClassVar[Any] = MetadataPlan
