"""The Python process beside a task of Spark: `python -m sealberg.spark.worker`, started by the Java side.

    rows        table, file, columns ──> Arrow batches: the file as our own scan reads it
    positions   table, file          ──> the positions of its deleted rows, a bitmap
    open, write, finish              ──> Arrow batches in, the bytes of sealed Avro files out

What it needs comes with the request, keys of the task's own files among it; storage is behind the pipe. Values are
those of `work`, made by the driver.
"""

from __future__ import annotations

import json
import os
import sys
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
from sealberg.scan import metadata_columns as lineage
from sealberg.scan.projection import Projector
from sealberg.scan.task_reader import TaskReader
from sealberg.spark.arrow import from_spark, to_spark
from sealberg.spark.error_text import error_text
from sealberg.spark.worker.channel import Channel, StoredFileIO
from sealberg.spark.worker.payload import AvroWritePayload, FilePayload, TablePayload
from sealberg.write.data_writer import LINEAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import FileIO

MOST_ROWS: Final = 1 << 14  # of a batch: what Spark holds at a time


class Worker:
    """Does what is asked, one request after the other."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._verbs: dict[str, Callable[..., bytes]] = {
            "rows": self.rows,
            "positions": self.positions,
            "open": self.open,
            "write": self.write,
            "finish": self.finish,
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
            except Exception as error:  # noqa: BLE001 (whatever it is, the task must hear of it)
                self._last = None  # which remembers failures as well
                self._channel.send(b"E", error_text(error).encode())
            else:
                self._channel.send(b"D", result)
            finally:
                cache.clear()  # a vector is about one file, for which nobody will ask again

    # -- read -----------------------------------------------------------------------------------

    def rows(self, table: bytes, work: bytes, columns: bytes) -> bytes:
        wanted = json.loads(columns)
        task = FilePayload.unpickled(work).task()
        for batch in self._reader(table, columns, [one["name"] for one in wanted["fields"]]).batches(task):
            for at in range(0, batch.num_rows, MOST_ROWS):
                self._channel.send(b"B", _stream(to_spark(batch.slice(at, MOST_ROWS), wanted)))
        return b""

    def positions(self, table: bytes, work: bytes) -> bytes:
        """Only the columns that take part in the deletes are read, a batch at a time."""
        task = FilePayload.unpickled(work).task()
        live = BitMap()
        for batch in self._reader(table, b"", ["_pos"]).batches(task):
            live.update(batch.column(0).to_numpy())
        count = task.file.record_count
        gone = BitMap(range(count)) - live
        if len(live) != count - len(gone):
            raise FormatError(f"{task.file.file_path!s} has more rows than its manifest says")
        return bytes(gone.serialize())

    def _reader(self, table: bytes, columns: bytes, names: list[str]) -> TaskReader:
        """The one of the last request, where that was about the same: it remembers values of deleted rows."""
        if self._last is None or self._last[0] != (table, columns):
            about = TablePayload.unpickled(table)
            storage: FileIO = StoredFileIO(self._channel)
            if about.encrypted:
                storage = EncryptingFileIO(storage, _no_list_key, allow_plaintext=about.allow_plaintext)
            projection = lineage.project(about.schema, names)
            self._last = (table, columns), TaskReader(about.metadata, storage, about.schema, projection)
        return self._last[1]

    # -- write ----------------------------------------------------------------------------------

    def open(self, number: bytes, files: bytes, moved: bytes, key: bytes, aad_prefix: bytes) -> bytes:
        """`moved` is not empty if rows bring along who they are."""
        how = AvroWritePayload.unpickled(files)
        schema = Schema(*how.schema.fields, *LINEAGE, schema_id=how.schema.schema_id) if moved else how.schema
        # In this thread only: what goes to the sink answers the request that is under way.
        sink = Ags1Writer(_Sink(self._channel), KeyMetadata(key, aad_prefix), threads=1)
        self._files[number] = EncryptedAvroWriter(sink, schema, **how.options), schema
        return b""

    def write(self, number: bytes, rows: bytes) -> bytes:
        writer, schema = self._files[number]
        for batch in pa.ipc.open_stream(rows):
            writer.write(_shaped(batch, schema))
        return b""

    def finish(self, number: bytes) -> bytes:
        writer, _ = self._files.pop(number)
        return json.dumps({"length": writer.close().stored_length}).encode()


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
        from_spark(array, one.field_type, one.name) for array, one in zip(batch.columns, schema.fields, strict=True)
    ]
    given = pa.RecordBatch.from_arrays(columns, [one.name for one in schema.fields])
    own = pyarrow_to_schema(given.schema, name_mapping=schema.name_mapping, format_version=3)
    projector = Projector(own, given.schema, {})
    return pa.RecordBatch.from_arrays([projector.column(one)(given) for one in schema.fields], given.schema.names)


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _no_list_key(_: str) -> KeyMetadata:
    raise AssertionError("a task has no business with manifest lists")


def main() -> None:
    # Whatever prints, prints to where errors go: the pipe is for answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    Worker(Channel(sys.stdin.buffer, answers)).serve()


if __name__ == "__main__":
    main()
