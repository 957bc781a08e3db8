"""`rewrite_position_delete_files`: many deletion vectors and position delete files become few Puffin files.

    position deletes of a data file ──┐
    deletion vectors, in small files ─┴──> one deletion vector per data file, many in one Puffin file

A data file of version 3 has one deletion vector; position delete files of older versions are merged into it. A new
vector has the largest sequence number of the deletes that it replaces. Positions of data files that are gone are
dropped. The work is small, so it is done in this process: no row is read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from sealberg.errors import ConfigError
from sealberg.jobs.compaction.commit import publish
from sealberg.jobs.compaction.dangling import live_files
from sealberg.jobs.job import FINE, NOT_CHECKED, Amount, Plan, PlanStep
from sealberg.jobs.selection import encrypted_table
from sealberg.metadata.manifest import DataFileV3
from sealberg.properties.table_names import value_of
from sealberg.write.row_changes import RowWork
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from sealberg.files.puffin.deletion_vector import DeletionVector
    from sealberg.jobs.job import ProgressListener
    from sealberg.jobs.runner import Runner
    from sealberg.jobs.selection import TableName
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.table.catalog_table import CatalogTable

RETRIES: Final = 3
TARGET: Final = "write.delete.target-file-size-bytes"
DEFAULT_TARGET: Final = 64 << 20
SMALL: Final = 0.75  # of the target size: smaller files are rewritten
NAMES: Final = ("rewrite-all", "min-input-files", "target-file-size-bytes")


@dataclass(frozen=True)
class DeletesOptions:
    """Options of Java's rewrite_position_delete_files.

    Args:
        target_file_size_bytes: of a Puffin file; by default the table's write.delete.target-file-size-bytes, or 64 MiB.
        min_input_files: so many small files are worth it.
        rewrite_all: rewrite every file of position deletes.
    """

    target_file_size_bytes: int | None = None
    min_input_files: int = 5
    rewrite_all: bool = False

    def __post_init__(self) -> None:
        for name, value in (
            ("target-file-size-bytes", self.target_file_size_bytes),
            ("min-input-files", self.min_input_files),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}, expected 1 or more")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> DeletesOptions:
        """The options by Java's names, as text."""
        if unknown := sorted(properties.keys() - set(NAMES)):
            raise ConfigError(
                f"unknown options of rewrite_position_delete_files: {', '.join(unknown)}; known are {', '.join(NAMES)}"
            )
        given: dict[str, Any] = {}
        for name, text in properties.items():
            is_flag = name == "rewrite-all"
            if text.lower() not in ("true", "false") if is_flag else not text.lstrip("-").isdigit():
                raise ConfigError(f"{name} is {text!r}, expected {'true or false' if is_flag else 'an integer'}")
            given[name.replace("-", "_")] = text.lower() == "true" if is_flag else int(text)
        return cls(**given)


@dataclass(frozen=True)
class DeletesRewritten:
    """The result of `rewrite_position_delete_files`, in Java's words.

    Attributes:
        conflict: why nothing was committed, if other writers kept changing the same files.
    """

    table: str
    rewritten_delete_files_count: int = 0
    added_delete_files_count: int = 0
    snapshot_id: int | None = None
    conflict: str | None = None

    @property
    def exit_code(self) -> int:
        return FINE if self.conflict is None else NOT_CHECKED

    def to_json(self) -> dict[str, Any]:
        return {"job": "rewrite-position-delete-files", **asdict(self)}

    def __str__(self) -> str:
        if self.conflict is not None:
            return f"{self.table}: not rewritten: {self.conflict}"
        if self.snapshot_id is None:
            return f"{self.table}: no position deletes to rewrite"
        return (
            f"{self.table}: {self.rewritten_delete_files_count} files of deletes became {self.added_delete_files_count}"
        )


@dataclass(frozen=True)
class DeletesPlan(Plan[DeletesRewritten]):
    """The files of position deletes that will be rewritten, as the table has them now.

    Attributes:
        files: which delete files are considered; None: all.
    """

    table: CatalogTable = field(repr=False)
    options: DeletesOptions
    branch: str = MAIN_BRANCH
    files: Callable[[DataFileV3], bool] | None = field(default=None, repr=False)

    @property
    def job(self) -> str:
        return "rewrite-position-delete-files"

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        sizes = {str(file.file_path): file.file_size_in_bytes for file, _ in self._chosen()}
        reads = Amount(len(sizes), sum(sizes.values()))
        writes = Amount(-(-reads.bytes // self._target), None) if reads.bytes else Amount()
        return (PlanStep(".".join(self.table.name()), "rewrite position deletes", reads, writes, kms_calls=2),)

    def execute(self, *, progress: ProgressListener | None = None, runner: Runner | None = None) -> DeletesRewritten:
        """Rewrite them in one commit; tried again if another writer changed the same files meanwhile."""
        del progress, runner
        name, reason = ".".join(self.table.name()), ""
        for _ in range(1 + RETRIES):
            self.table.refresh()
            chosen = self._chosen()
            if not chosen:
                return DeletesRewritten(name)
            changes = self._changes(chosen)
            paths = {str(file.file_path) for file in changes.added_deletes}
            try:
                snapshot_id = publish(self.table, changes)
            except ValidationException as error:
                reason = str(error)
                continue
            gone = len({str(file.file_path) for file, _ in chosen})
            return DeletesRewritten(name, gone, len(paths), snapshot_id)
        return DeletesRewritten(name, conflict=reason)

    # -- which files ----------------------------------------------------------------------------

    @property
    def _target(self) -> int:
        given = self.options.target_file_size_bytes
        found: int = given or value_of(self.table.metadata.properties, TARGET, DEFAULT_TARGET)
        return found

    def _chosen(self) -> list[tuple[DataFileV3, int]]:
        """Position delete files, and deletion vectors in small Puffin files, with their sequence numbers."""
        found = [
            (file, age)
            for file, age in live_files(self.table, self.branch, ManifestContent.DELETES)
            if file.content == DataFileContent.POSITION_DELETES
            and (self.options.rewrite_all or file.file_size_in_bytes < SMALL * self._target)
            and (self.files is None or self.files(file))
        ]
        enough = len({str(file.file_path) for file, _ in found}) >= self.options.min_input_files
        return found if enough or self.options.rewrite_all else []

    # -- new files ------------------------------------------------------------------------------

    def _changes(self, chosen: Sequence[tuple[DataFileV3, int]]) -> FileChanges:
        work = RowWork.on(self.table.transaction().context, self.branch)
        ages = {file.identity: age for file, age in live_files(self.table, self.branch, ManifestContent.DELETES)}
        gone = {file.identity: file for file, _ in chosen}
        added: list[DataFileV3] = []
        kept_ages: dict[tuple[str, int | None], int] = {}
        with StagedFiles(self.table.io) as staged:
            for marked in self._puffins(work, [task for task in work.tasks(AlwaysTrue()) if _touches(task, gone)]):
                made = staged.add_files(work.write_vectors(marked))
                for (task, _), vector in zip(marked, made, strict=True):
                    kept_ages[vector.identity] = max(ages[file.identity] for file in _positional(task))
                    gone.update({file.identity: file for file in _positional(task) if file.is_deletion_vector})
                added += made
        return FileChanges(
            added_deletes=tuple(added),
            removed_deletes=tuple(gone.values()),
            operation=Operation.REPLACE,
            branch=self.branch,
            keep_sequence_numbers=kept_ages,
        )

    def _puffins(
        self, work: RowWork, tasks: Sequence[EncryptedFileScanTask]
    ) -> Iterator[list[tuple[EncryptedFileScanTask, DeletionVector]]]:
        """The vectors of one Puffin file at a time."""
        marked: list[tuple[EncryptedFileScanTask, DeletionVector]] = []
        size = 0
        for task in tasks:
            vector = work.deleted(task)
            if not len(vector):
                continue  # a delete file of the partition that names other files
            if marked and size >= self._target:
                yield marked
                marked, size = [], 0
            marked.append((task, vector))
            size += vector.nbytes
        if marked:
            yield marked


def plan(
    table: TableName,
    *,
    catalog: Catalog | str | None = None,
    options: DeletesOptions | Mapping[str, str] | None = None,
    branch: str = MAIN_BRANCH,
    files: Callable[[DataFileV3], bool] | None = None,
) -> DeletesPlan:
    """What `rewrite_position_delete_files` will do. Reads the manifests of deletes.

    Args:
        table: the name of a table, or an open table.
        catalog: a catalog, or its name in PyIceberg's configuration; by default the default catalog.
        options: see `DeletesOptions`; also by the names of Java's options.
        files: which delete files are considered; by default all.
    """
    chosen = options if isinstance(options, DeletesOptions) else DeletesOptions.from_properties(options or {})
    return DeletesPlan(encrypted_table(table, catalog), chosen, branch, files)


def _positional(task: EncryptedFileScanTask) -> list[DataFileV3]:
    return [
        file
        for file in task.delete_files
        if isinstance(file, DataFileV3) and file.content == DataFileContent.POSITION_DELETES
    ]


def _touches(task: EncryptedFileScanTask, gone: Mapping[tuple[str, int | None], DataFileV3]) -> bool:
    return any(file.identity in gone for file in _positional(task))
