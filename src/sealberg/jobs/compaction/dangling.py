"""Delete files that apply to no data file any more, and their removal.

    kind               | dangling if
    deletion vector    | its data file is gone
    position deletes   | its data file is gone, or all data files of its partition are younger
    equality deletes   | no data file of its partition (of an unpartitioned spec: of the table) is older

Only metadata are read. "Older" compares data sequence numbers, as a scan does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.snapshots import Operation

from sealberg.jobs.compaction.commit import publish
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.scan.delete_index import is_unpartitioned, only_path
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.snapshot_summary import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.table.catalog_table import CatalogTable

TRIES: Final = 3


@dataclass
class _Ages:
    """The sequence numbers of live data files."""

    by_path: dict[str, int] = field(default_factory=dict)
    oldest: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, file: DataFileV3, age: int) -> None:
        self.by_path[str(file.file_path)] = age
        key = partition_of(file)
        self.oldest[key] = min(age, self.oldest.get(key, age))


def remove_dangling_deletes(table: CatalogTable, branch: str) -> tuple[int, int | None]:
    """Remove dangling delete files in one commit; returns how many, and the snapshot."""
    for left in reversed(range(TRIES)):
        table.refresh()
        gone = tuple(dangling(table, branch))
        if not gone:
            return 0, None
        try:
            changes = FileChanges(removed_deletes=gone, operation=Operation.REPLACE, branch=branch)
            return len(gone), publish(table, changes)
        except ValidationException:  # another process has removed one of them meanwhile
            if not left:
                raise
    raise AssertionError("internal error: the last attempt returns or raises")


def dangling(table: CatalogTable, branch: str) -> Iterator[DataFileV3]:
    """The delete files that apply to no data file."""
    specs, ages = table.metadata.specs(), _Ages()
    for file, age in live_files(table, branch, ManifestContent.DATA):
        ages.add(file, age)
    oldest_of_all = min(ages.by_path.values(), default=None)
    for file, age in live_files(table, branch, ManifestContent.DELETES):
        path = only_path(file) if file.content == DataFileContent.POSITION_DELETES else None
        if path is not None:
            data_age = ages.by_path.get(path)
            applies = data_age is not None and data_age <= age
        else:
            everywhere = file.content == DataFileContent.EQUALITY_DELETES and is_unpartitioned(specs[file.spec_id])
            oldest = oldest_of_all if everywhere else ages.oldest.get(partition_of(file))
            younger = age - 1 if file.content == DataFileContent.EQUALITY_DELETES else age
            applies = oldest is not None and oldest <= younger
        if not applies:
            yield file


def live_files(table: CatalogTable, branch: str, content: ManifestContent) -> Iterator[tuple[DataFileV3, int]]:
    """The live files of one content, with their data sequence numbers."""
    head = table.metadata.snapshot_by_name(branch)
    for manifest in head.manifests(table.io) if head is not None else ():
        if manifest.content == content and isinstance(manifest, ManifestFileV3):
            for entry in manifest.fetch_manifest_entry(table.io):
                assert isinstance(entry.data_file, DataFileV3)
                yield entry.data_file, entry.sequence_number or 0
