"""One Parquet file, copied under another key wherever the runner works on it.

    RewrapTask ──rewrap_file──> Rewrapped: length, key metadata, split offsets, column sizes, checksums

    source location (+ key) ──opened, sealed anew──> target location (+ key) ──read again──> checked, or removed

A task holds the keys of this one file and the storage; the target's key is new, made by the process that plans the
job, so that a task which runs twice writes the same file under the same key and location.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealberg.errors import ConfigError
from sealberg.files.byte_sources import OneThreadSource, as_source, is_arrow_file
from sealberg.files.confined_io import store
from sealberg.files.file_io import naming
from sealberg.files.parquet.rewrap import check_rewrapped, rewrap
from sealberg.files.reseal import deleting_on_error
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from sealberg.files.byte_sources import RangedSource
    from sealberg.files.parquet.rewrap import Rewrapped


@dataclass(frozen=True, slots=True)
class RewrapTask:
    """A Parquet file to copy.

    Attributes:
        source_io, target_io: the storage (`task_io.storage_only`), without keys.
        source_key: the encoded key metadata of an encrypted source; None for plaintext.
        target_key: the encoded key metadata of the new file, without a length; None writes plaintext.
    """

    source_io: FileIO = field(repr=False)
    target_io: FileIO = field(repr=False)
    source: str
    target: str
    source_key: bytes | None = field(repr=False)
    target_key: bytes | None = field(repr=False)


def rewrap_file(task: RewrapTask) -> Rewrapped:
    """Copy the file, and read the copy again; a copy that failed is removed.

    `UnsupportedError` means that the file must be decoded instead.
    """
    if task.source == task.target:
        raise ConfigError(f"{task.source} cannot be copied onto itself")
    with deleting_on_error(task.target_io, task.target):
        with naming(task.source):
            source = open_source(task.source_io, task.source)
            with task.target_io.new_output(task.target).create(overwrite=True) as sink:
                file = rewrap(source, _key(task.source_key), sink, _key(task.target_key), where=task.source)
        with naming(task.target):
            check_rewrapped(open_source(task.target_io, task.target), file, where=task.target)
    return file


def open_source(io: FileIO, location: str) -> RangedSource:
    """The open file, for one pass by one thread."""
    opened = io.new_input(location).open()
    local = store(location) == "file" and is_arrow_file(opened)
    return OneThreadSource(opened) if local else as_source(opened)


def _key(encoded: bytes | None) -> KeyMetadata | None:
    return None if encoded is None else KeyMetadata.decode(encoded)
