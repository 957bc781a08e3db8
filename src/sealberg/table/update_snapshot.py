"""`transaction.update_snapshot()`: PyIceberg's API to add and remove whole data files.

    with tx.update_snapshot().fast_append() as update:      fast_append, merge_append: add files
        update.append_data_file(file)
    with tx.update_snapshot().overwrite() as update:        add and remove files
        update.delete_data_file(old); update.append_data_file(new)
    with tx.update_snapshot().delete() as update:           remove the files whose rows all match
        update.delete_by_predicate(EqualTo("day", "2024-01-01"))

A file added to an encrypted table must have been written with a key: the file is opened with its key metadata before
anything is committed. PyIceberg's own writers make plaintext files, and the FileIO of an encrypted table refuses to
write such files.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, Or
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConfigError, PlaintextFileError
from sealberg.metadata.manifest import DataFileV3
from sealberg.pyiceberg_private import values_of
from sealberg.scan.data_file_reader import open_rows
from sealberg.write import row_changes
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from types import TracebackType

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile

    from sealberg.table.staging import StagedTransaction

FIELDS: Final = len(DataFileV3.from_args(content=DataFileContent.DATA))


class UpdateSnapshotV3:
    """PyIceberg's UpdateSnapshot."""

    def __init__(self, tx: StagedTransaction, branch: str | None, properties: dict[str, str]) -> None:
        self._tx, self._branch, self._properties = tx, branch, properties

    def fast_append(self) -> FileUpdate:
        return self._update(Operation.APPEND)

    def merge_append(self) -> FileUpdate:
        return self._update(Operation.APPEND)

    def overwrite(self, commit_uuid: uuid.UUID | None = None) -> FileUpdate:
        made = self._update(Operation.OVERWRITE)
        made.commit_uuid = commit_uuid or made.commit_uuid
        return made

    def delete(self) -> FileUpdate:
        return self._update(Operation.DELETE)

    def _update(self, operation: Operation) -> FileUpdate:
        return FileUpdate(self._tx, operation, self._branch, self._properties)


class FileUpdate:
    """One snapshot that adds and removes whole files; nothing happens before `commit`."""

    def __init__(
        self, tx: StagedTransaction, operation: Operation, branch: str | None, properties: dict[str, str]
    ) -> None:
        self._tx, self._operation, self._branch, self._properties = tx, operation, branch, properties
        self._added: list[DataFileV3] = []
        self._removed: set[str] = set()
        self._predicate: BooleanExpression = AlwaysFalse()
        self._case_sensitive = True
        self.commit_uuid = uuid.uuid4()
        self.rewrites_needed = False
        self.files_affected = False

    def append_data_file(self, data_file: DataFile) -> Self:
        self._must(self._operation is not Operation.DELETE, "adds files; use fast_append() or overwrite()")
        self._added.append(self._checked(data_file))
        return self

    def delete_data_file(self, data_file: DataFile) -> Self:
        self._must(self._operation is not Operation.APPEND, "removes files; use delete() or overwrite()")
        self._removed.add(str(data_file.file_path))
        return self

    def delete_by_predicate(self, predicate: BooleanExpression, case_sensitive: bool = True) -> None:
        self._must(self._operation is not Operation.APPEND, "removes files; use delete() or overwrite()")
        self._predicate = Or(self._predicate, predicate)
        self._case_sensitive = case_sensitive

    def commit(self) -> None:
        """Add and remove the files in one snapshot of the transaction; a delete that matches no file makes none."""
        gone = self._gone()
        self.files_affected = bool(gone.removed)
        if self._operation is Operation.DELETE and not gone.removed:
            return
        kind = self._operation if gone.removed or self._operation is Operation.DELETE else Operation.APPEND
        self._tx.commit_changes(
            replace(gone, added=tuple(self._added), operation=kind, properties=self._properties, foreign=True)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def _gone(self) -> FileChanges:
        if not self._removed and isinstance(self._predicate, AlwaysFalse):
            return FileChanges(branch=self._branch)
        work = row_changes.RowWork.on(self._tx.context, self._branch, self._case_sensitive)
        tasks = {str(task.file.file_path): task for task in work.tasks(AlwaysTrue())}
        if missing := self._removed - tasks.keys():
            raise ValidationException(f"Missing required files to delete: {', '.join(sorted(missing))}")
        gone = set(self._removed)
        if not isinstance(self._predicate, AlwaysFalse):
            for task, matching in work.matching(work.tasks(self._predicate), self._predicate):
                if matching is None or len(matching | work.deleted(task)) >= task.file.record_count:
                    gone.add(str(task.file.file_path))
                elif len(matching):
                    self.rewrites_needed = True
        return row_changes.removal([tasks[path] for path in sorted(gone)], self._branch)

    def _checked(self, data_file: DataFile) -> DataFileV3:
        """The file as a data file of this table, without first_row_id, which the commit assigns; checks its key."""
        values = [*values_of(data_file), *[None] * FIELDS][:FIELDS]
        file = DataFileV3(*values)
        file.spec_id = getattr(data_file, "spec_id", self._tx.table_metadata.default_spec_id)
        file.first_row_id = None
        if file.content != DataFileContent.DATA:
            raise ConfigError(
                f"cannot add {file.file_path!s}: its content is {file.content.name}, and update_snapshot() takes data "
                "files only"
            )
        if (self._tx.sealed.encryption is None) != (file.key_metadata is None):
            has, table = ("no key", "encrypted") if file.key_metadata is None else ("a key", "not encrypted")
            raise PlaintextFileError(
                f"cannot add {file.file_path!s}: the file has {has} and the table is {table}. Append the rows of the "
                "file instead, with table.append(...)"
            )
        with open_rows(self._tx.io, file, self._tx.table_metadata.name_mapping()):
            return file

    def _must(self, allowed: bool, what: str) -> None:
        if not allowed:
            raise ConfigError(f"update_snapshot().{self._operation.value}() does not allow this call, which {what}")
