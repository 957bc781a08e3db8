"""Cuts groups into tasks: each task becomes about one new file, so that a large group is rewritten in parallel.

    FileGroup of 3 GB ──bins of about the target size──> RewriteTask, RewriteTask, ...

A sorted group is cut into larger tasks, because only the rows of one task are sorted together. Its files are put into
the order of their lowest values first, so that tasks overlap little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.conversions import from_bytes
from pyiceberg.types import PrimitiveType

from sealberg.errors import UnsupportedError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.compaction.rewrite import SORT_BYTES, RewriteTask
from sealberg.jobs.task_io import storage_only
from sealberg.keys.keyring import Keyring
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema

    from sealberg.jobs.compaction.options import Sizes
    from sealberg.jobs.compaction.selection import FileGroup, InputFile
    from sealberg.jobs.compaction.sorting import Layout
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.table.catalog_table import CatalogTable

SORTED_TASK_BYTES: Final = 512 << 20  # of stored input: about what is sorted in memory
KEPT: Final = ("write.", "schema.name-mapping.default")  # the properties that a task needs


@dataclass(frozen=True)
class TaskMaker:
    """Makes the tasks of groups of one table."""

    table: CatalogTable
    sizes: Sizes
    layout: Layout
    sort_bytes: int = SORT_BYTES

    def tasks(self, group: FileGroup) -> Iterator[RewriteTask]:
        table = self.table
        if table.encryption is None or not isinstance(table.io, EncryptingFileIO):
            raise UnsupportedError(f"{'.'.join(table.name())} is not encrypted: only encrypted tables are compacted")
        own = table.encryption.settings
        # The properties of the KMS stay here: a task makes the keys of new files, and opens no other key.
        settings = EncryptionSettings(own.table, own.master_key_id, own.key_length)
        for files in self._cut(group):
            yield RewriteTask(
                ".".join(table.name()),
                group.number,
                tuple(files),
                storage_only(table.io.inner),
                stripped(table.metadata),
                table.new_places(),
                EncryptionManager(settings),
                self.sizes.output_files(sum(file.size for file in files)),
                group.partitioned,
                self.layout,
                self.sort_bytes,
                table.io.allow_plaintext,
                table.io.allow_missing_length,
            )

    def expected_files(self, group: FileGroup) -> int:
        return sum(self.sizes.output_files(sum(file.size for file in files)) for files in self._cut(group))

    def _cut(self, group: FileGroup) -> Iterator[list[InputFile]]:
        most = self.sizes.split_size(group.size)
        files: Sequence[InputFile] = group.files
        if self.layout.is_sorted:
            most = max(most, SORTED_TASK_BYTES)
            files = _by_lower_bound(files, self.layout.first_column, self.table.metadata.schema())
        bin_: list[InputFile] = []
        size = 0
        for file in files:
            if bin_ and size + file.size > most:
                yield bin_
                bin_, size = [], 0
            bin_.append(file)
            size += file.size
        yield bin_


def stripped(metadata: V3TableMetadata) -> V3TableMetadata:
    """The schemas, the specs and the properties for writers: no snapshots, no keys."""
    nothing: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "statistics": []}
    kept = {name: value for name, value in metadata.properties.items() if name.startswith(KEPT)}
    return metadata.model_copy(
        update={**nothing, "current_snapshot_id": None, "encryption_keys": Keyring(), "properties": kept}
    )


def _by_lower_bound(files: Sequence[InputFile], field_id: int | None, schema: Schema) -> list[InputFile]:
    """Files without a bound come last; bounds of strings are cut, which is good enough for an order of files."""
    if field_id is None or field_id not in schema.field_ids:
        return list(files)
    kind = schema.find_type(field_id)
    assert isinstance(kind, PrimitiveType)

    def key(file: InputFile) -> tuple[bool, Any]:
        bound = (file.file.lower_bounds or {}).get(field_id)
        try:
            return (True, 0) if bound is None else (False, from_bytes(kind, bytes(bound)))
        except (ValueError, OverflowError, ArithmeticError, LookupError):
            return True, 0

    try:
        return sorted(files, key=key)
    except TypeError:
        return list(files)
