"""Options of a read: which rows are meant, and how they are split into tasks.

    branch                                 the newest snapshot of a branch
    tag  snapshot-id  as-of-timestamp      one snapshot
    start-snapshot-id  end-snapshot-id     the rows that were appended after the one, up to the other
    split-size  file-open-cost  ...         how rows come to Spark, in `scan_options`

    spark.read.option("branch", "audit").table("prod.hr.pay")      SELECT * FROM prod.hr.pay WITH (`tag` = 'q3')

Spark fixes the columns of a table before it passes the options of a read, so rows of a branch have the table's
current columns, as in Iceberg Java. A snapshot whose columns were others is refused: VERSION AS OF reads it with its
own. An option that is not known here is refused, with the names that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.table.refs import SnapshotRefType

from sealberg.errors import ConfigError
from sealberg.properties.known import REFUSED, find
from sealberg.properties.spark_names import READ_OPTIONS
from sealberg.spark.driver.descriptions import describe, with_handle
from sealberg.spark.driver.scan_options import scan_options
from sealberg.spark.driver.session_settings import SessionSettings
from sealberg.spark.protocol.tables import ReadOptionsAnswer
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.spark.driver.tables import Tables
    from sealberg.spark.protocol.tables import ResolveReadOptions, TableDescription

BRANCH: Final = "branch"
TAG: Final = "tag"
SNAPSHOT: Final = "snapshot-id"
AS_OF: Final = "as-of-timestamp"
START: Final = "start-snapshot-id"
END: Final = "end-snapshot-id"
BY_SPARK: Final = ("versionasof", "timestampasof")
POINTS: Final = (BRANCH, TAG, SNAPSHOT, AS_OF)
CHOOSING: Final = (*POINTS, START, END)


def resolve(tables: Tables, request: ResolveReadOptions) -> ReadOptionsAnswer:
    """The snapshot or branch that options and settings of the session choose, and how it is scanned."""
    handle = request.handle
    table = tables.named(handle)
    name = ".".join(table.name())
    options = ReadOptions.of(name, request.options)
    at_ref = handle.past or handle.branch is not None
    if not at_ref and any(key.lower() in BY_SPARK for key in request.options):
        raise ConfigError(f"{name}: Spark has not obeyed {' or '.join(BY_SPARK)}; use VERSION AS OF or TIMESTAMP AS OF")
    if options.chooses and request.row_level:
        raise ConfigError(f"{name}: {options.named} cannot choose the rows of a DELETE, UPDATE or MERGE; name a branch")
    if options.chooses and at_ref:
        raise ConfigError(f"{name} is already read at a branch, a tag or a point in time: leave out {options.named}")
    settings = SessionSettings.of(request.settings)
    branch = None if at_ref else settings.read_branch(table.metadata)
    chosen = _chosen(table, name, options) if options.chooses else None
    if chosen is None and branch is not None:
        chosen = _at_branch(table, name, branch)
    return ReadOptionsAnswer(scan_options(name, table.metadata, settings, request.options), chosen)


@dataclass(frozen=True)
class ReadOptions:
    """The options that choose rows, by name; the others are only checked here."""

    chosen: Mapping[str, str]

    @classmethod
    def of(cls, name: str, given: Mapping[str, str]) -> ReadOptions:
        options = {key.lower(): value for key, value in given.items()}
        known = {key: find(READ_OPTIONS, key.lower()) for key in given}
        if unknown := sorted(key for key, found in known.items() if found is None):
            names = ", ".join(option.name for option in READ_OPTIONS)
            raise ConfigError(f"{name}: unknown read option {', '.join(unknown)}; known are {names}")
        for key, found in known.items():
            if found is not None and found.fate == REFUSED:
                raise ConfigError(f"{name}: the read option {key} is not supported: {found.reason}")
        chosen: dict[str, str] = {key: options[key] for key in CHOOSING if key in options}
        points = [key for key in POINTS if key in chosen]
        if len(points) > 1 or (points and (START in chosen or END in chosen)):
            raise ConfigError(f"{name}: the read options {', '.join(chosen)} exclude each other: give one of them")
        if END in chosen and START not in chosen:
            raise ConfigError(f"{name}: {END} needs {START}")
        return cls(chosen)

    @property
    def chooses(self) -> bool:
        return bool(self.chosen)

    @property
    def named(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.chosen.items())


def _chosen(table: Table, name: str, options: ReadOptions) -> TableDescription:
    chosen = options.chosen
    if BRANCH in chosen:
        return _at_branch(table, name, chosen[BRANCH])
    if START in chosen:
        return _appended(table, name, options)
    snapshot = chosen_snapshot(table, name, options)
    _check_columns(table, name, snapshot, options)
    return with_handle(describe(table, snapshot), past=True)


def chosen_snapshot(table: Table, name: str, options: ReadOptions) -> Snapshot:
    """The snapshot that branch, tag, snapshot-id or as-of-timestamp chooses; one of them is given."""
    chosen = options.chosen
    if BRANCH in chosen:
        return _of_ref(table, name, chosen[BRANCH], SnapshotRefType.BRANCH)
    if TAG in chosen:
        return _of_ref(table, name, chosen[TAG], SnapshotRefType.TAG)
    if SNAPSHOT in chosen:
        return _snapshot(table, name, _number(name, SNAPSHOT, chosen[SNAPSHOT]))
    moment = _number(name, AS_OF, chosen[AS_OF])
    found = table.snapshot_as_of_timestamp(moment)
    if found is None:
        raise ConfigError(f"{name} has no snapshot as old as {AS_OF}={moment}")
    return found


def _at_branch(table: Table, name: str, branch: str) -> TableDescription:
    return with_handle(describe(table, _of_ref(table, name, branch, SnapshotRefType.BRANCH)), branch=branch)


def _appended(table: Table, name: str, options: ReadOptions) -> TableDescription:
    """The rows that were appended after the snapshot `start-snapshot-id`, up to `end-snapshot-id`."""
    if not isinstance(table, EncryptedTable):
        raise ConfigError(f"{name}: {START} reads tables of format version 3 only")
    start = _number(name, START, options.chosen[START])
    end = options.chosen.get(END)
    last = table.metadata.current_snapshot() if end is None else _snapshot(table, name, _number(name, END, end))
    if last is None:
        raise ConfigError(f"{name} has no snapshots, so nothing was appended after {start}")
    return with_handle(describe(table, last), after_snapshot_id=start)


def _of_ref(table: Table, name: str, ref_name: str, kind: SnapshotRefType) -> Snapshot:
    ref = table.metadata.refs.get(ref_name)
    if ref is None or ref.snapshot_ref_type != kind:
        known = sorted(key for key, found in table.metadata.refs.items() if found.snapshot_ref_type == kind)
        raise ConfigError(f"{name} has no {kind.value} {ref_name}; found {', '.join(known) or 'none'}")
    return _snapshot(table, name, ref.snapshot_id)


def _snapshot(table: Table, name: str, snapshot_id: int) -> Snapshot:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise ConfigError(f"{name} has no snapshot {snapshot_id}")
    return snapshot


def _check_columns(table: Table, name: str, snapshot: Snapshot, options: ReadOptions) -> None:
    now = table.metadata.schema()
    then = table.metadata.schema_by_id(snapshot.schema_id) if snapshot.schema_id is not None else now
    if then is not None and then.fields != now.fields:
        raise ConfigError(
            f"{name} had other columns at {options.named}: read it by VERSION AS OF {snapshot.snapshot_id}, "
            "which takes the columns of that time"
        )


def _number(name: str, key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{name}: {key} is a number, not {value!r}") from None
