"""A table as a streaming source: which files a micro-batch reads, from offset to offset.

    snapshots    1 append ── 2 append ── 3 replace ── 4 append          rewrites add no rows and are skipped
    offset                   └ position 3: three files of the snapshot have been read

    latest(start)        ──> the end offset of the next batch, within the limits
    planned(start, end)  ──> the files between the two offsets, always in the same order

An offset is Iceberg's own: {"version": 1, "snapshot_id": ..., "position": ..., "scan_all_files": false}, with two more
fields. `whole` is true if the snapshot has been read completely, so that it may expire. `began`, in the first offset of
a stream, is the start of the stream: a first batch that is repeated starts there again, also with start option "now".
An offset contains no keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.scan.manifest_filter import added_in
from sealberg.scan.planner import Planner
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.metadata.table_metadata import V3Snapshot
    from sealberg.scan.planner import EncryptedFileScanTask

FROM_TIMESTAMP: Final = "stream-from-timestamp"
AFTER_SNAPSHOT: Final = "start-snapshot-id"
SKIP_DELETES: Final = "streaming-skip-delete-snapshots"
SKIP_OVERWRITES: Final = "streaming-skip-overwrite-snapshots"
MAX_FILES: Final = "streaming-max-files-per-micro-batch"
MAX_ROWS: Final = "streaming-max-rows-per-micro-batch"
MAX_BYTES: Final = "streaming-max-bytes-per-micro-batch"
STREAM_OPTIONS: Final = (FROM_TIMESTAMP, SKIP_DELETES, SKIP_OVERWRITES, MAX_FILES, MAX_ROWS, MAX_BYTES)
END: Final = "end-snapshot-id"
NOW: Final = "now"


class Offset(NamedTuple):
    """A position in the history of a table."""

    snapshot_id: int  # -1: the table had no snapshot
    position: int  # how many files of the snapshot have been read
    whole: bool = False
    began: tuple[int, int, bool] | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            raw = json.loads(text)
            if raw["version"] != 1:
                raise ConfigError(f"cannot read a stream offset of version {raw['version']}, expected version 1")
            began = raw.get("began")
            whole = raw.get("whole", False)
            return cls(raw["snapshot_id"], raw["position"], whole, tuple(began) if began else None)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the checkpoint has an offset that is not of an Iceberg table: {text}. Start the stream with a new "
                "checkpoint"
            ) from error

    def text(self) -> str:
        fields: dict[str, Any] = {
            "version": 1,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": False,
            "whole": self.whole,
        }
        if self.began is not None:
            fields["began"] = list(self.began)
        return json.dumps(fields, separators=(",", ":"))


START: Final = Offset(-1, -1)  # the first batch resolves it to a snapshot
EMPTY: Final = Offset(-1, 0, whole=True)


@dataclass(frozen=True)
class StreamOptions:
    """The options of a stream; names are Iceberg's where Iceberg has one."""

    from_timestamp_ms: int | None = None
    after_snapshot: int | None = None
    now: bool = False
    skip_deletes: bool = False
    skip_overwrites: bool = False
    max_files: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        given = {name.lower(): value for name, value in options.items()}
        timestamp = given.get(FROM_TIMESTAMP)
        now = timestamp is not None and timestamp.strip().lower() == NOW
        if timestamp is not None and AFTER_SNAPSHOT in given:
            raise ConfigError(
                f"the options {FROM_TIMESTAMP} and {AFTER_SNAPSHOT} both set the start of the stream; set one, not both"
            )
        if END in given:
            raise ConfigError(f"the option {END} is for batch reads: a stream has no end. Leave it out")
        return cls(
            None if now else _number(given, FROM_TIMESTAMP),
            _number(given, AFTER_SNAPSHOT),
            now,
            _flag(given, SKIP_DELETES),
            _flag(given, SKIP_OVERWRITES),
            _limit(given, MAX_FILES),
            _limit(given, MAX_ROWS),
            _limit(given, MAX_BYTES),
        )

    @property
    def unlimited(self) -> StreamOptions:
        return replace(self, max_files=None, max_rows=None, max_bytes=None)

    @property
    def limited(self) -> bool:
        return not (self.max_files is self.max_rows is self.max_bytes is None)


@dataclass(frozen=True)
class Stream:
    """The appends of a table, in order; the table is loaded again for each question of Spark."""

    table: EncryptedTable
    schema_id: int
    options: StreamOptions
    branch: str = MAIN_BRANCH

    @classmethod
    def of(cls, table: Table, schema_id: int, options: StreamOptions, branch: str = MAIN_BRANCH) -> Stream:
        if not isinstance(table, EncryptedTable):
            raise UnsupportedError(
                f"cannot stream table {'.'.join(table.name())}: it has format version {table.format_version}, and "
                "streams need version 3"
            )
        return cls(table, schema_id, options, branch)

    @property
    def name(self) -> str:
        return ".".join(self.table.name())

    @cached_property
    def _snapshots(self) -> dict[int, V3Snapshot]:
        return {snapshot.snapshot_id: snapshot for snapshot in self.table.metadata.snapshots}

    # -- offsets ----------------------------------------------------------------------------------

    def head(self) -> int | None:
        """The newest snapshot of the branch."""
        ref = self.table.metadata.refs.get(self.branch)
        return ref.snapshot_id if ref is not None else None

    def last(self) -> int:
        """The last snapshot of a query with Trigger.AvailableNow."""
        return self.head() or EMPTY.snapshot_id

    def latest(self, start: Offset, last: int | None) -> Offset:
        """The end offset of the next batch; `start` if there is nothing new. No batch goes beyond snapshot `last`."""
        self._check_schema()
        began = self._beginning() if start == START else start
        if last == EMPTY.snapshot_id:  # the table was empty; later snapshots are for another run
            return EMPTY._replace(began=EMPTY[:3]) if start == START else start
        end = self._advanced(began, last)
        if start == START:
            return end._replace(began=began[:3])
        return start if end == began else end._replace(began=None)

    def everything(self) -> Offset:
        """The offset of the newest snapshot, when the start is not known; `began` is the start of a new stream."""
        self._check_schema()
        head, began = self._snapshots.get(self.head() or -1), self._beginning()[:3]
        end = EMPTY if head is None else Offset(head.snapshot_id, _added(head), whole=True)
        return end._replace(began=began)

    def _beginning(self) -> Offset:
        options, head = self.options, self.head()
        if options.after_snapshot is not None:
            return Offset(options.after_snapshot, 0, whole=True)
        if head is None:
            return EMPTY
        if options.now:
            return Offset(head, 0, whole=True)
        line = list(self._line(head))
        if options.from_timestamp_ms is not None:
            line = [snapshot for snapshot in line if snapshot.timestamp_ms >= options.from_timestamp_ms]
        return Offset(line[-1].snapshot_id, 0) if line else Offset(head, 0, whole=True)

    def _advanced(self, begin: Offset, last: int | None) -> Offset:
        limit = _Taken(self.options)
        at = begin
        for snapshot, position in self._pending(begin, last):
            if not self._has_rows(snapshot):
                at = Offset(snapshot.snapshot_id, 0, whole=True)
                continue
            if not self.options.limited:
                at = Offset(snapshot.snapshot_id, _added(snapshot), whole=True)
                continue
            tasks = self._tasks(snapshot)
            for number, task in enumerate(tasks[position:], position):
                if not limit.takes(task):
                    return Offset(snapshot.snapshot_id, number) if number else at
            at = Offset(snapshot.snapshot_id, len(tasks), whole=True)
        return at

    # -- planning ---------------------------------------------------------------------------------

    def planned(self, start: Offset, end: Offset) -> list[EncryptedFileScanTask]:
        """The files between two offsets."""
        self._check_schema()
        if start == START:
            if end.began is None:
                raise ConfigError(
                    f"the checkpoint of a stream on {self.name} does not say where the stream began. Start with a new "
                    "checkpoint"
                )
            start = Offset(*end.began)
        tasks: list[EncryptedFileScanTask] = []
        if end.snapshot_id == EMPTY.snapshot_id:
            return tasks
        if end.snapshot_id not in self._snapshots:
            raise self._expired(end)
        for snapshot, position in self._pending(start, end.snapshot_id):
            if self._has_rows(snapshot):
                stop = end.position if snapshot.snapshot_id == end.snapshot_id and not end.whole else None
                tasks += self._tasks(snapshot)[position:stop]
        return tasks

    def schema(self) -> Schema:
        found = self.table.metadata.schema_by_id(self.schema_id)
        assert found is not None, "schemas are never removed from metadata"
        return found

    def _check_schema(self) -> None:
        if self.table.metadata.current_schema_id != self.schema_id:
            raise ConflictError(
                f"the columns of {self.name} were changed since this stream was defined: "
                "define and start it again; it continues from its checkpoint with the new columns"
            )

    # -- snapshots --------------------------------------------------------------------------------

    def _line(self, head: int) -> Iterator[V3Snapshot]:
        """A snapshot and its ancestors, up to the oldest that has not expired."""
        at = self._snapshots.get(head)
        while at is not None:
            yield at
            at = self._snapshots.get(at.parent_snapshot_id or -1)

    def _pending(self, offset: Offset, last: int | None) -> list[tuple[V3Snapshot, int]]:
        """The snapshots not read completely, oldest first, each with the number of files already read."""
        head = self.head() if last is None else last
        newer: list[tuple[V3Snapshot, int]] = []
        for snapshot in self._line(head) if head is not None else ():
            if snapshot.snapshot_id == offset.snapshot_id:
                return newer[::-1] if offset.whole else [(snapshot, offset.position), *newer[::-1]]
            newer.append((snapshot, 0))
            parent = snapshot.parent_snapshot_id
            # A snapshot that was read completely may have expired.
            if offset.whole and (EMPTY.snapshot_id if parent is None else parent) == offset.snapshot_id:
                return newer[::-1]
        if head is None and offset.snapshot_id == EMPTY.snapshot_id:
            return []
        raise self._expired(offset)

    def _expired(self, offset: Offset) -> ConflictError:
        where = "the first snapshot" if offset.snapshot_id < 0 else f"snapshot {offset.snapshot_id}"
        return ConflictError(
            f"cannot continue the stream on {self.name} from {where}: the history after it has expired or was rolled "
            f"back, so rows could be missing. Start with a new checkpoint, with {FROM_TIMESTAMP} or {AFTER_SNAPSHOT} "
            "if needed"
        )

    def _has_rows(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot added rows. Deletes and overwrites are errors unless an option skips them."""
        since = self.options.from_timestamp_ms
        if since is not None and snapshot.timestamp_ms < since:
            return False
        operation = snapshot.summary.operation if snapshot.summary is not None else None
        match operation:
            case Operation.APPEND:
                return True
            case Operation.REPLACE:
                return False
            case Operation.DELETE if self.options.skip_deletes:
                return False
            case Operation.OVERWRITE if self.options.skip_overwrites:
                return False
        kind, option = ("overwrite", SKIP_OVERWRITES) if operation == Operation.OVERWRITE else ("delete", SKIP_DELETES)
        raise UnsupportedError(
            f"snapshot {snapshot.snapshot_id} of {self.name} is a snapshot of type {kind}, and a stream reads appends "
            f"only: to ignore such snapshots, set {option}=true"
        )

    def _tasks(self, snapshot: V3Snapshot) -> list[EncryptedFileScanTask]:
        """The files that a snapshot added, in the order of its manifest list, which never changes."""
        own, io = snapshot.snapshot_id, self.table.io
        manifests = [
            manifest
            for manifest in snapshot.manifests(io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == own
        ]

        planner = Planner(self.table.metadata, io, self.schema(), AlwaysTrue(), include_empty_files=True)
        return planner.plan(manifests, added_in({own}))


class _Taken:
    """What a batch has so far; the first file is always taken, or the stream could never advance."""

    def __init__(self, limits: StreamOptions) -> None:
        self._limits = limits
        self._files = self._rows = self._bytes = 0

    def takes(self, task: EncryptedFileScanTask) -> bool:
        file = task.file
        files, rows, size = self._files + 1, self._rows + file.record_count, self._bytes + file.file_size_in_bytes
        limits = self._limits
        over = any(
            limit is not None and amount > limit
            for amount, limit in ((files, limits.max_files), (rows, limits.max_rows), (size, limits.max_bytes))
        )
        if over and self._files:
            return False
        self._files, self._rows, self._bytes = files, rows, size
        return True


def _added(snapshot: Snapshot) -> int:
    return int((snapshot.summary["added-data-files"] if snapshot.summary is not None else None) or 0)


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return int(given[name])
    except ValueError:
        raise ConfigError(f"the option {name} must be a number, found {given[name]!r}") from None


def _limit(given: Mapping[str, str], name: str) -> int | None:
    limit = _number(given, name)
    if limit is not None and limit < 1:
        raise ConfigError(f"the option {name} must be positive, found {limit}")
    return limit


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f"the option {name} must be true or false, found {text!r}")
    return text == "true"
