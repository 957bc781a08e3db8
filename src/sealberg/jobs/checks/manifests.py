"""Manifests: read once each, however many snapshots share them, and turned into tasks for files.

    manifest list line ──read, authenticate──> entries ──> findings, FileTask per new file, Digest

A `Digest` is what the checks of snapshots need of a manifest, in a few bytes per file.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.typedef import Record

from sealberg.errors import KeyMetadataError
from sealberg.files.locations import Locations
from sealberg.format.ags1 import Layout
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs.checks.claims import Columns
from sealberg.jobs.checks.files import FileTask
from sealberg.jobs.checks.key_use import KeyUse
from sealberg.jobs.checks.manifest_counts import (
    check_content,
    check_counts,
    check_sequence_numbers,
    check_summaries,
)
from sealberg.jobs.checks.summaries import Changes
from sealberg.jobs.task_io import storage_only
from sealberg.metadata.manifest import DataFileV3, inherit, read_manifest_file
from sealberg.metadata.partition_types import schema_for
from sealberg.pyiceberg_private import values_of
from sealberg.write.snapshot_summary import count_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import ManifestEntry

    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.past import Places
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.jobs.findings import Level
    from sealberg.metadata.manifest import ManifestFileV3

_HALF = 0xFFFF_FFFF
_FIRST_ROW_ID = 16  # the position of the field; the fields before it are claims about the file
_KEY_AND_SIZE = attrgetter("key_metadata", "file_size_in_bytes")
_VECTOR = attrgetter("referenced_data_file", "record_count")
KINDS = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}


@dataclass
class Digest:
    """The live files of one manifest: hashes of their paths, row id ranges, and totals."""

    data: array[int] = field(default_factory=lambda: array("q"))
    first_row_ids: array[int] = field(default_factory=lambda: array("q"))
    row_counts: array[int] = field(default_factory=lambda: array("q"))
    vectors: array[int] = field(default_factory=lambda: array("q"))
    totals: Counter[str] = field(default_factory=Counter)


class ManifestChecks:
    """Checks the manifests of one table, and remembers what was seen.

    Attributes:
        named: the locations of all files that manifests name.
        changes: what each snapshot added and removed.
        keys: the use of the keys of all files.
        complete: whether every manifest could be read, so that `named` has all files.
    """

    def __init__(self, state: TableState, outcome: Outcome, level: Level, places: Places) -> None:
        self._places = places
        self._names = state.metadata.name_mapping()
        self._columns = Columns.of(state.metadata)
        self._state = state
        self._outcome = outcome
        self._level = level
        self._io = state.io
        self._task_io = storage_only(state.storage)
        self._schema = state.metadata.schema()
        self._specs = state.metadata.specs()
        self._orders = {order.order_id for order in state.metadata.sort_orders}
        self._numbers = {each.snapshot_id: each.sequence_number for each in state.metadata.snapshots}
        self._by_number = {number: each for each, number in self._numbers.items() if number}
        self._row_ids = {
            each.snapshot_id: (each.first_row_id, each.first_row_id + each.added_rows)
            for each in state.metadata.snapshots
            if each.first_row_id is not None and each.added_rows is not None
        }
        self._digests: dict[str, Digest | None] = {}
        self._lines: dict[str, set[int]] = {}
        self._files: dict[int, int] = {}
        self._other_claims: set[int] = set()
        self._puffins: defaultdict[str, dict[tuple[int | None, int | None], tuple[DataFileV3, int | None]]]
        self._puffins = defaultdict(dict)
        self.named = Locations()
        self.changes = Changes()
        self.keys = KeyUse(state.metadata, outcome)
        self.complete = True

    def digest(self, line: ManifestFileV3) -> Digest | None:
        """The digest of a manifest that was read; None if it could not be read."""
        return self._digests.get(str(line.manifest_path))

    def read(self, line: ManifestFileV3, snapshot_id: int) -> Iterator[FileTask]:
        """Check the manifest of a line, if it is new, and yield a task for each new file."""
        path = str(line.manifest_path)
        mark = hash(_hashable(values_of(line)))
        seen = self._lines.setdefault(path, set())
        if mark in seen:
            return
        if seen:  # read again: what this line says must be true too
            self._outcome.find("entry", "two manifest lists describe this manifest differently", path, snapshot_id)
        seen.add(mark)
        self._digests[path] = None
        self.named.add(path)
        self._places.add(path, snapshot_id)
        read: list[ManifestEntry] = []
        before = len(self._outcome.findings), len(self._outcome.not_checked)
        with self._outcome.catching("manifest (the files that it names were not checked)", path, snapshot_id):
            self._check_key(line, path, snapshot_id)
            read = list(inherit(read_manifest_file(self._io, line.manifest_path), line))
            self._digests[path] = Digest()
        if self._digests[path] is None:
            self.complete = False
            self._outcome.count("manifest", stored=line.manifest_length)
            assert before != (len(self._outcome.findings), len(self._outcome.not_checked))
            return
        blocks = Layout(line.manifest_length).block_count if line.key_metadata is not None else 0
        self._outcome.count("manifest", stored=line.manifest_length, checked=line.manifest_length, units=blocks)
        self._check_line(line, read, path, snapshot_id)
        for entry in read:
            yield from self._entry(line, entry, snapshot_id)

    def vectors(self) -> Iterator[FileTask]:
        """A task per Puffin file, with all deletion vectors that manifests name in it; after all manifests."""
        for entries in self._puffins.values():
            files = [file for file, _ in entries.values()]
            snapshot_id = next(iter(entries.values()))[1]
            yield self._task("deletion-vectors", tuple(files), snapshot_id)

    def _check_key(self, line: ManifestFileV3, path: str, snapshot_id: int) -> None:
        if line.key_metadata is None:
            text = "the manifest list has no key for the manifest, so the manifest is not encrypted"
            self._outcome.find("plaintext", text, path, snapshot_id)
            return
        key = KeyMetadata.decode(line.key_metadata)
        self.keys.add_once(key, path, snapshot_id, of=("manifest", line.sequence_number))
        length = key.file_length
        if length is None:
            self._outcome.find("no-length", "the key metadata of the manifest have no file length", path, snapshot_id)
        elif length != line.manifest_length:
            text = f"the manifest list claims {line.manifest_length} bytes, its key metadata {length} bytes"
            self._outcome.find("size", text, path, snapshot_id)

    def _check_line(self, line: ManifestFileV3, entries: list[ManifestEntry], path: str, snapshot_id: int) -> None:
        added = self._by_number.get(line.sequence_number or 0)
        if added is not None and added != line.added_snapshot_id:
            text = (
                f"the manifest was added by snapshot {line.added_snapshot_id}, its sequence number is that of {added}"
            )
            self._outcome.find("entry", text, path, snapshot_id)
        spec = self._specs.get(line.partition_spec_id)
        summaries: Iterable[str] = ()
        if spec is not None:
            summaries = check_summaries(line, entries, spec, schema_for(self._state.metadata, spec.spec_id))
        else:
            text = f"the partition spec {line.partition_spec_id} of the manifest is not in the table metadata"
            self._outcome.find("entry", text, path, snapshot_id)
        for code, texts in (
            ("count", check_counts(line, entries)),
            ("entry", check_content(line, entries)),
            ("sequence", check_sequence_numbers(line, entries, self._numbers)),
            ("partition", summaries),
        ):
            for text in texts:
                self._outcome.find(code, text, path, snapshot_id)

    def _entry(self, line: ManifestFileV3, entry: ManifestEntry, snapshot_id: int) -> Iterator[FileTask]:
        file = entry.data_file
        assert isinstance(file, DataFileV3)
        path = str(file.file_path)
        self.named.add(path)
        self.changes.add(entry, file)
        if entry.status == ManifestEntryStatus.DELETED:
            return  # its file may be gone
        digest = self._digests[str(line.manifest_path)]
        assert digest is not None
        self._note(digest, entry, path, snapshot_id)
        spec = self._specs.get(line.partition_spec_id)
        if spec is not None and len(file.partition) != len(spec.fields):
            text = f"the entry has {len(file.partition)} partition values, its spec has {len(spec.fields)} fields"
            self._outcome.find("partition", text, path, snapshot_id)
            return
        if file.sort_order_id is not None and file.sort_order_id not in self._orders:
            text = f"the sort order {file.sort_order_id} of the entry is not in the table metadata"
            self._outcome.find("entry", text, path, snapshot_id)
        if file.is_deletion_vector:
            if path not in self._puffins:
                self._places.add(path, snapshot_id)
                self._add_key(entry, file, path, snapshot_id)
            seen = self._puffins[path].setdefault(
                (file.content_offset, file.content_size_in_bytes), (file, snapshot_id)
            )
            first = next(iter(self._puffins[path].values()))[0]
            of_file, of_vector = _KEY_AND_SIZE(first), _VECTOR(seen[0])
            if (of_file, of_vector) != (_KEY_AND_SIZE(file), _VECTOR(file)):
                self._outcome.find("entry", "two entries describe this file differently", path, snapshot_id)
            return
        # Not the row ids: a file that was cherry-picked into another branch has other row ids there.
        identity = hash((file.file_size_in_bytes, file.record_count, file.key_metadata)) & _HALF
        claims = hash(_hashable(values_of(file)[2:_FIRST_ROW_ID])) & _HALF
        marks = identity << 32 | claims  # one number: a table may have millions of files
        known = self._files.get(hash(path))
        if known is None:
            self._files[hash(path)] = marks
            self._places.add(path, snapshot_id)
            self._add_key(entry, file, path, snapshot_id)
            yield self._task(KINDS[file.content], (file,), snapshot_id)
            return
        if known >> 32 != identity:
            self._outcome.find("entry", "two entries describe this file differently", path, snapshot_id)
        # A file is checked again if another entry makes other claims about it.
        if known != marks and hash((path, marks)) not in self._other_claims:
            self._other_claims.add(hash((path, marks)))
            yield self._task(KINDS[file.content], (file,), snapshot_id, again=True)

    def _add_key(self, entry: ManifestEntry, file: DataFileV3, path: str, snapshot_id: int) -> None:
        with suppress(KeyMetadataError):  # the check of the file tells
            if file.key_metadata is not None:
                self.keys.add(
                    KeyMetadata.decode(file.key_metadata), path, snapshot_id, of=("file", entry.file_sequence_number)
                )

    def _note(self, digest: Digest, entry: ManifestEntry, path: str, snapshot_id: int) -> None:
        file = entry.data_file
        assert isinstance(file, DataFileV3)
        count_files(digest.totals, (file,), "added")
        if file.content != DataFileContent.DATA:
            if file.is_deletion_vector:
                digest.vectors.append(hash(file.referenced_data_file))
            return
        digest.data.append(hash(path))
        if file.first_row_id is None:
            self._outcome.find("row-ids", "the data file has no first row id", path, snapshot_id)
            return
        digest.first_row_ids.append(file.first_row_id)
        digest.row_counts.append(file.record_count)
        given = self._row_ids.get(entry.snapshot_id or 0)  # by the snapshot that added the file
        end = file.first_row_id + file.record_count
        # A rewrite that keeps sequence numbers may keep the row ids of older snapshots too.
        is_kept = (
            (entry.sequence_number or 0) < (entry.file_sequence_number or 0) and given is not None and end <= given[0]
        )
        if (
            given is not None
            and file.record_count
            and not (is_kept or given[0] <= file.first_row_id <= end <= given[1])
        ):
            text = f"the row ids of the file are {file.first_row_id} to {end}, of its snapshot {given[0]} to {given[1]}"
            self._outcome.find("row-ids", text, path, snapshot_id)

    def _task(
        self, kind: str, files: tuple[DataFileV3, ...], snapshot_id: int | None, *, again: bool = False
    ) -> FileTask:
        spec = self._specs.get(files[0].spec_id) or self._state.metadata.spec()
        table, level, storage = self._state.name, self._level, self._task_io
        return FileTask(
            table, kind, snapshot_id, level, storage, files, self._schema, spec, self._columns, again, self._names
        )


def _hashable(value: Any) -> Any:
    """The value of a manifest as tuples: equal values are equal, whichever of PyIceberg's classes holds them."""
    if isinstance(value, Mapping):  # a LazyDict has no equality
        return tuple(sorted((key, _hashable(inner)) for key, inner in value.items()))
    if isinstance(value, Record):
        return tuple(map(_hashable, values_of(value)))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
