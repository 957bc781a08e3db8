"""One data or delete file, wherever the runner works on it.

    FileTask ──check_file──> FileReport

A task holds the location, the key of this one file and its manifest entry. A file is opened once: its length is
compared, then every AGS1 block or Parquet module is authenticated, then its content is compared with the entry.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError, IntegrityError, KeyNotFoundError, SealbergError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_walk import walk_blocks
from sealberg.files.avro.container import Span, read_header
from sealberg.files.avro.row_counter import RowCounter
from sealberg.files.byte_sources import OneThreadSource, as_source, is_arrow_file
from sealberg.files.confined_io import store
from sealberg.files.file_io import ENCRYPTED_MAGICS, EncryptingFileIO, naming
from sealberg.files.identify import PLAINTEXT
from sealberg.files.parquet.module_walk import ModuleWalk
from sealberg.files.puffin.container import (
    CARDINALITY,
    DELETION_VECTOR,
    REFERENCED_DATA_FILE,
    read_deletion_vector,
    read_footer,
)
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.checks.claims import check_claims
from sealberg.jobs.checks.outcome import FileReport, Problem, Skipped, problem_of, reason_of
from sealberg.jobs.checks.parquet import PageSizes, check_footer, check_modules
from sealberg.jobs.job import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import NameMapping

    from sealberg.files.byte_sources import RangedSource
    from sealberg.jobs.checks.claims import Columns
    from sealberg.jobs.findings import Level
    from sealberg.metadata.manifest import DataFileV3


MAX_DECODED_PAGE: Final = 32 << 20  # verify uses little memory, whatever the table; usual pages have 1 MiB
USUAL_HEADER: Final = 64 << 10  # of an Avro file: a longer one is read once more


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file to check.

    Attributes:
        files: its manifest entries: one, or one per deletion vector of a Puffin file.
        again: the file was checked before, against another entry with other claims; it is not counted twice.
    """

    table: str
    kind: str
    snapshot_id: int | None
    level: Level
    io: FileIO = field(repr=False)
    files: tuple[DataFileV3, ...]
    schema: Schema = field(repr=False)
    spec: PartitionSpec = field(repr=False)
    columns: Columns = field(repr=False)
    again: bool = False
    names: NameMapping | None = field(default=None, repr=False)

    @property
    def location(self) -> str:
        return str(self.files[0].file_path)

    @property
    def stored_bytes(self) -> int:
        return int(self.files[0].file_size_in_bytes or 0)


@dataclass
class _Seen:
    """What was authenticated so far, also if an error ends the check."""

    stored: int = 0
    checked: int = 0
    units: int = 0
    pages: PageSizes = field(default_factory=PageSizes)


def check_file(task: FileTask) -> FileReport:
    """Check one file; every error becomes a problem or the reason why the file was not checked."""
    seen, problems, skipped, failure = _Seen(task.stored_bytes), list[Problem](), list[Skipped](), None
    make = partial(FileReport, task.table, task.kind, task.location, task.snapshot_id)
    try:
        with naming(task.location):
            for found in _problems(task, seen):
                skipped.append(found) if isinstance(found, Skipped) else problems.append(found)
    except (SealbergError, OSError) as error:
        problem = problem_of(error, task.location)
        if problem is not None:
            problems.append(_plaintext(task) or problem if problem.code in ("length", "malformed") else problem)
        else:
            failure = reason_of(error)
    except Exception as error:  # noqa: BLE001 (libraries of stores raise errors of their own; other files are checked)
        failure = f"{type(error).__name__}: {error}"
    return make(seen.stored, seen.checked, seen.units, tuple(problems), failure, task.again, tuple(skipped))


def _plaintext(task: FileTask) -> Problem | None:
    """A finding if the file is plaintext: that is worse than its wrong length."""
    try:
        with task.io.new_input(task.location).open() as stream:
            kind = PLAINTEXT.get(bytes(stream.read(4)))
    except OSError:
        return None
    return None if kind is None else Problem("plaintext", f"a plaintext {kind} file in the place of an encrypted file")


def _problems(task: FileTask, seen: _Seen) -> Iterator[Problem | Skipped]:
    file = task.files[0]
    for each in task.files:
        yield from check_claims(each, task.columns)
    source = task.io.new_input(task.location).open()
    with closing(source):
        if file.key_metadata is None:
            yield _without_key(source)
            return
        key = KeyMetadata.decode(file.key_metadata)
        if key.file_length is None:
            yield Problem("no-length", "the key metadata have no file length, so a cut file may go unnoticed")
        for size in {each.file_size_in_bytes for each in task.files} - {key.file_length}:
            if key.file_length is not None:
                yield Problem("size", f"the manifest claims {size} bytes, its key metadata {key.file_length} bytes")
        match file.file_format.value:
            case "PARQUET":
                yield from _parquet(task, source, key, seen)
            case "AVRO":
                yield from _avro(task, source, key, seen)
            case "PUFFIN":
                yield from _puffin(task, source, key, seen)
            case other:
                raise FormatError(f"the manifest entry has the format {other}, expected PARQUET, AVRO or PUFFIN")
    # An Avro file has no footer: only its rows show whether what the entry claims of columns is true.
    claims = file.file_format.value == "AVRO" and task.level == "full" and _claims_columns(file)
    if claims or (task.level == "deep" and file.file_format.value != "PUFFIN"):
        yield from _rows(task, seen.pages)


def _claims_columns(file: DataFileV3) -> bool:
    counts = (file.value_counts, file.null_value_counts, file.nan_value_counts)
    return bool(len(file.partition) or any((*counts, file.lower_bounds, file.upper_bounds)))


def _rows(task: FileTask, pages: PageSizes) -> Iterator[Problem | Skipped]:
    """Decode the rows, if no page would take too much memory; every byte of the file is authenticated by now."""
    from sealberg.jobs.checks.rows import check_rows

    if pages.largest > MAX_DECODED_PAGE:
        size, most = readable(pages.largest), readable(MAX_DECODED_PAGE)
        yield Skipped("its rows", f"a page of column {pages.column} has {size} when it is decompressed; {most} at most")
        return
    yield from check_rows(_opening(task.io), task.files[0], task.schema, task.spec, pages.row_bytes, task.names)


def _without_key(source: Any) -> Problem:
    if bytes(source.read(4)) in ENCRYPTED_MAGICS:
        return Problem("no-key", "the file is encrypted and its manifest entry has no key, so nobody can read it")
    return Problem("plaintext", "the manifest entry has no key, and the file is not encrypted")


def _parquet(task: FileTask, source: Any, key: KeyMetadata, seen: _Seen) -> Iterator[Problem]:
    with ModuleWalk(_source(task, source), key, where=task.location, discard=True) as walk:
        seen.stored = walk.size
        seen.checked, seen.units = walk.footer_range.length, 1
        if task.level != "fast":
            yield from check_modules(walk, task.location, seen.pages)
            seen.checked, seen.units = walk.size, walk.modules
        yield from check_footer(walk.footer, task.files[0], task.schema, task.spec)


def _avro(task: FileTask, source: Any, key: KeyMetadata, seen: _Seen) -> Iterator[Problem]:
    with _ags1(source, key, seen) as stream:
        if task.level == "fast":
            read_header(Span(stream))
            seen.units, seen.checked = 1, min(seen.stored, stream.layout.stored_start(1))
            return
        blocks = _blocks(task, source, stream, key)
        first = next(blocks)
        counter = RowCounter(read_header(Span(stream, bytes(first[:USUAL_HEADER]))))
        counter.feed(first)
        for block in blocks:
            counter.feed(block)
        _all_seen(stream, seen)
        rows = counter.finish()
        if rows != task.files[0].record_count:
            yield Problem("count", f"the manifest claims {task.files[0].record_count} records, the file has {rows}")


def _puffin(task: FileTask, source: Any, key: KeyMetadata, seen: _Seen) -> Iterator[Problem]:
    with _ags1(source, key, seen) as stream:
        if task.level == "fast":
            read_footer(stream)
            seen.units, seen.checked = 1, min(seen.stored, stream.layout.stored_start(1))
            return
        for _ in _blocks(task, source, stream, key):
            pass
        _all_seen(stream, seen)
        blobs = {(blob.offset, blob.length): blob for blob in read_footer(stream).blobs}
        for file in task.files:
            offset, length = file.content_offset, file.content_size_in_bytes
            blob = None if offset is None or length is None else blobs.get((offset, length))
            if blob is None or offset is None or length is None or blob.type != DELETION_VECTOR:
                yield Problem("size", f"the manifest names a deletion vector at {offset}, where the file has none")
                continue
            if blob.properties.get(REFERENCED_DATA_FILE) != file.referenced_data_file:
                yield Problem(
                    "entry", f"the deletion vector at {offset} is of another data file than the manifest says"
                )
            if blob.properties.get(CARDINALITY) != str(file.record_count):
                yield Problem(
                    "count", f"the manifest claims {file.record_count} deleted rows for the vector at {offset}"
                )
                continue
            try:
                read_deletion_vector(stream, offset, length, file.record_count)
            except IntegrityError as error:
                yield Problem("count", f"the deletion vector at {offset}: {error}")


def _ags1(source: Any, key: KeyMetadata, seen: _Seen) -> Ags1Reader:
    stream = Ags1Reader(source, key, threads=1, allow_missing_length=True)
    seen.stored = stream.layout.stored_length
    return stream


def _blocks(task: FileTask, source: Any, stream: Ags1Reader, key: KeyMetadata) -> Iterator[memoryview]:
    return walk_blocks(_source(task, source), stream.layout, key, remote=store(task.location) != "file")


def _source(task: FileTask, opened: Any) -> RangedSource:
    """The open file for one pass by one thread."""
    local = store(task.location) == "file" and is_arrow_file(opened)
    return OneThreadSource(opened) if local else as_source(opened)


def _all_seen(stream: Ags1Reader, seen: _Seen) -> None:
    seen.checked, seen.units = stream.layout.stored_length, stream.layout.block_count


def _opening(io: FileIO) -> EncryptingFileIO:
    """A FileIO for files that carry their own keys."""

    def no_list_key(key_id: str) -> KeyMetadata:
        raise KeyNotFoundError(f"internal error: the key {key_id} of a manifest list is asked for in a file check")

    return EncryptingFileIO(io, no_list_key, allow_missing_length=True)
