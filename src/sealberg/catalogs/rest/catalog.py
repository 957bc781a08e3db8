"""REST catalogs: the server has the metadata, the client has the keys.

    load      GET: metadata with `encryption-keys` and `key-id`s from the response, never from the storage
    create    staged, checked, then created in one commit together with the first KEK
    commit    POST: keys, snapshot and branch in one request; the response is checked (`commits.py`)
    purge     by the client, which can open the manifests; the server cannot

The server is trusted with the metadata. These faults are detected nevertheless (`responses.py`):

    it drops keys or key ids, or creates version 2 ──> its response lacks them; the commit is reverted
    it changes a key id                            ──> refused by clients that know the first key id
    it does not respond                            ──> the table is loaded; if that shows nothing, no file is deleted
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.catalog import TOKEN, Catalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table.update import (
    AssertCreate,
)

from sealberg.catalogs.base import CreatedMeanwhileError
from sealberg.catalogs.new_places import NewPlace, always_unique, tables_of
from sealberg.catalogs.rest.commits import Answer, RestCommits, is_v3, uuid_of
from sealberg.catalogs.rest.keys import refuse_chosen_key, refuse_namespace_key
from sealberg.catalogs.rest.pyiceberg_client import MODE
from sealberg.catalogs.rest.responses import losses
from sealberg.errors import TrustError
from sealberg.files.locations import Location
from sealberg.keys.keyring import RingDiff
from sealberg.metadata.invariants import VERSION_PROPERTY, check_change, check_keys
from sealberg.metadata.metadata_file import max_bytes, read_text
from sealberg.metadata.schema_json import schema_json, sort_order_json, spec_json
from sealberg.metadata.storage_properties import warn_of
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata
from sealberg.metadata.trust import Trust, other_keys
from sealberg.metadata.updates import key_updates, making_updates
from sealberg.properties.table_names import check_table_properties
from sealberg.pyiceberg_private import staged_by
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.purge import purge
from sealberg.table.staged_table import CreateTransaction, StagedCatalogTable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.typedef import Identifier

    from sealberg.catalogs.base import NewTable
    from sealberg.write.commit_outcome import CommitAttempt


T = TypeVar("T", bound=CatalogTable)


class EncryptedRestCatalog(RestCommits):
    """PyIceberg's RestCatalog with encrypted tables."""

    # -- load ---------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = Catalog.identifier_to_tuple(identifier)
        mode = self.properties.get(MODE)
        if mode not in (None, "all", "refs"):
            raise ValueError(f"Invalid snapshot-loading-mode: {mode}")  # PyIceberg's own
        answer = self.ask_load(name, snapshots=mode)
        if mode == "refs" and is_v3(answer):
            answer = self.ask_load(name, snapshots="all")  # snapshots without a ref have keys and files too
        return self._table_of(name, answer)

    def _table_of(self, name: Identifier, answer: Answer) -> Table:
        if not is_v3(answer):
            plain = self.plain_table(name, answer)
            self._check_key_id(name, plain.metadata)
            return plain
        metadata = V3TableMetadata.from_raw(answer["metadata"])
        self._check_key_id(name, metadata)
        return self._sealed(CatalogTable, name, metadata, answer)

    def _sealed(self, kind: type[T], name: Identifier, metadata: V3TableMetadata, answer: Answer) -> T:
        location = answer.get("metadata-location") or metadata.location
        warn_of(".".join(name), self.properties, metadata.properties)
        inner = self.storage_of(name, answer, metadata.properties, location)
        encryption = self._encryption((".".join(name[:-1]), name[-1]), metadata)
        table = kind(name, metadata, location, inner, self, encryption)
        table.config = answer.get("config") or {}
        return table

    # -- create -------------------------------------------------------------------------------

    def _place(self, new: NewTable) -> str | None:
        name = Catalog.identifier_to_tuple(new.identifier)
        if len(name) < 2:
            raise NoSuchIdentifierError(f"Missing namespace or invalid identifier: {'.'.join(name)}")
        place = self._new_place(new, None)
        if new.location:
            new = replace(new, location=Location.parse(new.location, f"the location of {'.'.join(name)}").text)
        else:
            place.named(f"/{'/'.join(name)}")
        if new.is_v3:
            return new.location  # looked at when the server has said what it would create
        staged = staged_by(self._plain.create_table_transaction(*new.arguments))
        found = self._looked_at(new, staged.metadata.location, staged.io)
        return found if found != staged.metadata.location else new.location

    def _new_place(self, new: NewTable, io: FileIO | None) -> NewPlace:
        name = ".".join(Catalog.identifier_to_tuple(new.identifier))
        return NewPlace(name, lambda at: io or self._load_file_io(location=at), lambda: tables_of(self), new.wanted)

    def _looked_at(self, new: NewTable, location: str, io: FileIO) -> str:
        """The location that the server would give a new table, or another one if that holds anything."""
        place = self._new_place(new, io)
        if new.location:
            return place.given(location)
        return place.usual(location, unique=always_unique(self._own))

    def _create_v3(self, new: NewTable) -> Table:
        return self._create_v3_transaction(new).commit_transaction()

    def _create_v3_transaction(self, new: NewTable) -> Transaction:
        name = Catalog.identifier_to_tuple(new.identifier)
        check_table_properties(".".join(name), new.properties)
        staged = self._stage(name, new.metadata(new.location or ""))
        place = self._looked_at(new, staged.metadata.location, staged.inner)
        if place != staged.metadata.location:
            staged = self._stage(name, new.metadata(place))

        def create(created: V3TableMetadata, attempt: CommitAttempt) -> None:
            self._create(staged, created, transaction.staged_updates, attempt)

        transaction = CreateTransaction(staged, create)
        # The first KEK is made now, for the first snapshot: this detects a key id that the KMS does not know, and a
        # server that drops keys.
        kek = self._first_kek((".".join(name[:-1]), name[-1]), staged.metadata)
        if kek is not None:
            transaction.apply(key_updates(RingDiff(added=(kek,), removed=())))
        return transaction

    def _stage(self, name: Identifier, wanted: V3TableMetadata) -> StagedCatalogTable:
        """The staged table of the server, checked before it is created."""
        self._encryption((".".join(name[:-1]), name[-1]), wanted)  # refuses wrong settings before the request
        self._check_namespace(name)
        body = {
            "location": wanted.location.rstrip("/") or None,
            "schema": schema_json(wanted.schema()),
            "partition-spec": spec_json(wanted.spec()),
            "write-order": sort_order_json(wanted.sort_order()),
            "properties": {**wanted.properties, VERSION_PROPERTY: str(FORMAT_VERSION)},
        }
        answer = self.ask_stage(name, {key: value for key, value in body.items() if value is not None})
        raw = answer["metadata"]
        refuse_chosen_key(self._server, name, wanted, raw)
        self._refuse(name, losses(wanted.model_copy(update={"table_uuid": uuid_of(raw)}), (), raw))
        return self._sealed(StagedCatalogTable, name, V3TableMetadata.from_raw(raw), answer)

    def _create(
        self,
        staged: StagedCatalogTable,
        created: V3TableMetadata,
        more: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> None:
        name = staged.name()
        with attempt.not_applied():
            check_change(staged.metadata, created)
            updates = (*making_updates(staged.metadata), *more)
        token = staged.config.get(TOKEN)
        try:
            answer = self._post(name, (AssertCreate(),), updates, token, CreatedMeanwhileError, attempt)
        except CommitStateUnknownException as error:
            answer = self._look(name, error, lambda raw: str(uuid_of(raw)) == str(created.table_uuid))
        lost = [*losses(created, more, answer["metadata"])]
        if not lost and (kept := self._kept(name)) is not None:
            lost = [*losses(created, more, kept)]
        if lost:
            with self._taken_back(lambda: self.drop_table(name), attempt):
                self._refuse(name, lost)
        self._proven.add(created.table_uuid)

    def _namespace_key_id(self, namespace: Identifier) -> str | None:
        refuse_namespace_key(self._server, namespace, super()._namespace_key_id(namespace))
        return None

    # -- drop, purge, register ----------------------------------------------------------------

    def drop_table(self, identifier: str | Identifier, purge_requested: bool = False) -> None:
        if purge_requested:
            self.purge_table(identifier)
        else:
            super().drop_table(identifier)

    def purge_table(self, identifier: str | Identifier) -> None:
        table = self.load_table(identifier)
        if not isinstance(table, CatalogTable):
            super().drop_table(identifier, purge_requested=True)
            return
        purge(table, lambda: self.drop_table(identifier), vouched=self.vouches(table))

    def vouches(self, table: Table) -> bool:  # noqa: ARG002 (the server stores the metadata of every table)
        return True

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Register a table with existing metadata; the caller vouches for the metadata."""
        name = Catalog.identifier_to_tuple(identifier)
        Location.parse(metadata_location, "the metadata file")
        self._check_namespace(name)
        if overwrite:
            self._refuse_other_keys(name, metadata_location)
        answer = self.ask_register(name, metadata_location, overwrite=overwrite)
        try:
            table = self._table_of(name, answer)
            self.policy.admit(name, table.metadata.properties)
            if isinstance(table, CatalogTable):
                check_keys(table.metadata)
        except Exception:
            if not overwrite:  # this call has just created the entry
                self.drop_table(name)
            raise
        return table

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        self._admit_renamed(from_identifier, to_identifier)
        renamed: Table = super().rename_table(from_identifier, to_identifier)
        return renamed

    def _refuse_other_keys(self, name: Identifier, location: str) -> None:
        try:
            before = self.load_table(name)
        except NoSuchTableError:
            return
        if not isinstance(before, CatalogTable) or (trust := Trust.of(before.metadata, location, "")) is None:
            return
        now = V3TableMetadata.from_json(read_text(before.inner.new_input(location), max_bytes(self.properties)))
        if not trust.same_keys(Trust.of(now, location, "")):
            raise TrustError(other_keys(".".join(name), trust, Trust.of(now, location, "")))

    def _check_namespace(self, name: Identifier) -> None:
        # Some servers do not check the namespace.
        if not self.namespace_exists(name[:-1]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name[:-1])}")
