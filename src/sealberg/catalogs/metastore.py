"""Catalogs that keep a pointer to metadata.json, which the client writes: SQL, Hive, Glue.

    _pointer(name)         the metadata location of a table, and the trust that the catalog keeps
    _enter(name, version)  create the entry of a new table
    _swap(name, old, ...)  replace the location and the trust together, if the location is still `old`
    _vouch(name, trust)    replace the trust, if the location is still the same

    commit: load and compare ──> check ──> write metadata ──> _swap
            └──── an error here: certainly not applied ───┘    └─ an error here: perhaps applied

Each catalog implements these four; everything else is here. Files of a failed commit are deleted only if the commit was
certainly not applied (`CommitAttempt`).
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io

from sealberg.catalogs.base import (
    CreatedMeanwhileError,
    EncryptedCatalog,
    changed,
    dotted,
    response,
    to_identifier,
)
from sealberg.catalogs.new_places import NewPlace, always_unique, tables_of
from sealberg.errors import LocationError, TrustError
from sealberg.files.confined_io import ConfinedFileIO, stores
from sealberg.files.file_io import naming
from sealberg.files.locations import Location, within
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import check_keys, check_plain_updates, refuse_plaintext
from sealberg.metadata.metadata_file import max_bytes, parse, parse_long, read_current, read_text
from sealberg.metadata.storage_properties import for_file_io, location_provider
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata, metadata_hash
from sealberg.metadata.table_places import check_location, check_places
from sealberg.metadata.trust import Trust, other_keys, refuse_untrusted
from sealberg.metadata.updates import usable
from sealberg.metadata.version_upgrade import as_property, as_version_3, version_first
from sealberg.properties.table_names import check_table_properties
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.own_folders import jail, metadata_folder
from sealberg.table.plain_table import PlainTable, plain_metadata, restored
from sealberg.table.purge import purge
from sealberg.table.staged_table import CreateTransaction, StagedCatalogTable
from sealberg.write.commit_outcome import CommitAttempt
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.table import CommitTableResponse, StagedTable, Table, Transaction
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

    from sealberg.catalogs.base import Name, NewTable


@dataclass(frozen=True)
class Version:
    """Metadata in a file, ready to be committed; `trust` is None if the table is not encrypted."""

    metadata: V3TableMetadata
    location: str
    trust: Trust | None


class EncryptedMetastore(EncryptedCatalog, MetastoreCatalog):
    """A mixin before one of PyIceberg's catalogs, which handles tables of versions 1 and 2."""

    @abstractmethod
    def _pointer(self, name: Name) -> tuple[str, Trust | None]:
        """The metadata location and the trust, read together; NoSuchTableError."""

    @abstractmethod
    def _enter(self, name: Name, version: Version, attempt: CommitAttempt) -> None:
        """Create the entry of a new table; TableAlreadyExistsError."""

    @abstractmethod
    def _swap(self, name: Name, old: str, version: Version, gone: frozenset[str], attempt: CommitAttempt) -> None:
        """Replace the location `old`, if it is still current; `gone` are properties that the commit removed."""

    @abstractmethod
    def _vouch(self, name: Name, accepted: Trust) -> bool:
        """Store this trust, if the metadata location is the one in it; otherwise False."""

    # -- load ---------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = self._name(identifier)
        location, trusted, text = self._pointed_at(name)
        if trusted is not None:
            trusted.check_text(dotted(name), location, text)
        raw = _raw_v3(text, location)
        if raw is None:
            plain = self._plain_table(name, text, location)
            if trusted is not None:
                raise TrustError(
                    f"{location} is not the metadata of the encrypted table {dotted(name)}: it has format version "
                    f"{plain.format_version}, expected 3. Somebody has changed the metadata"
                )
            self.policy.check_expected(to_identifier(name), plain.metadata)
            return plain
        with naming(location):
            metadata = V3TableMetadata.from_raw(raw)
        if trusted is None:
            refuse_untrusted(dotted(name), location, metadata)
        elif not trusted.same_keys(Trust.of(metadata, location, trusted.metadata_hash)):
            found = metadata.properties.get(KEY_ID_PROPERTY)
            raise TrustError(
                f"the key id in {location} is not the one that the catalog has for {dotted(name)}: found "
                f"{found or 'none'}, expected {trusted.key_id} with the same key length. Somebody has changed the "
                "metadata"
            )
        return self._table(name, metadata, location)

    def _pointed_at(self, name: Name) -> tuple[str, Trust | None, bytes]:
        """The pointer, the trust and the text of the metadata file; read again if an expiry has just removed it."""
        while True:
            location, trusted = self._pointer(name)
            if trusted is not None:
                trusted.check_location(dotted(name), location)
            try:
                return location, trusted, read_current(self._file(location), max_bytes(self.properties))
            except FileNotFoundError:
                if self._pointer(name)[0] == location:
                    raise

    def _read(self, location: str) -> bytes:
        return read_text(self._file(location), max_bytes(self.properties))

    def _file(self, location: str) -> InputFile:
        properties = {**self.properties, **for_file_io(self.properties, {})}
        return ConfinedFileIO(load_file_io(properties, location), stores(self.properties, location)).new_input(location)

    def _plain_table(self, name: Name, text: bytes, location: str) -> Table:
        """A table of version 1 or 2."""
        metadata = self._plain_metadata(text, location)
        io = self._load_file_io(metadata.properties, location)
        return PlainTable(to_identifier(name), metadata, location, io, self)

    @staticmethod
    def _plain_metadata(text: bytes, location: str) -> TableMetadata:
        return plain_metadata(location, parse(text, location))

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        """Prepare a commit to a table of version 1 or 2; PyIceberg calls this before it writes metadata.json."""
        staged = super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        if current_table is not None:
            staged.io = current_table.io  # table metadata may set the location of metadata, but not the store
            self._refuse_to_leave(current_table, staged.metadata, staged.metadata_location)
        return restored(current_table, staged, updates)

    # -- create, commit -----------------------------------------------------------------------

    def _create_plain(self, new: NewTable) -> Table:
        self._forget(new.identifier)
        super()._create_plain(new)
        return self.load_table(new.identifier)

    def _create_v3(self, new: NewTable) -> Table:
        name = self._new_name(new.identifier)
        metadata = self._new(name, new)
        self._refuse_known(name)  # before the request to the KMS
        self._create(name, self._with_first_kek(name, metadata), CommitAttempt())
        return self.load_table(new.identifier)

    def _create_v3_transaction(self, new: NewTable) -> Transaction:
        name = self._new_name(new.identifier)
        metadata = self._with_first_kek(name, self._new(name, new))
        inner = self._load_file_io(metadata.properties, metadata.location)
        staged = StagedCatalogTable(
            to_identifier(name), metadata, metadata.location, inner, self, self._encryption(name, metadata)
        )

        def create(created: V3TableMetadata, attempt: CommitAttempt) -> None:
            try:
                self._create(name, created, attempt)
            except TableAlreadyExistsError as error:
                with attempt.not_applied():
                    raise CreatedMeanwhileError(f"Table already exists: {dotted(name)}") from error

        return CreateTransaction(staged, create)

    def _place(self, new: NewTable) -> str | None:
        name = self._new_name(new.identifier)
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        place = NewPlace(
            dotted(name), lambda at: self._load_file_io(location=at), lambda: tables_of(self), wanted=new.wanted
        )
        try:
            if new.location:
                return place.given(new.location)
            return place.usual(self._resolve_table_location(None, *name), unique=always_unique(self.properties))
        except LocationError:
            with contextlib.suppress(ValueError):  # a name that the database cannot even be asked for
                self._refuse_known(name)  # the creator is told that first
            raise

    def _new(self, name: Name, new: NewTable) -> V3TableMetadata:
        """The metadata of a new table; wrong arguments are refused before anything is written."""
        location = self._resolve_table_location(new.location, *name)
        check_table_properties(dotted(name), new.properties)
        metadata = new.metadata(location)
        self._encryption(name, metadata)
        return metadata

    def _with_first_kek(self, name: Name, metadata: V3TableMetadata) -> V3TableMetadata:
        kek = self._first_kek(name, metadata)
        if kek is None:
            return metadata
        return metadata.model_copy(update={"encryption_keys": metadata.encryption_keys.with_keys(kek)})

    def _refuse_known(self, name: Name) -> None:
        with contextlib.suppress(NoSuchPropertyException):  # a table of Hive's own; the catalog refuses its name
            if self._known(name) is not None:
                raise TableAlreadyExistsError(f"Table {dotted(name)} already exists")

    def _forget(self, identifier: str | Identifier) -> None:
        """Drop the trust of a table that another tool has dropped, because a plaintext table will get its name."""

    def _create(self, name: Name, metadata: V3TableMetadata, attempt: CommitAttempt) -> None:
        with attempt.not_applied():
            check_places(metadata)  # a transaction may have set others
            place = self._locations(metadata).new_table_metadata_file_location()
        with self._written(metadata, place, self._load_file_io(location=place), attempt) as version:
            self._enter(name, version, attempt)

    def commit(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        with attempt.not_applied():
            current = self._current(table.name())
            self.policy.refuse_write(table.name(), (current or table).metadata)
            if not isinstance(current, CatalogTable):
                check_plain_updates(current.metadata if current else None, updates)
                updates, upgrades = version_first(updates, current.metadata if current else None)
                if current is None:
                    self._forget(table.name())
        if isinstance(current, PlainTable) and upgrades:
            return self._upgrade(current, requirements, updates, attempt)
        if not isinstance(current, CatalogTable):
            done: CommitTableResponse = self._plain.commit_table(table, requirements, updates)
            return done
        with attempt.not_applied():
            after = changed(current, requirements, updates)
            if after == current.metadata:
                return response(after, current.metadata_location)
            number = self._parse_metadata_version(current.metadata_location) + 1
            place = self._locations(after, updates).new_table_metadata_file_location(number)
            self._refuse_to_leave(current, after, place)
            gone = frozenset(current.metadata.properties.keys() - after.properties.keys())
            # Made before the commit: nothing may fail after it.
            committed = response(after, place)
        with self._written(after, place, current.inner, attempt) as version:
            self._swap(self._name(table.name()), current.metadata_location, version, gone, attempt)
        return committed

    def _upgrade(
        self,
        current: PlainTable,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        """Commit the upgrade of a table of version 1 or 2 to version 3."""
        with attempt.not_applied():
            staged = self._update_and_stage_table(current, current.name(), requirements, as_property(updates))
            after = as_version_3(staged.metadata)
            committed = response(after, staged.metadata_location)
        with self._written(after, staged.metadata_location, staged.io, attempt) as version:
            self._swap(self._name(current.name()), current.metadata_location, version, frozenset(), attempt)
        return committed

    def _refuse_to_leave(self, current: Table, after: TableMetadata, place: str) -> None:
        """Refuse to put the next metadata file where only metadata in storage lead, for which nobody vouches."""
        before, home = current.metadata, jail(current.metadata_location)
        is_moved = metadata_folder(before) != metadata_folder(after)  # by this very commit
        if is_moved or within(place, home) or self.vouches(current):
            return
        raise TrustError(
            f"the next metadata file of {'.'.join(current.name())} would be {place}, outside of {home}, where the "
            f"catalog has the table: {current.metadata_location} names another location, and the catalog has no hash "
            "of that file. Somebody may have changed it; if it is right, move the table there (SetLocation) or "
            "register it anew"
        )

    def _locations(self, metadata: V3TableMetadata, updates: Iterable[TableUpdate] = ()) -> LocationProvider:
        return location_provider(metadata.location, usable(metadata.properties, updates), self.properties)

    def _current(self, identifier: Identifier) -> Table | None:
        try:
            return self.load_table(identifier)
        except NoSuchTableError:
            return None

    @contextlib.contextmanager
    def _written(self, metadata: V3TableMetadata, place: str, io: FileIO, attempt: CommitAttempt) -> Iterator[Version]:
        """A metadata file for the block to commit; it is deleted if the commit was surely not applied."""
        with StagedFiles(io, attempt=attempt) as staged:
            with attempt.not_applied(), naming(place):
                text = metadata.to_json().encode()
                staged.create(place, text)
            yield Version(metadata, place, Trust.of(metadata, place, metadata_hash(text)))

    # -- purge, register ----------------------------------------------------------------------

    def purge_table(self, identifier: str | Identifier) -> None:
        table = self.load_table(identifier)
        purge(table, lambda: self.drop_table(identifier), vouched=self.vouches(table))

    def vouches(self, table: Table) -> bool:
        trusted = self.trusted(table.name())
        return trusted is not None and trusted.metadata_hash is not None

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Register a table with existing metadata; the caller vouches for the metadata."""
        Location.parse(metadata_location, "the metadata file")
        text = self._read(metadata_location)
        raw = _raw_v3(text, metadata_location)
        if raw is None:
            plain = self._plain_metadata(text, metadata_location)
            refuse_plaintext(metadata_location, plain)
            check_location(plain.location)
            self.policy.admit(Catalog.identifier_to_tuple(identifier), plain.properties)
            self._forget(identifier)
            made: Table = self._plain.register_table(identifier, metadata_location, overwrite)
            return made
        name, metadata = self._name(identifier), V3TableMetadata.from_raw(raw)
        self.policy.admit(to_identifier(name), metadata.properties)
        check_location(metadata.location)
        check_keys(metadata)
        trust = Trust.of(metadata, metadata_location, metadata_hash(text))
        if trust is None:
            refuse_untrusted(dotted(name), metadata_location, metadata)
        if not self.namespace_exists(name[0]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {name[0]}")
        version = Version(metadata, metadata_location, trust)
        before = self._known(name) if overwrite else None
        if before is None:
            self._enter(name, version, CommitAttempt())
        else:
            location, trusted = before
            if trusted is not None and not trusted.same_keys(trust):
                raise TrustError(other_keys(dotted(name), trusted, trust))
            self._swap(name, location, version, frozenset(), CommitAttempt())
        return self.load_table(identifier)

    def _known(self, name: Name) -> tuple[str, Trust | None] | None:
        try:
            return self._pointer(name)
        except NoSuchTableError:
            return None

    # -- trust --------------------------------------------------------------------------------

    def trusted(self, identifier: str | Identifier) -> Trust | None:
        """The trust that the catalog keeps."""
        return self._pointer(self._name(identifier))[1]

    def found(self, identifier: str | Identifier) -> tuple[Trust | None, V3TableMetadata]:
        """The metadata in the storage, whoever wrote them, and their trust; None if they are not encrypted."""
        location, _ = self._pointer(self._name(identifier))
        text = self._read(location)
        metadata = V3TableMetadata.from_json(text)
        return Trust.of(metadata, location, metadata_hash(text)), metadata

    def vouched_document(self, trusted: Trust, found: V3TableMetadata) -> dict[str, Any] | None:
        """The metadata that the catalog vouches for, as parsed JSON, if a file still has them unchanged.

        In Hive and Glue another tool may have changed the metadata location. Then the file is among the older files in
        the metadata log of the new metadata, in the same folder: the one with the trusted hash.
        """
        folder = trusted.metadata_location.rpartition("/")[0]
        older = [str(entry.metadata_file) for entry in reversed(found.metadata_log)]
        for location in (trusted.metadata_location, *(each for each in older if each.rpartition("/")[0] == folder)):
            with contextlib.suppress(OSError, ValueError):
                text = self._read(location)
                if trusted.metadata_hash is not None and metadata_hash(text) == trusted.metadata_hash:
                    return parse(text, location)
        return None

    def trust(self, identifier: str | Identifier, accepted: Trust | None) -> None:
        """Vouch for the metadata that `found` returned, if they are unchanged; refuses another key."""
        name = self._name(identifier)
        now, metadata = self.found(identifier)
        before = self.trusted(identifier)
        if before is not None and not before.same_keys(now):
            raise TrustError(other_keys(dotted(name), before, now))
        again = TrustError(
            f"the metadata of {dotted(name)} have changed again since they were shown. Look at them again before you "
            "trust them"
        )
        if accepted is None or now != accepted:
            raise again
        check_keys(metadata)
        if not self._vouch(name, accepted):
            raise again

    # -- names --------------------------------------------------------------------------------

    def _name(self, identifier: str | Identifier) -> Name:
        return Catalog.namespace_to_string(Catalog.namespace_from(identifier)), Catalog.table_name_from(identifier)

    def _new_name(self, identifier: str | Identifier) -> Name:
        """The name of a new table; PyIceberg's error if it is not valid."""
        return self._name(identifier)


def _raw_v3(text: bytes, location: str) -> dict[str, Any] | None:
    """The parsed metadata of a version 3 table; None for another version, which PyIceberg handles."""
    raw = parse_long(text, location)
    return raw if raw.get("format-version") == FORMAT_VERSION else None
