"""One file under a new key, wherever the runner works on it.

    RekeyTask ──rekey_file──> Rekeyed

    Parquet             pages re-wrapped, footer anew                    (files.parquet.rewrap)
                        decoded, where pages cannot be re-wrapped        (copying.decoded_copy)
    Avro                every block sealed anew                          (files.reseal)
    deletion vectors    read from their Puffin file, written into a new one that names the new data files

Every byte that is read is authenticated, and every new file is read once more from storage before the task is done.
A task holds the keys of its own file, old and new, and the storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from sealberg.errors import UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.file_io import naming
from sealberg.files.locations import attempt_location
from sealberg.files.puffin.container import PuffinWriter, read_deletion_vector
from sealberg.files.reseal import ResealTask, deleting_on_error, reseal
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.copying.decoded_copy import copy_rows
from sealberg.jobs.copying.rewrap_task import RewrapTask, rewrap_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO

    Kind = Literal["parquet", "ags1", "vectors"]


@dataclass(frozen=True, slots=True)
class VectorMove:
    """A deletion vector in its Puffin file, and the data file that it belongs to from now on."""

    data_file: str
    new_data_file: str
    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class RekeyTask:
    """A file to write under a new key.

    Attributes:
        key: the encoded key metadata; None for a plaintext file that another writer left.
        new_key: the encoded key metadata of the target, without a length.
        record_count: what the manifest claims of a Parquet file.
        vectors: the deletion vectors to take from a Puffin file.
    """

    kind: Kind
    io: FileIO = field(repr=False)
    source: str
    target: str
    key: bytes | None = field(repr=False)
    new_key: bytes = field(repr=False)
    stored_bytes: int = 0
    vectors: tuple[VectorMove, ...] = ()
    allow_missing_length: bool = False
    record_count: int = 0


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """A finished file.

    Attributes:
        key_metadata: encoded, with the length.
        column_sizes, split_offsets: of a Parquet file; None for all others, whose own stay.
        places: offset and length of each deletion vector, by the data file that it belonged to.
        decoded: whether the rows were decoded and written again.
    """

    source: str
    target: str
    key_metadata: bytes = field(repr=False)
    stored_length: int
    column_sizes: Mapping[int, int] | None = None
    split_offsets: tuple[int, ...] | None = None
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    decoded: bool = False


def rekey_file(task: RekeyTask) -> Rekeyed:
    """Write the file under its new key and check it; after an error there is no new file."""
    if task.kind not in ("parquet", "vectors"):
        return _ags1(task)
    own = replace(task, target=attempt_location(task.target))
    return _parquet(own) if task.kind == "parquet" else _vectors(own)


def _parquet(task: RekeyTask) -> Rekeyed:
    asked = RewrapTask(task.io, task.io, task.source, task.target, task.key, task.new_key)
    try:
        made = rewrap_file(asked)
    except UnsupportedError:
        return _decoded(task, asked)
    assert made.key_metadata is not None, "a file of an encrypted table has a key"
    sizes, offsets = made.column_sizes, tuple(made.split_offsets)
    return Rekeyed(task.source, task.target, made.key_metadata.encode(), made.stored_length, sizes, offsets)


def _decoded(task: RekeyTask, asked: RewrapTask) -> Rekeyed:
    made = copy_rows(asked, task.record_count)
    assert made.key_metadata is not None, "a file of an encrypted table has a key"
    key, offsets = made.key_metadata.encode(), tuple(made.split_offsets)
    return Rekeyed(task.source, task.target, key, made.stored_length, made.column_sizes, offsets, decoded=True)


def _ags1(task: RekeyTask) -> Rekeyed:
    made = reseal(ResealTask(task.io, task.source, task.key, task.target, task.new_key, task.allow_missing_length))
    return Rekeyed(task.source, made.target, made.key_metadata, made.stored_length)


def _vectors(task: RekeyTask) -> Rekeyed:
    places: dict[str, tuple[int, int]] = {}
    assert task.key is not None, "a Puffin file without a key is refused before"
    with deleting_on_error(task.io, task.target):
        with (
            naming(task.source),
            Ags1Reader(
                task.io.new_input(task.source).open(),
                KeyMetadata.decode(task.key),
                threads=1,
                allow_missing_length=task.allow_missing_length,
            ) as source,
        ):
            found = [
                (move, read_deletion_vector(source, move.offset, move.length, move.cardinality))
                for move in task.vectors
            ]
        with naming(task.target):
            sink = Ags1Writer(task.io.new_output(task.target).create(overwrite=True), KeyMetadata.decode(task.new_key))
            with PuffinWriter(sink) as puffin:
                for move, vector in found:
                    blob = puffin.add(move.new_data_file, vector)
                    places[move.data_file] = blob.offset, blob.length
            made = puffin.close()
            with Ags1Reader(task.io.new_input(task.target).open(), made.key_metadata, threads=1) as written:
                for move, _ in found:
                    read_deletion_vector(written, *places[move.data_file], move.cardinality)
    return Rekeyed(task.source, task.target, made.key_metadata.encode(), made.stored_length, places=places)
