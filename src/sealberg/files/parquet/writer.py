"""Writes one encrypted Parquet file with a new key; the file has no footer before it is complete.

    rows ──collected into row groups──> pyarrow's writer with the key ──> a gate that counts and can be shut ──> sink

pyarrow writes bloom filters into plaintext files only. With them it writes without the key, into a sealed spool, from
which the encrypted file is made at the end (spool.py).

reader.py shows the layout of the file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from sealberg.errors import ConfigError, PoisonedError
from sealberg.files.file_writer import FileWriter
from sealberg.files.parquet.dictionary_policy import worthwhile
from sealberg.files.parquet.spool import Spool, metadata_of
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.files.ags1_writer import Sink
    from sealberg.format.key_metadata import KeyMetadata

FIELD_ID: Final = b"PARQUET:field_id"


def encryption_properties(key_metadata: KeyMetadata) -> pe.FileEncryptionProperties:
    """pyarrow's encryption properties for one file; a key must not be used for a second file."""
    if key_metadata.aad_prefix is None:
        raise ConfigError("the key metadata have no AAD prefix, which an encrypted Parquet file needs")
    if key_metadata.file_length is not None:
        raise ConfigError("the key metadata belong to a file that is already written, expected a new key")
    return pe.create_encryption_properties(
        key_metadata.encryption_key, aad_prefix=key_metadata.aad_prefix, store_aad_prefix=False
    )


LEVELS: Final = {"zstd": (-131072, 22), "gzip": (1, 9), "brotli": (0, 11)}


def write_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """The table's `write.parquet.*` properties for `EncryptedParquetWriter`; defaults are PyIceberg's.

    The properties of bloom filters are in bloom_filters.py.
    """
    from pyiceberg.table import TableProperties as Names

    def number(name: str, default: int) -> int:
        found: int = value_of(properties, name, default)
        return found

    codec = _codec(properties.get(Names.PARQUET_COMPRESSION) or Names.PARQUET_COMPRESSION_DEFAULT)
    page_rows = number(Names.PARQUET_PAGE_ROW_LIMIT, Names.PARQUET_PAGE_ROW_LIMIT_DEFAULT)
    return {
        "compression": codec,
        "compression_level": _level(codec, value_of(properties, Names.PARQUET_COMPRESSION_LEVEL, None)),
        "row_group_rows": number(Names.PARQUET_ROW_GROUP_LIMIT, Names.PARQUET_ROW_GROUP_LIMIT_DEFAULT),
        "row_group_bytes": number(Names.PARQUET_ROW_GROUP_SIZE_BYTES, Names.PARQUET_ROW_GROUP_SIZE_BYTES_DEFAULT),
        "data_page_size": number(Names.PARQUET_PAGE_SIZE_BYTES, Names.PARQUET_PAGE_SIZE_BYTES_DEFAULT),
        "dictionary_pagesize_limit": number(Names.PARQUET_DICT_SIZE_BYTES, Names.PARQUET_DICT_SIZE_BYTES_DEFAULT),
        "write_batch_size": page_rows,
        "max_rows_per_page": page_rows,
        "write_page_index": True,  # lets a reader with a filter fetch only the pages that it needs
    }


def _level(codec: str, level: int | None) -> int | None:
    """The level, if the codec has any; snappy and lz4 have none, and Java ignores it for them."""
    if level is None or codec not in LEVELS:
        return None
    least, most = LEVELS[codec]
    if not least <= level <= most:
        raise ConfigError(f"write.parquet.compression-level of {codec} is from {least} to {most}, not {level}")
    return level


def _codec(name: str) -> str:
    codec = name.lower()
    if codec in ("uncompressed", "none"):
        return "none"
    if codec not in ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli"):
        raise ConfigError(f"Unsupported compression codec: {name}")
    return "lz4" if codec == "lz4_raw" else codec  # pyarrow's lz4 is Parquet's LZ4_RAW


@dataclass(frozen=True, slots=True)
class WrittenParquet:
    """A finished file: its length, its Parquet metadata and its key metadata."""

    stored_length: int
    metadata: pq.FileMetaData = field(repr=False)
    key_metadata: KeyMetadata = field(repr=False)


class EncryptedParquetWriter(FileWriter):
    """Writes one encrypted Parquet file.

    Rows are collected until they fill a row group, whatever the size of the batches. The file is complete only
    after `close`: a writer that ends earlier leaves modules without a footer at the sink.

    Args:
        sink: accepts the bytes in order; closed with the writer unless `close_sink` is False.
        schema: an Arrow schema whose fields have Iceberg's ids as `PARQUET:field_id`.
        key_metadata: a new key. `close` returns it with the length.
        options: the result of `write_options`, whose defaults are used for missing options.
    """

    def __init__(
        self,
        sink: Sink,
        schema: pa.Schema,
        key_metadata: KeyMetadata,
        *,
        options: Mapping[str, Any] | None = None,
        close_sink: bool = True,
    ) -> None:
        self._written: WrittenParquet | None = None
        self._spool = Spool(sink) if (options or {}).get("bloom_filter_options") else None
        self._gate = _Gate(self._spool or sink, close_sink=close_sink)
        self._key_metadata = key_metadata
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._writer: pq.ParquetWriter | None = None
        try:
            if key_metadata is None:
                raise ConfigError("internal error: no key metadata for a Parquet file of an encrypted table")
            _check_field_ids(schema)
            kwargs = {**write_options({}), **(options or {})}
            self._most_rows: int = kwargs.pop("row_group_rows")
            self._most_bytes: int = kwargs.pop("row_group_bytes")
            self._collected: list[pq.FileMetaData] = []
            encryption = encryption_properties(key_metadata)
            self._kwargs = {
                **kwargs,
                "encryption_properties": encryption if self._spool is None else None,
                "store_decimal_as_integer": True,  # as Java does
                "metadata_collector": self._collected,
            }
        except BaseException:
            self._gate.give_up()
            raise

    @property
    def closed(self) -> bool:
        return self._gate.closed

    @property
    def written(self) -> WrittenParquet:
        """The finished file; known after `close`."""
        if self._written is None:
            raise ConfigError("the length of the file is known only after a successful close")
        return self._written

    def tell(self) -> int:
        """The bytes at the sink plus the bytes of collected rows, for rolling over to the next file."""
        return self._gate.count + self._bytes

    @property
    def collected_bytes(self) -> int:
        """The memory of the rows that wait for their row group."""
        return self._bytes

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        self.check_usable()
        if not rows.schema.equals(self._schema, check_metadata=False):
            raise ConfigError("the rows have another schema than the file, expected the same columns and types")
        with self.aborting():
            for batch in [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches():
                self._take(batch)

    def end_row_group(self) -> None:
        """Write the collected rows as a row group, however few: a caller with many open files saves their memory."""
        self.check_usable()
        if self._rows:
            with self.aborting():
                self._flush()

    def close(self) -> WrittenParquet:
        if self._written is None:
            self.check_usable()
            with self.aborting():
                self._flush(last=True)
                written = self._rewrapped() if self._spool else self._as_it_is()
                self._gate.finish()
            self._written = written
            self._discard_spool()
        return self._written

    def abort(self) -> None:
        """Give up the file: no footer is written."""
        if self._gate.closed:
            return
        self._gate.give_up()  # first, because pyarrow's finalizer would write a footer
        self._discard_spool()
        if self._writer is not None:
            self._writer.is_open = False
        self._batches.clear()

    def __del__(self) -> None:
        if hasattr(self, "_writer"):
            self.abort()

    def check_usable(self) -> None:
        if self._gate.closed:
            raise ValueError("write to a closed Parquet file")

    def _as_it_is(self) -> WrittenParquet:
        length = self._gate.count
        return WrittenParquet(length, self._collected[0], self._key_metadata.with_length(length))

    def _rewrapped(self) -> WrittenParquet:
        assert self._spool is not None
        file = self._spool.rewrap(self._key_metadata)
        assert file.key_metadata is not None
        return WrittenParquet(file.stored_length, metadata_of(file.footer), file.key_metadata)

    def _discard_spool(self) -> None:
        if self._spool is not None:
            self._spool.discard()

    def _take(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            row_size = max(1, batch.nbytes // batch.num_rows)
            room = min(self._most_rows - self._rows, (self._most_bytes - self._bytes) // row_size)
            if room <= 0 and self._rows:
                self._flush()
                continue
            piece = batch.slice(0, max(1, room))  # at least one row, however large
            self._batches.append(piece)
            self._rows += piece.num_rows
            self._bytes += piece.nbytes
            batch = batch.slice(piece.num_rows)

    def _flush(self, *, last: bool = False) -> None:
        group = pa.Table.from_batches(self._batches, self._schema)
        if self._writer is None:  # created late, because the first rows decide the encodings
            chosen = {"use_dictionary": worthwhile(group), **self._kwargs}
            self._writer = pq.ParquetWriter(pa.PythonFile(self._gate, mode="w"), self._schema, **chosen)
        if self._rows:
            self._writer.write_table(group, row_group_size=self._rows)
        self._batches.clear()
        self._rows = self._bytes = 0
        if last:
            self._writer.close()


class _Gate:
    """Between pyarrow and the sink: counts the bytes, and refuses bytes after the file is given up."""

    def __init__(self, sink: Sink, *, close_sink: bool) -> None:
        self._sink = sink
        self._close_sink = close_sink
        self.count = 0
        self.closed = False

    def write(self, data: Any) -> int:
        if self.closed:
            raise PoisonedError("write failed: the file was aborted")
        view = memoryview(data).cast("B")
        while len(view):
            count = self._sink.write(view)
            if count is None:  # a sink that returns None accepted all bytes
                count = len(view)
            if not 0 < count <= len(view):
                raise PoisonedError(f"write failed: the sink accepted {count} of {len(view)} bytes")
            self.count += count
            view = view[count:]
        return len(data)

    def tell(self) -> int:
        return self.count

    def flush(self) -> None:
        """Does nothing: the sink is flushed when it is closed."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Called by pyarrow; does nothing, because `finish` and `give_up` close the sink."""

    def finish(self) -> None:
        if self._close_sink:
            self._sink.close()
        self.closed = True

    def give_up(self) -> None:
        self.closed = True
        if self._close_sink:
            with contextlib.suppress(Exception):
                self._sink.close()


def _check_field_ids(schema: pa.Schema) -> None:
    waiting = list(schema)
    while waiting:
        child = waiting.pop()
        if FIELD_ID not in (child.metadata or {}):
            raise ConfigError(
                f"the Arrow field {child.name!r} has no {FIELD_ID.decode()}, expected an Iceberg field id"
            )
        if pa.types.is_map(child.type):  # the entries of a map are not a field in Iceberg
            waiting += [child.type.key_field, child.type.item_field]
        elif pa.types.is_nested(child.type):
            waiting += [child.type.field(i) for i in range(child.type.num_fields)]
