"""What the driver hands to the Python process beside a task, through Spark's own messages and a pipe.

    TablePayload      what every file of a plan has in common
    FilePayload       a data file, its deletes, its age, their keys
    AvroWritePayload   how the files of one write are made

They are pickled: driver and process are of this same package, and whoever could change what passes between them
could change the program as well.
"""

from __future__ import annotations

import os
import pickle
import sys
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyiceberg.expressions import AlwaysTrue

from sealberg.keys.keyring import Keyring
from sealberg.scan.planner import EncryptedFileScanTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.metadata.manifest import DataFileV3


def python_program() -> str:
    """As Spark's own Python workers: executors start what the driver names."""
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


def strip_metadata(metadata: TableMetadata, **properties: str) -> Any:
    """As little of a table as a task needs: no snapshots, no keys, and of its properties the given ones."""
    nothing: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "statistics": []}
    keys: dict[str, Any] = {"current_snapshot_id": None, "encryption_keys": Keyring()}
    return metadata.model_copy(update={**nothing, **keys, "properties": properties})


class _Handed:
    """Text for the plan, and back."""

    def text(self) -> str:
        return b64encode(pickle.dumps(self)).decode("ascii")

    @classmethod
    def unpickled(cls, data: bytes) -> Self:
        found = pickle.loads(data)  # noqa: S301 (see above)
        assert isinstance(found, cls)
        return found


@dataclass(frozen=True)
class TablePayload(_Handed):
    """What every file of a plan has in common."""

    metadata: TableMetadata
    schema: Schema
    encrypted: bool
    allow_plaintext: bool


@dataclass(frozen=True)
class FilePayload(_Handed):
    """A data file, its deletes and its age; locations carry their keys."""

    file: DataFileV3
    deletes: Sequence[DataFileV3]
    sequence_number: int | None

    def task(self) -> EncryptedFileScanTask:
        return EncryptedFileScanTask(self.file, self.deletes, AlwaysTrue(), sequence_number=self.sequence_number)


@dataclass(frozen=True)
class AvroWritePayload(_Handed):
    """How the Avro files of one write are made."""

    schema: Schema
    options: dict[str, Any]
