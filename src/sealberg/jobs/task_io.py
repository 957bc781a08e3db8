"""The FileIO of a task: it reaches the storage, and what leaves this process knows nothing else of the catalog.

    catalog: uri, password, KMS, storage  ──pickle──>  storage

A task may be pickled and sent to another machine, and a FileIO holds all properties of its catalog: the password of
the database and the credentials of the KMS would travel with every file. A FileIO of credentials that a REST server
lends for a while is sent with those of now; only this process can ask the catalog for new ones.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import FileIO

from sealberg.errors import UnsupportedError
from sealberg.files.vended_io import LentFileIO, VendedFileIO

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile

STORAGE: Final = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl", "oss.", "hf.")
SIGNER: Final = "s3.signer"


def storage_only(io: FileIO) -> FileIO:
    """This FileIO for a task; a task that is sent to another process takes only the properties of the storage along."""
    return io if isinstance(io, TaskFileIO) else TaskFileIO(io)


class TaskFileIO(FileIO):
    """Works as the FileIO inside; pickled, it becomes a FileIO that has the properties of the storage only."""

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        super().__init__(inner.properties)

    @property
    def properties(self) -> dict[str, Any]:
        return {name: value for name, value in self.inner.properties.items() if name.startswith(STORAGE)}

    @properties.setter
    def properties(self, value: object) -> None:
        """FileIO's own constructor sets them; they are those of the FileIO inside."""

    def new_input(self, location: str) -> InputFile:
        return self.inner.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self.inner.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.inner.delete(location)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (_portable(self.inner),)


def _itself(io: FileIO) -> FileIO:
    return io


def _portable(io: FileIO) -> FileIO:
    """A copy that can be pickled and has the properties of the storage only."""
    if isinstance(io, VendedFileIO):
        return LentFileIO(io.current().each(_portable))
    made: Any = copy.copy(io)
    if (inner := getattr(io, "inner", None)) is not None:
        made.inner = _portable(inner)
        made.properties = made.inner.properties
    else:
        if SIGNER in io.properties:
            raise UnsupportedError(
                "the REST server signs each request to the storage, and a task on Spark has no access to that server: "
                "run the job on threads of this machine (leave --spark out)"
            )
        made.properties = {name: value for name, value in io.properties.items() if name.startswith(STORAGE)}
    own: FileIO = made
    return own
