"""What the driver sends to the Python worker beside a task, through Java: in messages of the protocol and a pipe.

    TablePayload      what every file of a plan has in common
    FilePayload       a data file, its deletes, its age, their keys
    AvroWritePayload  how the files of one write are made
    MetadataPayload   a metadata table            PiecesPayload   the pieces of it that a task reads
    TaskPayload       a file of a job, and the function that works on it

Payloads are pickled: driver and worker run the same package, and whoever could change the bytes between them could
change the program as well. Java passes the bytes on and never looks into them.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyiceberg.expressions import AlwaysTrue

from sealberg.keys.keyring import Keyring
from sealberg.scan.planner import EncryptedFileScanTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.spark.metadata_tables.pieces import Piece


def python_program() -> str:
    """As Spark's own Python workers: executors start what the driver names."""
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


def strip_metadata(metadata: TableMetadata, **properties: str) -> Any:
    """As little of a table as a task needs: no snapshots, no keys, and of its properties the given ones."""
    nothing: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "statistics": []}
    keys: dict[str, Any] = {"current_snapshot_id": None, "encryption_keys": Keyring()}
    return metadata.model_copy(update={**nothing, **keys, "properties": properties})


class _Payload:
    """Bytes for a message to Java, which Java passes on to the worker."""

    def pickled(self) -> bytes:
        return pickle.dumps(self)

    @classmethod
    def unpickled(cls, data: bytes) -> Self:
        found = pickle.loads(data)  # noqa: S301 (see above)
        assert isinstance(found, cls)
        return found


@dataclass(frozen=True)
class TablePayload(_Payload):
    """What every file of a plan has in common."""

    metadata: TableMetadata
    schema: Schema
    encrypted: bool
    allow_plaintext: bool


@dataclass(frozen=True)
class FilePayload(_Payload):
    """A data file, its deletes and its age; locations carry their keys."""

    file: DataFileV3
    deletes: Sequence[DataFileV3]
    sequence_number: int | None

    def task(self) -> EncryptedFileScanTask:
        return EncryptedFileScanTask(self.file, self.deletes, AlwaysTrue(), sequence_number=self.sequence_number)


@dataclass(frozen=True)
class MetadataPayload(_Payload):
    """What all pieces of a metadata table have in common."""

    metadata: TableMetadata
    kind: str
    encrypted: bool
    allow_plaintext: bool


@dataclass(frozen=True)
class PiecesPayload(_Payload):
    """Manifests, manifest lists or delete files; their locations carry their keys."""

    pieces: Sequence[Piece]


@dataclass(frozen=True)
class AvroWritePayload(_Payload):
    """How the Avro files of one write are made."""

    schema: Schema
    options: dict[str, Any]


@dataclass(frozen=True)
class TaskPayload(_Payload):
    """One task of a job: the function of a module, and the file that it works on, with the key of this file."""

    work: Callable[[Any], Any]
    task: Any
