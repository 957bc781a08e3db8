"""The FileIO of a task: it reaches the storage, and knows nothing else of the catalog.

    catalog: uri, password, KMS, storage  ──storage_only──>  storage

A task may be pickled and sent to another machine, and a FileIO holds all properties of its catalog: the password of
the database and the credentials of the KMS would travel with every file.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from sealberg.files.vended_io import VendedFileIO

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

STORAGE: Final = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl", "oss.", "hf.")


def storage_only(io: FileIO) -> FileIO:
    """A copy of this FileIO that has the properties of the storage only.

    Credentials that a REST server lends for a while are renewed by the catalog, so such a FileIO is returned as it is.
    It cannot be pickled, so that its tasks run on threads only.
    """
    if isinstance(io, VendedFileIO):
        return io
    made: Any = copy.copy(io)
    if (inner := getattr(io, "inner", None)) is not None:
        made.inner = storage_only(inner)
        made.properties = made.inner.properties
    else:
        made.properties = {name: value for name, value in io.properties.items() if name.startswith(STORAGE)}
    own: FileIO = made
    return own
