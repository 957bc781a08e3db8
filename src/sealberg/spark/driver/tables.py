"""The tables of a catalog as Spark sees them: found at a point in time, created, altered, dropped.

    hr.salaries                    the newest snapshot
    hr.salaries VERSION AS OF ..   a snapshot id, a branch or a tag       TIMESTAMP AS OF: the snapshot of that time
    hr.salaries.branch_test        the newest snapshot of a branch, to read and to write; tag_... to read
    hr.salaries.snapshot_id_123    that snapshot, to read; at_timestamp_...: the snapshot of that time, in milliseconds
    hr.salaries.snapshots          a metadata table

A description carries a TableHandle: the table, the snapshot and the schema that a query has seen. Every later request
of the query names the handle, so a table that changes meanwhile is still read as it was when the query named it.
"""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.spark.driver import metadata_tables
from sealberg.spark.driver.alter import alter
from sealberg.spark.driver.definitions import CheckedDefinition, replacement
from sealberg.spark.driver.descriptions import describe, describe_metadata, with_handle
from sealberg.spark.driver.recent_tables import RecentTables
from sealberg.spark.driver.session_settings import SessionSettings
from sealberg.spark.metadata_tables.kinds import KINDS
from sealberg.spark.protocol.tables import LoadTable
from sealberg.table.transaction import EncryptedTransaction
from sealberg.write import row_changes

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from sealberg.spark.protocol import tables as messages
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.tables import LoadedTable, TableDescription

BRANCH, TAG, SNAPSHOT, TIME = "branch_", "tag_", "snapshot_id_", "at_timestamp_"


@dataclass(frozen=True)
class Tables:
    """The tables of one catalog."""

    catalog: Catalog
    staged: dict[str, EncryptedTransaction] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)  # those of `staged` that have their rows
    lock: threading.Lock = field(default_factory=threading.Lock)
    recent: RecentTables = field(default_factory=RecentTables)

    # -- find -----------------------------------------------------------------------------------

    def load(self, request: LoadTable) -> LoadedTable:
        SessionSettings.of(request.settings)  # an unknown setting is an error as soon as a statement names a table
        name = request.table
        if len(name) < 2:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        try:
            table = self.kept(name)
        except NoSuchTableError:
            if len(name) > 2 and _is_part(name[-1]) and self.catalog.table_exists(name[:-1]):
                return _part(self.kept(name[:-1]), name[-1], request)
            raise
        past = _past(table, request)
        if past is not None and _is_branch(table, request.version):
            # As in Java, with the columns of today, and whatever spark.wap.branch says.
            return with_handle(describe(table, past), branch=request.version)
        return describe(table, past or table.metadata.current_snapshot(), past=past is not None)

    def now(self, name: tuple[str, ...]) -> LoadedTable:
        """The description of a table after a statement has changed it."""
        return self.load(LoadTable(name, {}))

    def kept(self, name: tuple[str, ...]) -> Table:
        table = self.catalog.load_table(name)
        self.recent.keep(table)
        return table

    def found(self, handle: TableHandle) -> Table:
        """The table as it is now."""
        table = self.catalog.load_table(handle.table)
        if str(table.metadata.table_uuid) != handle.uuid:
            raise ConflictError(f"table {handle.name} was dropped and made anew since this query named it")
        return table

    def named(self, handle: TableHandle) -> Table:
        """The table as the query has named it; or as it is now, where that was long ago."""
        return self.recent.get(handle) or self.found(handle)

    def storage(self, handle: TableHandle) -> FileIO:
        """The FileIO of the table, even if the table was dropped or changed meanwhile."""
        if handle.staged is not None:  # the catalog does not know the table yet
            return self.staged[handle.staged].io
        return (self.recent.get(handle) or self.catalog.load_table(handle.table)).io

    # -- change ---------------------------------------------------------------------------------

    def create(self, request: messages.CreateTable) -> LoadedTable:
        definition = CheckedDefinition.of(request.definition)
        self.catalog.create_table(
            definition.name, definition.schema, definition.location, definition.spec, properties=definition.properties
        )
        return self.now(definition.name)

    def alter(self, request: messages.AlterTable) -> LoadedTable:
        alter(self.catalog.load_table(request.table), request.changes)
        return self.now(request.table)

    def drop(self, request: messages.DropTable) -> bool:
        try:
            if request.purge:
                self.catalog.purge_table(request.table)
            else:
                self.catalog.drop_table(request.table)
        except NoSuchTableError:
            return False
        return True

    def rename(self, request: messages.RenameTable) -> None:
        self.catalog.rename_table(request.table, request.to)

    # -- create together with rows ----------------------------------------------------------------

    def stage(self, request: messages.StageTable) -> TableDescription:
        definition = CheckedDefinition.of(request.definition)
        exists = self.catalog.table_exists(definition.name)
        if request.mode == "create" and exists:
            raise TableAlreadyExistsError(f"Table {'.'.join(definition.name)} already exists")
        if request.mode == "replace" and not exists:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(definition.name)}")
        change = (
            replacement(self.catalog.load_table(definition.name), definition) if exists else self._creation(definition)
        )
        key = uuid.uuid4().hex
        with self.lock:
            self.staged[key] = change
        return with_handle(describe_metadata(definition.name, change.table_metadata, None), staged=key)

    def _creation(self, definition: CheckedDefinition) -> EncryptedTransaction:
        change = self.catalog.create_table_transaction(
            definition.name, definition.schema, definition.location, definition.spec, properties=definition.properties
        )
        if not isinstance(change, EncryptedTransaction):
            raise UnsupportedError("tables of format version 1 and 2 are not written from Spark")
        return change

    def commit_staged(self, request: messages.CommitStagedTable) -> None:
        change, filled = self._unstaged(request.handle)
        assert change is not None, "a table is committed once"
        if not filled and change.table_metadata.snapshot_by_name(MAIN_BRANCH) is not None:
            # REPLACE TABLE without AS SELECT: the columns are new, so no old row may stay.
            gone = row_changes.deletion(change.context, AlwaysTrue(), branch=MAIN_BRANCH, in_place=False)
            change.commit_changes(replace(gone, conflict_filter=AlwaysTrue()))
        change.commit_transaction()

    def abort_staged(self, request: messages.AbortStagedTable) -> None:
        change, _ = self._unstaged(request.handle)
        if change is not None:  # else its commit has failed, and has deleted its files as far as it may
            change.end(forget=True)

    def _unstaged(self, handle: TableHandle) -> tuple[EncryptedTransaction | None, bool]:
        assert handle.staged is not None, "only staged tables are committed and aborted"
        with self.lock:
            filled = handle.staged in self.filled
            self.filled.discard(handle.staged)
            return self.staged.pop(handle.staged, None), filled


# -- parts of tables, and points in time ------------------------------------------------------------


def _is_part(name: str) -> bool:
    return name.lower() in KINDS or name.startswith((BRANCH, TAG)) or _moment(name) is not None


def _moment(name: str) -> tuple[str, int] | None:
    """The number in snapshot_id_123 or at_timestamp_123."""
    prefix = next((known for known in (SNAPSHOT, TIME) if name.startswith(known)), None)
    number = name.removeprefix(prefix) if prefix else ""
    return (prefix, int(number)) if prefix and number.isdigit() else None


def _is_branch(table: Table, version: str | None) -> bool:
    ref = table.metadata.refs.get(version) if version is not None and _snapshot_id(version) is None else None
    return ref is not None and ref.snapshot_ref_type == BRANCH.rstrip("_")


def _part(table: Table, name: str, request: LoadTable) -> LoadedTable:
    """A metadata table, a branch or a tag; named behind the table, as in Java."""
    past = _past(table, request)
    if name.lower() in KINDS:  # as in Java, in any case
        return metadata_tables.describe(table, name.lower(), past)
    if past is not None:
        full = ".".join((*table.name(), name))
        raise ConfigError(f"{full} is at a snapshot already: leave out VERSION AS OF and TIMESTAMP AS OF")
    if moment := _moment(name):
        prefix, number = moment
        snapshot = _by_id(table, number) if prefix == SNAPSHOT else _by_time(table, number)
        return _named_part(describe(table, snapshot, past=True), name)
    prefix = BRANCH if name.startswith(BRANCH) else TAG
    ref = table.metadata.refs.get(name.removeprefix(prefix))
    if ref is None or ref.snapshot_ref_type != prefix.rstrip("_"):
        kind = prefix.rstrip("_")
        raise ConfigError(
            f"{'.'.join(table.name())} has no {kind} {name.removeprefix(prefix)}; table.manage_snapshots() in Python "
            f"makes one, and ALTER TABLE ... CREATE {kind.upper()} in SQL"
        )
    description = describe(table, table.metadata.snapshot_by_id(ref.snapshot_id), past=prefix == TAG)
    description = _named_part(description, name)
    return with_handle(description, branch=name.removeprefix(BRANCH)) if prefix == BRANCH else description


def _named_part(description: TableDescription, name: str) -> TableDescription:
    return replace(description, name=f"{description.name}.{name}")


def _past(table: Table, request: LoadTable) -> Snapshot | None:
    """The snapshot of VERSION AS OF or TIMESTAMP AS OF."""
    if request.version is not None:
        return _by_version(table, request.version)
    return None if request.timestamp_us is None else _by_time(table, request.timestamp_us // 1000)


def _by_version(table: Table, version: str) -> Snapshot:
    """As in Java, a number is always a snapshot id, even if a tag has that name."""
    snapshot_id, ref = _snapshot_id(version), table.metadata.refs.get(version)
    if snapshot_id is None and ref is None:
        raise ConfigError(f"{'.'.join(table.name())} has no branch or tag {version}")
    return _by_id(table, ref.snapshot_id if snapshot_id is None and ref is not None else int(version))


def _snapshot_id(version: str) -> int | None:
    """The number that a version is, in the range of Java's long; None if it is the name of a branch or a tag.

    As Java parses it: a number may begin with zeros, and not with a plus.
    """
    number = int(version) if re.fullmatch(r"-?0*[0-9]{1,19}", version) else None
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else None


def _by_id(table: Table, snapshot_id: int) -> Snapshot:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is not None:
        return snapshot
    name, ref = ".".join(table.name()), table.metadata.refs.get(str(snapshot_id))
    hint = f"; {name}.{ref.snapshot_ref_type}_{snapshot_id} is the {ref.snapshot_ref_type} of that name" if ref else ""
    raise ConfigError(f"{name} has no snapshot {snapshot_id}{hint}")


def _by_time(table: Table, timestamp_ms: int) -> Snapshot:
    snapshot = table.snapshot_as_of_timestamp(timestamp_ms)
    if snapshot is None:
        raise ConfigError(f"{'.'.join(table.name())} has no snapshot as old as that")
    return snapshot
