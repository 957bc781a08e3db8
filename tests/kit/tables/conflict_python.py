"""The cases of conflict_cases.py, executed by sealberg on an encrypted table.

    with PairsTable(folder) as table:
        table.verdicts(pair)     the verdict on every A, in the form of conflict_java.py

The catalog is SQLite. To return to an earlier state of the table, its rows in the database are restored; the files of
that state still exist. So B and C are committed once, and every A finds the table as C left it. Every A is planned
once, in its own transaction; each pair commits a copy of that transaction, and files that a refused commit would delete
are kept.
"""

from __future__ import annotations

import copy
import sqlite3
import warnings
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from kit.tables.conflict_cases import LEVELS, MODES, PLANNED, SEED
from kit.tables.conflict_java import verdict
from kit.tables.tables import sealed_catalog
from sealberg.errors import SealbergError
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.table import staging
from sealberg.table.catalog_table import CatalogTable
from sealberg.write import snapshot_builder as commit
from sealberg.write.row_changes import COPY_ON_WRITE, RowWork, parse, removal
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.manifest import ManifestFile

    from kit.tables.conflict_cases import Operation
    from sealberg.metadata.manifest import ManifestFileV3
    from sealberg.table.transaction import EncryptedTransaction

SCHEMA: Final = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "p", StringType(), required=True),
    NestedField(3, "v", StringType(), required=True),
)
ARROW: Final = pa.schema(
    [pa.field("id", pa.int64(), False), pa.field("p", pa.string(), False), pa.field("v", pa.string(), False)]
)
SPEC: Final = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
NAME: Final = "hr.pairs"
State = dict[str, list[tuple[Any, ...]]]


class PairsTable(AbstractContextManager["PairsTable"]):
    """One table that returns to its first state before every pair."""

    def __init__(self, folder: Path) -> None:
        self._database = folder / "sealed" / "catalog.db"
        self._opened = sealed_catalog(folder)
        self._read: dict[str, str] = {}
        self._catalog = self._opened.__enter__()
        properties = {"encryption.key-id": "hr", "commit.retry.min-wait-ms": "1"}
        self._catalog.create_table(NAME, SCHEMA, partition_spec=SPEC, properties=properties)
        for operation in SEED:
            self._commit(operation, "seed")
        begun = self._state()
        self._begun: dict[tuple[str, str], State] = {}
        for mode in MODES.values():
            for level in LEVELS:
                self._restore(begun)
                self._prepare(mode, level)
                self._begun[mode, level] = self._state()
        self._planned: dict[str, EncryptedTransaction] = {}
        for planned in PLANNED:
            self._restore(self._beginning(planned))
            self._planned[planned["name"]] = self._load().transaction()
            _stage(self._planned[planned["name"]], planned, "A")

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def verdicts(self, pair: dict[str, Any]) -> dict[str, str]:
        """The verdict on every A after B and C of this pair."""
        self._restore(self._beginning(pair["second"]))
        self._commit(pair["second"], "B")
        for operation in pair["third"]:
            if "mode" in operation:
                self._prepare(operation["mode"], LEVELS[0])
            self._commit(operation, "C")
        left = self._state()
        return {planned["name"]: self._verdict(planned, left) for planned in PLANNED}

    def _verdict(self, planned: Operation, left: State) -> str:
        self._restore(left)
        try:
            with patch.object(staging, "discard", lambda *_: None):
                _copied(self._planned[planned["name"]]).commit_transaction()
        except (ValidationException, CommitFailedException, SealbergError, ValueError) as refused:
            return verdict(f"refused: {type(refused).__name__}: {refused}")
        return f"allowed: {self._rows(self._load())}"

    # -- the table ----------------------------------------------------------------------------

    def _load(self) -> CatalogTable:
        table = self._catalog.load_table(NAME)
        assert isinstance(table, CatalogTable)
        return table

    def _rows(self, table: CatalogTable) -> str:
        """The rows of each branch; the rows of a snapshot never change and are read once."""
        branches = []
        for branch in ("main", "old"):
            if (ref := table.metadata.refs.get(branch)) is None:
                continue
            snapshot = table.metadata.snapshot_by_id(ref.snapshot_id)
            assert snapshot is not None
            if snapshot.manifest_list not in self._read:
                found = table.scan(selected_fields=("id", "v"), snapshot_id=ref.snapshot_id).to_arrow()
                rows = sorted((row["id"], row["v"]) for row in found.to_pylist())
                self._read[snapshot.manifest_list] = " ".join(f"{number}{value}" for number, value in rows)
            branches.append(f"{branch} {self._read[snapshot.manifest_list]}")
        return " | ".join(branches)

    def _prepare(self, mode: str, level: str) -> None:
        kinds = ("delete", "update", "merge")
        wanted = {f"write.{kind}.mode": mode for kind in kinds} | {
            f"write.{kind}.isolation-level": level for kind in kinds
        }
        with self._load().transaction() as started:
            started.set_properties(wanted)

    def _commit(self, operation: Operation, who: str) -> None:
        started = self._load().transaction()
        _stage(started, operation, who)
        started.commit_transaction()

    def _beginning(self, operation: Operation) -> State:
        return self._begun[operation.get("mode", MODES["cow"]), operation.get("level", LEVELS[0])]

    def _state(self) -> State:
        with closing(sqlite3.connect(self._database)) as database:
            return {name: database.execute(f"select * from {name}").fetchall() for name in _tables(database)}

    def _restore(self, state: State) -> None:
        with closing(sqlite3.connect(self._database)) as database, database:
            database.execute("pragma synchronous = off")
            for name, found in state.items():
                database.execute(f"delete from {name}")
                for row in found:
                    database.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)


def _tables(database: sqlite3.Connection) -> list[str]:
    return [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]


def _copied(planned: EncryptedTransaction) -> EncryptedTransaction:
    """A copy of a planned transaction, on the same state of the table."""
    made = copy.copy(planned)
    made._table = copy.copy(planned.target)
    made._steps, made._attempt_files = list(planned._steps), list(planned._attempt_files)
    return made


# -- operations -----------------------------------------------------------------------------------


def _stage(tx: EncryptedTransaction, operation: Operation, who: str) -> None:
    rows = pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in operation.get("rows", ())], ARROW)
    where = _filter(operation["where"]) if "where" in operation else ""
    head = tx.table_metadata.current_snapshot()
    match operation["do"]:
        case "append":
            tx.append(rows, branch=operation.get("branch", "main"))
        case "delete_file" | "delete_rows":
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Delete operation did not match any records")
                tx.delete(where)
        case "overwrite" | "overwrite_rows":
            tx.overwrite(rows, where)
        case "replace_partitions":
            tx.dynamic_partition_overwrite(rows)
        case "upsert":
            tx.upsert(rows, ["id"])
        case "rewrite":
            _rewrite(tx, where)
        case "manifests":
            _rewrite_manifests(tx)
        case "remove_added":
            _remove_added(tx)
        case "expire":
            kept = {ref.snapshot_id for ref in tx.table_metadata.refs.values()}
            gone = [each.snapshot_id for each in tx.table_metadata.snapshots if each.snapshot_id not in kept]
            if gone:
                tx.sealed.maintenance.expire_snapshots().by_ids(gone).commit()
        case "rollback":
            snapshots = sorted(tx.table_metadata.snapshots, key=lambda each: each.sequence_number or 0)
            with ManageSnapshots(tx) as manage:
                manage.rollback_to_snapshot(snapshots[operation["to"]].snapshot_id)
        case "schema":
            with tx.update_schema() as schema:
                schema.add_column(who, StringType())
        case "spec":
            with tx.update_spec() as spec:
                spec.add_field("id", BucketTransform(4), who)
        case "property":
            tx.set_properties({operation["key"]: operation["value"]})
        case "tag":
            assert head is not None
            with ManageSnapshots(tx) as manage:
                manage.create_tag(head.snapshot_id, who)
        case "branch":
            assert head is not None
            with ManageSnapshots(tx) as manage:
                manage.create_branch(head.snapshot_id, "old")
        case "remove_branch":
            with ManageSnapshots(tx) as manage:
                manage.remove_branch("old")
        case unknown:
            raise ValueError(unknown)


def _filter(where: dict[str, Any]) -> str:
    parts = [f"p = '{where['p']}'"] if "p" in where else []
    parts += [f"id in ({', '.join(map(str, where['id']))})"] if "id" in where else []
    return " and ".join(parts)


def _rewrite(tx: EncryptedTransaction, where: str) -> None:
    """Commit a compaction: the same rows in new files, with the sequence number of the rows."""
    work, head = RowWork.on(tx.context, "main"), tx.table_metadata.current_snapshot()
    assert head is not None
    assert head.sequence_number is not None
    nothing = DeletionVector.of([])
    changes = work.without([(task, nothing) for task in work.tasks(parse(where))], COPY_ON_WRITE)
    if changes.removed:
        kept = {file.identity: head.sequence_number for file in changes.added}
        tx.commit_changes(replace(changes, operation=SnapshotOperation.REPLACE, keep_sequence_numbers=kept))


def _remove_added(tx: EncryptedTransaction) -> None:
    """Remove the first data file that the head has added."""
    head = tx.table_metadata.current_snapshot()
    assert head is not None
    entries = [entry for each in head.manifests(tx.io) for entry in each.fetch_manifest_entry(tx.io)]
    added = {
        str(entry.data_file.file_path)
        for entry in entries
        if entry.snapshot_id == head.snapshot_id and entry.status == ManifestEntryStatus.ADDED
    }
    tasks = [task for task in RowWork.on(tx.context, "main").tasks(AlwaysTrue()) if str(task.file.file_path) in added]
    first = min(tasks, key=lambda task: int.from_bytes(task.file.lower_bounds[1], "little"))
    tx.commit_changes(replace(removal([first], "main"), operation=SnapshotOperation.DELETE))


def _rewrite_manifests(tx: EncryptedTransaction) -> None:
    """Write all entries of one kind into one new manifest, as Java's rewrite_manifests does."""
    changes = FileChanges(operation=SnapshotOperation.REPLACE)
    now = tx.table_metadata.last_updated_ms + 1
    built = _ManifestRewriter(changes, tx.context, StagedFiles(tx.io), now).build()
    tx.stage(built.updates, built.requirements)


class _ManifestRewriter(commit._Builder):
    def _manifests(self) -> list[ManifestFileV3]:
        assert self.parent is not None
        old = self.parent.manifests(self.io)
        specs = sorted({manifest.partition_spec_id for manifest in old})
        groups = [
            [each for each in old if each.content == content and each.partition_spec_id == spec and _has_files(each)]
            for content in (ManifestContent.DATA, ManifestContent.DELETES)
            for spec in specs
        ]
        return [self._merge([commit._v3(each) for each in group]) for group in groups if group]


def _has_files(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()
