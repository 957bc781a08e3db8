"""PyIceberg's Transaction on a version 3 table, encrypted or not, with the writers of this package.

append, overwrite, delete, upsert ... ──> FileChanges ──> staging.py, which stages and commits them
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import EMPTY_DICT

from sealberg.errors import ConfigError, PlaintextFileError
from sealberg.metadata.invariants import VERSION_PROPERTY, check_names
from sealberg.metadata.version_upgrade import parse_version, refuse_other_version
from sealberg.properties.table_names import check_table_properties
from sealberg.pyiceberg_private import UpdateSchemaV3, UpdateSpecV3
from sealberg.table.staging import StagedTransaction
from sealberg.table.statistics import EncryptedUpdateStatistics
from sealberg.table.update_snapshot import UpdateSnapshotV3
from sealberg.write import row_changes
from sealberg.write.data_writer import RowWriter
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction, UpsertResult
    from pyiceberg.table.update.schema import UpdateSchema
    from pyiceberg.table.update.spec import UpdateSpec
    from pyiceberg.table.update.statistics import UpdateStatistics
    from pyiceberg.typedef import Properties


class EncryptedTransaction(StagedTransaction):
    """PyIceberg's Transaction on a version 3 table."""

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        policy = getattr(table.catalog, "policy", None)
        if policy is not None:
            policy.refuse_write(table.name(), table.metadata)
        super().__init__(table, autocommit)

    # -- rows ---------------------------------------------------------------------------------

    def append(
        self,
        df: pa.Table | pa.RecordBatchReader,
        snapshot_properties: dict[str, str] | None = None,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        writer = self._checked_writer(df)
        files = writer.write(df)
        self.commit_changes(
            FileChanges(
                added=tuple(files),
                operation=Operation.APPEND,
                branch=branch,
                properties=snapshot_properties or {},
            )
        )

    def overwrite(
        self,
        df: pa.Table | pa.RecordBatchReader,
        overwrite_filter: BooleanExpression | str | None = None,
        snapshot_properties: dict[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        writer = self._checked_writer(df)
        row_filter = AlwaysTrue() if overwrite_filter is None else row_changes.parse(overwrite_filter)
        gone = FileChanges(branch=branch)
        if not isinstance(row_filter, AlwaysFalse):
            gone = row_changes.deletion(
                self.context, row_filter, branch=branch, case_sensitive=case_sensitive, in_place=False, warn=True
            )
        with StagedFiles(self.io, gone.written):
            files = writer.write(df)
        self.commit_changes(
            replace(
                gone,
                added=(*gone.added, *files),
                properties=snapshot_properties or {},
                case_sensitive=case_sensitive,
                conflict_filter=row_changes.conflict_filter(self.context.metadata, row_filter, "overwrite"),
                deletes_filter=row_filter,
                removals_filter=row_filter,
            )
        )

    def dynamic_partition_overwrite(
        self, df: pa.Table, snapshot_properties: dict[str, str] | None = None, branch: str | None = MAIN_BRANCH
    ) -> None:
        if not isinstance(df, pa.Table):
            raise ValueError(f"Expected PyArrow table, got: {df}")  # noqa: TRY004 (PyIceberg's own)
        writer = self._checked_writer(df)
        if self.table_metadata.spec().is_unpartitioned():
            raise ValueError("Cannot apply dynamic overwrite on an unpartitioned table.")
        if df.num_rows == 0:
            return
        files = writer.write(df)
        with StagedFiles(self.io) as staged:
            staged.add_files(files)
            gone = row_changes.partitions_of(self.context, files, branch)
        self.commit_changes(
            replace(
                gone,
                added=tuple(files),
                properties=snapshot_properties or {},
                operation=Operation.OVERWRITE,
                conflict_filter=row_changes.conflict_filter(self.context.metadata, gone.replaces, "overwrite"),
                deletes_filter=gone.replaces,
                removals_filter=gone.replaces,
            )
        )

    def delete(
        self,
        delete_filter: str | BooleanExpression,
        snapshot_properties: dict[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
        _isolation_operation: Any = None,
    ) -> None:
        row_filter = row_changes.parse(delete_filter)
        gone = replace(
            row_changes.deletion(self.context, row_filter, branch=branch, case_sensitive=case_sensitive, warn=True),
            properties=snapshot_properties or {},
            case_sensitive=case_sensitive,
            conflict_filter=row_changes.conflict_filter(self.context.metadata, row_filter, "delete"),
        )
        if gone.removed or gone.added_deletes:
            self.commit_changes(gone)
        else:
            self.expect_unmatched(gone)

    def upsert(
        self,
        df: pa.Table,
        join_cols: list[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        branch: str | None = MAIN_BRANCH,
        snapshot_properties: dict[str, str] | None = None,
    ) -> UpsertResult:
        if not isinstance(df, pa.Table):
            raise ValueError(f"Expected pa.Table, got: {df}")  # noqa: TRY004 (PyIceberg's own)
        if branch not in (None, MAIN_BRANCH) and branch not in self.table_metadata.refs:
            raise ConfigError(
                f"Cannot upsert into branch {branch} of {'.'.join(self.target.name())}: there is no such branch. "
                "Create it with manage_snapshots().create_branch(...)"
            )
        changes, result = row_changes.upsertion(
            self.context,
            df,
            join_cols,
            update=when_matched_update_all,
            insert=when_not_matched_insert_all,
            case_sensitive=case_sensitive,
            branch=branch,
        )
        if result.rows_updated or result.rows_inserted:
            self.commit_changes(replace(changes, properties=snapshot_properties or {}))
        else:
            self.expect_unmatched(changes)
        return result

    def add_files(
        self,
        file_paths: list[str],
        snapshot_properties: dict[str, str] | None = None,
        check_duplicate_files: bool = True,
        branch: str | None = MAIN_BRANCH,
    ) -> None:
        if len(file_paths) != len(set(file_paths)):
            raise ValueError("File paths must be unique")
        if self.sealed.encryption is not None:
            raise PlaintextFileError(
                f"cannot add files to an encrypted table that were written without its keys: {', '.join(file_paths)}. "
                "Append their rows instead, with table.append(...)"
            )
        if check_duplicate_files:
            row_changes.refuse_known_files(self.context, file_paths, branch)
        if self.table_metadata.name_mapping() is None:
            mapping = self.table_metadata.schema().name_mapping.model_dump_json()
            self.set_properties({"schema.name-mapping.default": mapping})
        files = row_changes.foreign_files(self.context, file_paths)
        self.commit_changes(
            FileChanges(
                added=tuple(files),
                operation=Operation.APPEND,
                branch=branch,
                properties=snapshot_properties or {},
                foreign=True,
            )
        )

    def _checked_writer(self, df: object) -> RowWriter:
        if not isinstance(df, pa.Table | pa.RecordBatchReader):
            raise ValueError(f"Expected pa.Table or pa.RecordBatchReader, got: {df}")  # noqa: TRY004
        writer = RowWriter(self.context)
        writer.check(df.schema)
        return writer

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        return UpdateSchemaV3(
            self,
            allow_incompatible_changes=allow_incompatible_changes,
            case_sensitive=case_sensitive,
            name_mapping=self.table_metadata.name_mapping(),
        )

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        return UpdateSpecV3(self, case_sensitive=case_sensitive)

    def update_snapshot(  # type: ignore[override]  # PyIceberg's own producers cannot write version 3
        self, snapshot_properties: dict[str, str] | None = None, branch: str | None = MAIN_BRANCH
    ) -> UpdateSnapshotV3:
        """Add and remove whole data files."""
        return UpdateSnapshotV3(self, branch, snapshot_properties or {})

    def update_statistics(self) -> UpdateStatistics:
        """Remove statistics files; on an encrypted table, `sealberg.jobs.stats` adds them."""
        return super().update_statistics() if self.sealed.encryption is None else EncryptedUpdateStatistics(self)

    # -- the format version -------------------------------------------------------------------

    def upgrade_table_version(self, format_version: Any) -> Transaction:
        refuse_other_version(self.table_metadata.format_version, int(format_version))
        return self

    def set_properties(self, properties: Properties = EMPTY_DICT, **kwargs: Any) -> Transaction:
        """Set table properties; as in Java, `format-version` upgrades the table and is not stored as a property."""
        if properties and kwargs:
            raise ValueError("Cannot pass both properties and kwargs")
        given = dict(properties or kwargs)
        if VERSION_PROPERTY in given:
            self.upgrade_table_version(parse_version(given))
            del given[VERSION_PROPERTY]
        check_names(given)
        check_table_properties(".".join(self.target.name()), given)
        return super().set_properties(given) if given else self
