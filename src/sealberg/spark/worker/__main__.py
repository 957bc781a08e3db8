"""The Python worker beside a task of Spark: `python -m sealberg.spark.worker`, started by Java.

    read-file      table, file, columns ──> Arrow batches: the file as our own scan reads it
    read-part      the same, and a part ──> the rows of a range of its stored bytes
    find-deleted   table, file, a part  ──> the positions of the deleted rows of a part, a bitmap
    read-metadata  table, pieces, columns ──> Arrow batches: rows of a metadata table
    open-file, write-file, finish-file  ──> Arrow batches in, the bytes of encrypted Avro files out, then their count
    run-task       a file of a job      ──> what the function of the job makes of it; it reaches storage by itself

Every request carries all that the worker needs, with the keys of the task's own files. The task reads and writes
storage for the worker, through the pipe. The driver has made the payloads of `payload`.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyroaring import BitMap

from sealberg.errors import FormatError
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.data_file import EncryptedAvroWriter
from sealberg.files.file_io import EncryptingFileIO
from sealberg.format.key_metadata import KeyMetadata
from sealberg.metadata import decode_cache as cache
from sealberg.scan import metadata_columns
from sealberg.scan.data_file_reader import Part
from sealberg.scan.projection import Projector
from sealberg.scan.task_reader import TaskReader
from sealberg.spark.arrow import from_spark, to_spark
from sealberg.spark.error_text import error_text
from sealberg.spark.metadata_tables.pieces import PieceReader
from sealberg.spark.worker.channel import Channel, StoredFileIO
from sealberg.spark.worker.computed_columns import ComputedColumns
from sealberg.spark.worker.payload import (
    AvroWritePayload,
    FilePayload,
    MetadataPayload,
    PiecesPayload,
    TablePayload,
    TaskPayload,
)
from sealberg.write.data_writer import LINEAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import FileIO

    from sealberg.scan.planner import EncryptedFileScanTask

MOST_ROWS: Final = 1 << 14  # of a batch: what Spark holds at a time


class Worker:
    """Answers one request after the other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._verbs: dict[str, Callable[..., bytes]] = {
            "read-file": self.read_file,
            "read-part": self.read_file,
            "find-deleted": self.find_deleted,
            "read-metadata": self.read_metadata,
            "open-file": self.open_file,
            "write-file": self.write_file,
            "finish-file": self.finish_file,
            "run-task": self.run_task,
        }
        self._files: dict[bytes, tuple[EncryptedAvroWriter, Schema]] = {}
        self._last: tuple[tuple[bytes, bytes], TaskReader] | None = None

    def serve(self) -> None:
        while (request := self._channel.request()) is not None:
            verb, *about = request
            try:
                result = self._verbs[verb.decode()](*about)
            except EOFError:
                return
            except Exception as error:  # noqa: BLE001 (the task must hear of every error)
                self._last = None  # a reader remembers failures as well
                self._channel.send(b"E", error_text(error).encode())
            else:
                self._channel.send(b"D", result)
            finally:
                cache.clear()  # the deletion vector of this file will not be needed again

    # -- read -----------------------------------------------------------------------------------

    def read_file(self, table: bytes, file: bytes, columns: bytes, within: bytes | None = None) -> bytes:
        wanted, payload = json.loads(columns), FilePayload.unpickled(file)
        part = None if within is None else _part(within)
        names = [field["name"] for field in wanted["fields"]]
        extra = ComputedColumns.of(names)
        if extra is None:
            for batch in self._reader(table, columns, names).batches(payload.task(), part):
                self._send(batch, wanted)
            return b""
        # A query that reads _deleted gets deleted rows too: they are found first, then all rows are read.
        gone = self._gone(table, payload, part) if extra.shows_deleted else None
        about = TablePayload.unpickled(table)
        task = replace(payload, deletes=()).task() if extra.shows_deleted else payload.task()
        for batch in self._reader(table, columns, extra.stored).batches(task, part):
            self._send(extra.added(batch, about.metadata, payload.file, gone), wanted)
        return b""

    def _send(self, batch: pa.RecordBatch, wanted: dict[str, Any]) -> None:
        for start in range(0, batch.num_rows, MOST_ROWS):
            self._channel.send(b"B", _stream(to_spark(batch.slice(start, MOST_ROWS), wanted)))

    def read_metadata(self, table: bytes, pieces: bytes, columns: bytes) -> bytes:
        wanted, about = json.loads(columns), MetadataPayload.unpickled(table)
        storage = self._storage(encrypted=about.encrypted, allow_plaintext=about.allow_plaintext)
        reader = PieceReader(about.metadata, storage, about.kind, [field["name"] for field in wanted["fields"]])
        for piece in PiecesPayload.unpickled(pieces).pieces:
            for batch in reader.batches(piece):
                self._send(batch, wanted)
        return b""

    def find_deleted(self, table: bytes, file: bytes, within: bytes) -> bytes:
        return bytes(self._gone(table, FilePayload.unpickled(file), _part(within)).serialize())

    def _gone(self, table: bytes, payload: FilePayload, part: Part | None) -> BitMap:
        """Only the columns that take part in the deletes are read, a batch at a time."""
        reader, task = self._reader(table, b"", ["_pos"]), payload.task()
        every = _positions(reader, replace(payload, deletes=()).task(), part)
        if part is None and len(every) != task.file.record_count:
            raise FormatError(f"{task.file.file_path!s} has {len(every)} rows, and not as many as its manifest says")
        return every - _positions(reader, task, part)

    def _reader(self, table: bytes, columns: bytes, names: list[str]) -> TaskReader:
        """The reader of the last request, if table and columns are the same: it remembers values of deleted rows."""
        if self._last is None or self._last[0] != (table, columns):
            about = TablePayload.unpickled(table)
            storage = self._storage(encrypted=about.encrypted, allow_plaintext=about.allow_plaintext)
            projection = metadata_columns.project(about.schema, names)
            self._last = (table, columns), TaskReader(about.metadata, storage, about.schema, projection)
        return self._last[1]

    def _storage(self, *, encrypted: bool, allow_plaintext: bool) -> FileIO:
        storage: FileIO = StoredFileIO(self._channel)
        return EncryptingFileIO(storage, _no_list_key, allow_plaintext=allow_plaintext) if encrypted else storage

    def run_task(self, task: bytes) -> bytes:
        payload = TaskPayload.unpickled(task)
        return pickle.dumps(payload.work(payload.task))

    # -- write ----------------------------------------------------------------------------------

    def open_file(self, number: bytes, payload: bytes, lineage_columns: bytes, key: bytes, aad_prefix: bytes) -> bytes:
        """`lineage_columns` is not empty if rows come with _row_id and _last_updated_sequence_number."""
        files = AvroWritePayload.unpickled(payload)
        columns = (*files.schema.fields, *LINEAGE) if lineage_columns else files.schema.fields
        schema = Schema(*columns, schema_id=files.schema.schema_id)
        # In this thread only: the bytes that go to the sink answer the request that is under way.
        sink = Ags1Writer(_Sink(self._channel), KeyMetadata(key, aad_prefix), threads=1)
        self._files[number] = EncryptedAvroWriter(sink, schema, **files.options), schema
        return b""

    def write_file(self, number: bytes, batches: bytes) -> bytes:
        writer, schema = self._files[number]
        for batch in pa.ipc.open_stream(batches):
            writer.write(_shaped(batch, schema))
        return b""

    def finish_file(self, number: bytes) -> bytes:
        """The length of the whole file: eight bytes, big-endian."""
        writer, _ = self._files.pop(number)
        return struct.pack(">q", writer.close().stored_length)


def _positions(reader: TaskReader, task: EncryptedFileScanTask, part: Part | None) -> BitMap:
    found = BitMap()
    for batch in reader.batches(task, part):
        found.update(batch.column(0).to_numpy())
    return found


def _part(within: bytes) -> Part:
    return Part(*struct.unpack(">qq", within))


class _Sink:
    """A file that the task writes."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def write(self, data: Any) -> int:
        self._channel.send(b"W", data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def _shaped(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    columns = [
        from_spark(array, field.field_type, field.name)
        for array, field in zip(batch.columns, schema.fields, strict=True)
    ]
    given = pa.RecordBatch.from_arrays(columns, [field.name for field in schema.fields])
    own = pyarrow_to_schema(given.schema, name_mapping=schema.name_mapping, format_version=3)
    projector = Projector(own, given.schema, {})
    return pa.RecordBatch.from_arrays([projector.column(field)(given) for field in schema.fields], given.schema.names)


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _no_list_key(_: str) -> KeyMetadata:
    raise AssertionError("internal error: a task opened a manifest list")


class _Killed(BaseException):
    """Spark has killed the task: what it has begun is deleted on the way out."""


def _kill(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Killed


def main() -> None:
    signal.signal(signal.SIGTERM, _kill)
    # Standard output is the pipe for answers, so everything that prints goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        Worker(Channel(sys.stdin.buffer, answers)).serve()
    except _Killed:
        os._exit(128 + signal.SIGTERM)  # at once: threads of the task may still read


if __name__ == "__main__":
    main()
