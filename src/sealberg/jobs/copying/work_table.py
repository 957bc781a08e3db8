"""The table that remembers what an unfinished copy has done: a killed run goes on with it.

    <target>_unfinished    in the catalog, with the location and the keys that the target will have
      snapshot             the files that are copied and checked so far, with their keys

    begin or continue ──> record a batch ──> ... ──> finish: the target is registered, this table is dropped

The keys of copied files are in manifests of an encrypted table, which the catalog vouches for, as all keys are. Each
run writes its own number into the table; a run that finds another number gives up, so that two runs never publish.
The metadata of this table are in a folder of their own, which is deleted with the table.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

from sealberg.catalogs.base import EncryptedCatalog
from sealberg.errors import ConfigError, ConflictError
from sealberg.files.file_io import METADATA_SUFFIXES
from sealberg.jobs.copying.file_copy import CopiedFile
from sealberg.jobs.copying.leftovers import SOURCE, Leftovers, leftovers
from sealberg.jobs.copying.target import Target, digest_in, digest_of
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import PARTITION_LIMIT, VERSION_PROPERTY
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.storage_properties import location_provider
from sealberg.metadata.table_places import NOT_EMPTY, PATHS
from sealberg.table.catalog_table import CatalogTable
from sealberg.write.snapshot_builder import FileChanges
from sealberg.write.staged_files import refuse_existing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.copying.source import Source
    from sealberg.metadata.table_metadata import V3TableMetadata

UNFINISHED: Final = "_unfinished"
RUN: Final = "sealberg.copy.run"
OWN_FOLDER: Final = "unfinished"


def work_name(target: Identifier) -> Identifier:
    return (*target[:-1], target[-1] + UNFINISHED)


def metadata_folder(location: str) -> str:
    return f"{location.rstrip('/')}/{OWN_FOLDER}"


@dataclass
class WorkTable:
    """The record of one copy.

    Attributes:
        table: the table `<target>_unfinished`.
        target: where copies go.
    """

    catalog: Catalog
    name: Identifier
    table: CatalogTable
    target: Target

    @classmethod
    def begin(
        cls, catalog: Catalog, target: Identifier, source: Source, properties: dict[str, str], location: str | None
    ) -> WorkTable:
        """Continue the copy of this source into this target, or begin it."""
        name = work_name(target)
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            table = _create(catalog, name, target, source, properties, location)
        assert isinstance(table, CatalogTable), "a table of version 3"
        _check_same(table, source, properties, target)
        run = uuid.uuid4().hex
        with table.transaction() as transaction:
            transaction.set_properties({RUN: run})
        wanted = target_properties(catalog, target, source, properties)
        provider = location_provider(table.metadata.location, wanted, catalog.properties)
        return cls(catalog, name, table, Target(table.inner, table.encryption, provider, run))

    def copies(self, source: Source) -> dict[str, CopiedFile]:
        """What earlier runs copied, by the location of the source."""
        known: dict[str, DataFileV3] = {}
        if (snapshot := self.table.metadata.current_snapshot()) is not None:
            for manifest in snapshot.manifests(self.table.io):
                for entry in manifest.fetch_manifest_entry(self.table.io):
                    file: Any = entry.data_file
                    known[digest_in(file.file_path)] = file
        found = {path: known.get(digest_of(path)) for path in source.files}
        return {path: as_copied(path, file) for path, file in found.items() if file is not None}

    def record(self, files: Iterable[CopiedFile]) -> None:
        """Commit files that are copied and checked."""
        added = tuple(map(_recorded, files))
        if added:
            changes = FileChanges(added=added, operation=Operation.APPEND, foreign=True, guard=self._guard)
            transaction = self.table.transaction()
            transaction.commit_changes(changes)
            transaction.commit_transaction()

    def check_own(self) -> None:
        """Refuse to go on if another run has taken over."""
        self.table.refresh()
        self._guard(self.table.metadata)

    def _guard(self, metadata: V3TableMetadata) -> None:
        if metadata.properties.get(RUN) != self.target.run:
            raise ConflictError(
                f"another run has taken over the copy {'.'.join(self.name)}; this run has published nothing"
            )

    def leftovers(self, named: Iterable[str]) -> Leftovers:
        """What killed runs have left in the location, beside the files of the copy and this record."""
        place = self.table.metadata.location
        return leftovers(
            self.catalog,
            self.target.storage,
            place,
            self.table.metadata.properties[SOURCE],
            (self.name,),
            but=named,
            but_below=metadata_folder(place),
        )

    def remove(self, target: Identifier) -> dict[str, str]:
        """Drop the table and delete its metadata; the copied files stay. Returns what else stays, and why."""
        self.catalog.drop_table(self.name)
        metadata = self.table.metadata
        return remove_records(self.catalog, target, self.target.storage, metadata.location, metadata.properties[SOURCE])


def remove_records(
    catalog: Catalog, target: Identifier, storage: FileIO, location: str, identity: str
) -> dict[str, str]:
    """Delete the metadata of the record of a finished copy; returns what stays there, and why."""
    return leftovers(catalog, storage, metadata_folder(location), identity, (target,)).remove(storage)


def target_properties(catalog: Catalog, target: Identifier, source: Source, given: dict[str, str]) -> dict[str, str]:
    """The properties of the finished table: those of the source, without its paths, those that were given, and those
    that the configuration of the catalog overrides."""
    kept = {name: value for name, value in source.metadata.properties.items() if _is_kept(name)}
    if KEY_ID_PROPERTY in given:
        kept.pop(PARTITION_LIMIT, None)
    made = {**kept, **given, SOURCE: source.identity}
    if isinstance(catalog, EncryptedCatalog):
        made = catalog.policy.bound(target, made)
    return {name: value for name, value in made.items() if name != VERSION_PROPERTY}


def _is_kept(name: str) -> bool:
    return name not in PATHS and not name.startswith(("encryption.", "sealberg.copy.", "format-version"))


def _create(
    catalog: Catalog,
    name: Identifier,
    target: Identifier,
    source: Source,
    properties: dict[str, str],
    location: str | None,
) -> CatalogTable:
    staged = _staged(catalog, target, source, properties, location)
    place = _empty_place(catalog, staged, location, source.identity)
    own = {SOURCE: source.identity, "write.metadata.path": metadata_folder(place)}
    metadata = staged.metadata.model_copy(
        update={"location": place, "properties": {**staged.metadata.properties, **own}}
    )
    file = location_provider(place, metadata.properties, catalog.properties).new_table_metadata_file_location()
    write_metadata(staged, metadata, file)
    table = catalog.register_table(name, file)
    assert isinstance(table, CatalogTable), "a table of version 3"
    return table


def _staged(
    catalog: Catalog, target: Identifier, source: Source, properties: dict[str, str], location: str | None
) -> CatalogTable:
    """The new table as the catalog would create it, with its location and its first KEK; not committed."""
    # A run that died has left files there; `_empty_place` says what becomes of them.
    version = {} if KEY_ID_PROPERTY in properties else {"format-version": "3"}
    transaction: Any = catalog.create_table_transaction(
        target, source.metadata.schema(), location=location, properties={**properties, **version, NOT_EMPTY: "true"}
    )
    staged: CatalogTable = transaction.sealed
    if KEY_ID_PROPERTY not in properties and KEY_ID_PROPERTY in staged.metadata.properties:
        raise ConfigError(
            f"new tables of the namespace {'.'.join(target[:-1])} are encrypted, so {'.'.join(target)} cannot be "
            "plaintext; choose a name in another namespace"
        )
    return staged


def _empty_place(catalog: Catalog, staged: CatalogTable, asked: str | None, identity: str) -> str:
    """The location, if nothing is there; the files of a copy must not mix with others."""
    place = staged.metadata.location.rstrip("/")
    found = leftovers(catalog, staged.inner, place, identity, ())
    own = f"{metadata_folder(place)}/"
    records = [each.location.startswith(own) and each.location.endswith(METADATA_SUFFIXES) for each in found.files]
    if not found.kept and all(records) and not found.remove(staged.inner):
        return place  # a run that died before the catalog had its record has left no more than that record
    if asked is not None:
        raise ConfigError(f"there are files below {place}, expected an empty location for the new table")
    return f"{place}-{uuid.uuid4().hex[:8]}"


def write_metadata(table: CatalogTable, metadata: V3TableMetadata, location: str) -> None:
    refuse_existing(table.inner, location)
    with table.inner.new_output(location).create(overwrite=True) as stream:
        stream.write(metadata.to_json().encode())


def _check_same(table: CatalogTable, source: Source, properties: dict[str, str], target: Identifier) -> None:
    name = ".".join(table.name())
    found = table.metadata.properties
    if found.get(SOURCE) != source.identity:
        raise ConfigError(
            f"{name} is the record of an unfinished copy of another table into {'.'.join(target)}; finish that copy, "
            f"or drop {name} (with purge) to begin anew"
        )
    if found.get(KEY_ID_PROPERTY) != properties.get(KEY_ID_PROPERTY):
        raise ConfigError(
            f"{name} was begun under the key {found.get(KEY_ID_PROPERTY)}, not {properties.get(KEY_ID_PROPERTY)}; "
            f"finish it with that key, or drop {name} (with purge) to begin anew"
        )


def _recorded(copy: CopiedFile) -> DataFileV3:
    """An entry that keeps what a later run needs of a copy: its place, key and lengths."""
    file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=copy.target,
        file_format=FileFormat(copy.target.rpartition(".")[2].upper()),
        partition=Record(),
        record_count=copy.record_count,
        file_size_in_bytes=copy.stored_length,
        column_sizes=copy.column_sizes or {},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=copy.key_metadata,
        split_offsets=copy.split_offsets,
    )
    file.spec_id = 0
    return file


def as_copied(source: str, file: DataFileV3) -> CopiedFile:
    """The copy of a file, from its manifest entry."""
    sizes = file.column_sizes
    return CopiedFile(
        source,
        str(file.file_path),
        file.file_size_in_bytes,
        file.record_count,
        list(file.split_offsets) if file.split_offsets else None,
        dict(sizes.items()) if sizes else None,
        file.key_metadata,
    )
