"""Files that Spark's tasks wrote, and rows that they found to be gone, as one commit.

    begin    what a task must know: columns and their ids, partitions, folder, sizes     no key among it
    commit   files with their keys ──footers read back──> DataFileV3 with metrics ──> FileChanges ──> one snapshot

Every new file is opened with its key before it is committed, so a file that could not be read never gets in.
"""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import TableProperties
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.transforms import VoidTransform
from pyiceberg.utils.concurrent import ExecutorFactory
from pyroaring import BitMap

from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.files.avro import data_file as avro
from sealberg.files.parquet import writer as parquet_write
from sealberg.files.parquet.bloom_filters import BloomFilters
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.spark.driver import any_schema
from sealberg.spark.driver.storage import storage
from sealberg.spark.driver.tables import ACCEPT_ANY_SCHEMA, column_path, quoted, transform
from sealberg.spark.driver.write_options import WriteOptions
from sealberg.spark.driver.written_files import data_file
from sealberg.spark.filters import exact, inclusive
from sealberg.spark.streaming.epochs import Epoch, EpochCommittedError
from sealberg.spark.types import parquet_ids, parquet_kinds, spark_schema
from sealberg.spark.worker.payload import AvroWritePayload, python_program
from sealberg.table.catalog_table import CatalogTable
from sealberg.write import row_changes
from sealberg.write.row_changes import RowWork as Work
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.expressions import BooleanExpression

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.spark.driver.tables import Tables
    from sealberg.table.transaction import EncryptedTransaction

DISTRIBUTION: Final = "write.distribution-mode"
FANOUT: Final = "write.spark.fanout.enabled"
ADVISORY_SIZE: Final = "write.spark.advisory-partition-size-bytes"
READING: Final = ("files", "rows")  # modes of commands that change rows which their query has read


@dataclass(frozen=True)
class Writes:
    """INSERT, DELETE, UPDATE and MERGE, before and after Spark's tasks."""

    tables: Tables

    def _transaction(self, handle: dict[str, Any]) -> EncryptedTransaction:
        if "staged" in handle:
            return self.tables.staged[handle["staged"]]
        table = self.tables.found(handle)
        if not isinstance(table, CatalogTable):
            raise UnsupportedError(
                f"{'.'.join(table.name())} is of format version {table.format_version}, and Spark writes version 3 here"
            )
        if handle["past"]:
            raise ConfigError(f"{'.'.join(table.name())} cannot be written to at a point in the past")
        return table.transaction()

    # -- before -----------------------------------------------------------------------------------

    def begin(self, arguments: dict[str, Any]) -> dict[str, Any]:
        change = self._transaction(arguments["handle"])
        options = WriteOptions.of(arguments, change.table_metadata)
        if "staged" in arguments["handle"] and (options.wap_id is not None or options.branch is not None):
            raise ConfigError(
                f"{'.'.join(arguments['handle']['table'])}: AS SELECT cannot be staged for spark.wap.id or "
                "spark.wap.branch, because the table and its rows come in one commit. Create the table, then INSERT"
            )
        found = {}
        if change.table_metadata.properties.get(ACCEPT_ANY_SCHEMA, "false").lower() == "true" and "rows" in arguments:
            found["positions"], change = self._positions(change, arguments, options)
        metadata = options.on(change.table_metadata)
        properties, schema, spec = metadata.properties, metadata.schema(), metadata.spec()
        encryption = change.sealed.encryption
        folder = change.target.location_provider().new_data_location("x").removesuffix("/x")
        return {
            **found,
            "schema": spark_schema(schema),
            "ids": parquet_ids(schema),
            "partitions": [{**transform(one), "path": column_path(schema, one.source_id)} for one in spec.fields],
            **_shape(metadata, arguments.get("command"), options),
            "folder": folder,
            "storage": storage(change.io, folder),
            "key-length": encryption.settings.key_length if encryption else 0,
            "target-size": int(
                properties.get(
                    TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
                )
            ),
            "parquet": _file_options(metadata),
            "schema-id": schema.schema_id,
            "spec-id": spec.spec_id,
            "order-id": metadata.default_sort_order_id if arguments["mode"] != "rows" and options.in_table_order else 0,
        }

    def _positions(
        self, change: EncryptedTransaction, arguments: dict[str, Any], options: WriteOptions
    ) -> tuple[list[int], EncryptedTransaction]:
        """Where the columns of the table are in the rows, after merging the columns of the rows into the table."""
        rows, case_sensitive = arguments["rows"], arguments["case-sensitive"]
        if options.merge_schema and "staged" not in arguments["handle"]:
            any_schema.merge(change.target, rows, case_sensitive=case_sensitive)
            change = self._transaction(arguments["handle"])
        name, schema = ".".join(arguments["handle"]["table"]), change.table_metadata.schema()
        return any_schema.positions(name, schema, rows, options, case_sensitive=case_sensitive), change

    # -- after ------------------------------------------------------------------------------------

    def commit(self, arguments: dict[str, Any]) -> None:
        handle, given = arguments["handle"], arguments["plan"]
        locations = [one["location"] for one in arguments["files"]]
        with StagedFiles(self.tables.storage(handle), locations):
            change = self._transaction(handle)
        try:
            with StagedFiles(change.io, locations):
                metadata = change.table_metadata
                if (metadata.current_schema_id, metadata.default_spec_id) != (given["schema-id"], given["spec-id"]):
                    table = ".".join(handle["table"])
                    raise ConflictError(f"the columns or partitions of {table} were changed meanwhile")
                options = _targeted(change, arguments)
                mode = _mode(arguments, options, metadata)
                epoch = Epoch.of(arguments)
                if epoch is not None:
                    epoch.check(metadata, _branch(arguments), staged=options.wap_id is not None)
                files = self._data_files(change, arguments["files"], given["order-id"])
                changes = {
                    "append": self._append,
                    "overwrite": self._overwrite,
                    "dynamic": self._dynamic,
                    "files": self._files,
                    "rows": self._rows,
                }[mode](change, files, arguments)
        except EpochCommittedError:
            return
        if changes is None or (epoch is not None and epoch.is_empty(changes)):
            return
        changes = options.finished(changes)
        if epoch is not None:
            changes = epoch.marked(changes)
        if mode not in READING:
            read_at = ... if options.validate_from is None else options.validate_from
            change.commit_changes(changes, read_at=read_at)  # deletes the files itself if it fails for certain
        elif Epoch.is_empty(changes):
            change.expect_unmatched(changes, read_at=handle["snapshot"])
        else:
            # The rows were found in the snapshot that the query has read, which need not be the newest any more.
            change.commit_changes(changes, read_at=handle["snapshot"])
        if "staged" in handle:
            self.tables.filled.add(handle["staged"])
            return
        with contextlib.suppress(EpochCommittedError):  # by another run of the same query, a moment ago
            change.commit_transaction()

    def _append(self, change: EncryptedTransaction, files: list[DataFileV3], arguments: dict[str, Any]) -> FileChanges:
        if "staged" in arguments["handle"]:
            return self._replaced(change, files)
        return FileChanges(added=tuple(files), operation=Operation.APPEND, branch=_branch(arguments))

    def _replaced(self, change: EncryptedTransaction, files: list[DataFileV3]) -> FileChanges:
        """The first rows of a table, or all rows of one that is replaced."""
        gone = FileChanges()
        if change.table_metadata.snapshot_by_name(MAIN_BRANCH) is not None:
            gone = row_changes.deletion(change.context, AlwaysTrue(), branch=MAIN_BRANCH, in_place=False)
        # Rows that others add meanwhile have the old columns: they must not get into the new table.
        return replace(gone, added=tuple(files), conflict_filter=AlwaysTrue() if gone.removed else None)

    def _overwrite(
        self, change: EncryptedTransaction, files: list[DataFileV3], arguments: dict[str, Any]
    ) -> FileChanges:
        row_filter = exact(arguments["filters"], change.table_metadata.schema())
        gone = row_changes.deletion(change.context, row_filter, branch=_branch(arguments), in_place=False)
        isolation = WriteOptions.of(arguments, change.table_metadata).isolation
        new_rows = row_changes.conflict_filter(change.context.metadata, row_filter, "overwrite")
        return replace(
            gone,
            added=(*gone.added, *files),
            operation=Operation.OVERWRITE,
            conflict_filter={None: new_rows, "serializable": row_filter, "snapshot": None}[isolation],
            deletes_filter=row_filter if isolation is not None else gone.deletes_filter,
            removals_filter=row_filter if isolation is not None else gone.removals_filter,
        )

    def _dynamic(
        self, change: EncryptedTransaction, files: list[DataFileV3], arguments: dict[str, Any]
    ) -> FileChanges | None:
        if not files:
            return None
        gone = row_changes.partitions_of(change.context, files, _branch(arguments))
        isolation = WriteOptions.of(arguments, change.table_metadata).isolation
        return replace(
            gone,
            added=tuple(files),
            operation=Operation.OVERWRITE,
            # As in Java, an overwrite of partitions takes what it finds there, unless the writer asks for more.
            conflict_filter=gone.replaces if isolation == "serializable" else None,
            deletes_filter=gone.replaces if isolation is not None else None,
            removals_filter=gone.replaces if isolation is not None else None,
        )

    def _files(self, change: EncryptedTransaction, files: list[DataFileV3], arguments: dict[str, Any]) -> FileChanges:
        """Files whose rows were read, and are now in others."""
        if "replaced" not in arguments:
            raise ConflictError("Spark did not say which files it has read, and none was replaced")
        work = Work.on(change.context, _branch(arguments))
        gone = row_changes.removal([task for _, task in _found(work, arguments["replaced"])], work.branch)
        return replace(gone, added=tuple(files), conflict_filter=self._conflict_filter(change, arguments))

    def _rows(self, change: EncryptedTransaction, files: list[DataFileV3], arguments: dict[str, Any]) -> FileChanges:
        """Rows that go, by file and position, and rows that come."""
        gone: dict[str, BitMap] = {}
        for one in arguments["deleted"]:
            gone.setdefault(one["location"], BitMap()).update(BitMap.deserialize(base64.b64decode(one["rows"])))
        work = Work.on(change.context, _branch(arguments))
        hits: list[tuple[EncryptedFileScanTask, DeletionVector | None]] = [
            (task, DeletionVector.of(gone[location])) for location, task in _found(work, gone)
        ]
        changes = work.without(hits, arguments["command"])
        read = inclusive(arguments.get("filters", ()), change.table_metadata.schema())
        return replace(
            changes,
            added=(*changes.added, *files),
            conflict_filter=self._conflict_filter(change, arguments),
            # As in Java: an UPDATE or MERGE depends on rows that it has read and not changed.
            deletes_filter=read if arguments["command"] in ("update", "merge") else None,
        )

    def _conflict_filter(self, change: EncryptedTransaction, arguments: dict[str, Any]) -> BooleanExpression | None:
        level = f"write.{arguments['command']}.isolation-level"
        if change.table_metadata.properties.get(level, "serializable").lower() != "serializable":
            return None
        return inclusive(arguments.get("filters", ()), change.table_metadata.schema())

    # -- DELETE of whole files, which needs no task -------------------------------------------------

    def can_delete(self, arguments: dict[str, Any]) -> bool:
        """Are all rows of every file that has some of these rows among them, as the partitions tell?"""
        change = self._transaction(arguments["handle"])
        try:
            row_filter = exact(arguments["filters"], change.table_metadata.schema())
        except (ValueError, TypeError, KeyError, NotImplementedError):
            return False
        _targeted(change, arguments)
        tasks = Work.on(change.context, _branch(arguments)).tasks(row_filter)
        return all(isinstance(task.residual, AlwaysTrue) for task in tasks)

    def delete(self, arguments: dict[str, Any]) -> None:
        change = self._transaction(arguments["handle"])
        options = _targeted(change, arguments)
        row_filter = exact(arguments["filters"], change.table_metadata.schema())
        gone = row_changes.deletion(change.context, row_filter, branch=_branch(arguments), in_place=False)
        if gone.removed:
            allowed = row_changes.conflict_filter(change.context.metadata, row_filter, "delete")
            change.commit_changes(options.finished(replace(gone, conflict_filter=allowed)))
            change.commit_transaction()

    # -- files ------------------------------------------------------------------------------------

    def _data_files(
        self, change: EncryptedTransaction, written: Sequence[dict[str, Any]], order_id: int
    ) -> list[DataFileV3]:
        metadata, io = change.table_metadata, change.io

        def made(one: dict[str, Any]) -> DataFileV3:
            return data_file(one, metadata, io, order_id)

        return list(ExecutorFactory.get_or_create().map(made, written))


def _mode(arguments: dict[str, Any], options: WriteOptions, metadata: V3TableMetadata) -> str:
    mode: str = arguments["mode"]
    if mode == "overwrite" and options.overwrites_partitions:
        return "dynamic" if isinstance(exact(arguments["filters"], metadata.schema()), AlwaysTrue) else mode
    return mode


def _targeted(change: EncryptedTransaction, arguments: dict[str, Any]) -> WriteOptions:
    """The options of a write, with its branch in the handle; a branch of spark.wap.branch is made where there is none.

    As in Iceberg Java, a new branch begins at the current snapshot of the table.
    """
    handle, metadata = arguments["handle"], change.table_metadata
    options = WriteOptions.of(arguments, metadata)
    if options.branch is None:
        return options
    handle["branch"] = options.branch
    head = metadata.current_snapshot()
    if options.branch not in metadata.refs and head is not None:
        begin = {"ref-name": options.branch, "type": "branch", "snapshot-id": head.snapshot_id}
        missing = AssertRefSnapshotId.model_validate({"ref": options.branch, "snapshot-id": None})
        change.stage((SetSnapshotRefUpdate.model_validate(begin),), (missing,))
    return options


def _branch(arguments: dict[str, Any]) -> str:
    branch: str = arguments["handle"].get("branch", MAIN_BRANCH)
    return branch


def _found(work: Work, locations: Collection[str]) -> list[tuple[str, EncryptedFileScanTask]]:
    """The files at these places, which must all be there still."""
    tasks = {str(task.file.file_path): task for task in work.tasks(AlwaysTrue())} if locations else {}
    if missing := sorted(set(locations) - tasks.keys()):
        raise ValidationException(f"Missing required files to delete: {', '.join(missing)}")
    return [(location, tasks[location]) for location in locations]


# -- what a task must know ----------------------------------------------------------------------------


def _shape(metadata: V3TableMetadata, command: str | None, options: WriteOptions) -> dict[str, Any]:
    """How rows are to come to the tasks that write them: distributed, clustered by partition, sorted.

    A file that loses rows is read and written by one task, so its rows come as they were, and rows that go for a
    deletion vector are not written at all: neither needs a shuffle. All else follows the table.
    """
    if command == "delete" or not options.in_table_order:
        return {"distribution": "none", "clustered": False, "order": []}
    distribution = _distribution(metadata, command)
    if command == "update" and f"write.{command}.distribution-mode" not in metadata.properties:
        distribution = "none"
    clustered = metadata.properties.get(FANOUT, "false").lower() != "true"
    shape = {"distribution": distribution, "clustered": clustered, "order": _order(metadata)}
    size = metadata.properties.get(ADVISORY_SIZE)
    return shape if size is None else {**shape, "advisory-size": int(size)}


def _distribution(metadata: V3TableMetadata, command: str | None) -> str:
    """Java's rule: as told; else by range where rows are sorted, by hash where they are partitioned."""
    name = f"write.{command}.distribution-mode" if command else DISTRIBUTION
    told = metadata.properties.get(name, metadata.properties.get(DISTRIBUTION))
    partitioned = any(not isinstance(one.transform, VoidTransform) for one in metadata.spec().fields)
    if told is not None:
        if told not in ("none", "hash", "range"):
            raise ConfigError(f"{name} is none, hash or range, not {told}")
        if (told == "hash" and not partitioned) or (told == "range" and not partitioned and not _order(metadata)):
            return "none"
        return told
    if _order(metadata):
        return "range"
    return "hash" if partitioned else "none"


def _order(metadata: V3TableMetadata) -> list[dict[str, Any]]:
    return [
        {
            **transform(one),
            "column": quoted(metadata.schema(), one.source_id),
            "descending": one.direction == SortDirection.DESC,
            "nulls-first": one.null_order == NullOrder.NULLS_FIRST,
        }
        for one in metadata.sort_order().fields
        if not isinstance(one.transform, VoidTransform)
    ]


def _file_options(metadata: V3TableMetadata) -> dict[str, str]:
    """Format and options of the files, for the tasks."""
    form = metadata.properties.get(TableProperties.WRITE_FILE_FORMAT, "parquet").lower()
    kinds = {"format": form, "kinds": json.dumps(parquet_kinds(metadata.schema()))}
    if form == "parquet":
        blooms = BloomFilters.of(metadata.properties, metadata.schema()).for_spark()
        return {**kinds, **_parquet_options(metadata.properties), **blooms}
    if form != "avro":
        raise UnsupportedError(f"data files are Parquet or Avro; {form.upper()} cannot be written")
    if KEY_ID_PROPERTY not in metadata.properties:
        raise UnsupportedError("Avro data files are written for encrypted tables only")
    how = AvroWritePayload(metadata.schema(), avro.write_options(metadata.properties))
    return {**kinds, "avro": how.text(), "python": python_program()}


def _parquet_options(properties: dict[str, str]) -> dict[str, str]:
    options = parquet_write.write_options(properties)
    codec = {"none": "uncompressed", "lz4": "lz4_raw"}.get(options["compression"], options["compression"])
    level = options["compression_level"]
    return {
        "codec": codec,
        **({} if level is None else {"level": str(level)}),
        "row-group-bytes": str(options["row_group_bytes"]),
        "page-bytes": str(options["data_page_size"]),
        "dictionary-bytes": str(options["dictionary_pagesize_limit"]),
        "page-rows": str(options["max_rows_per_page"]),
    }
