"""REST catalogs: the server has the metadata, the client has the keys.

    load      GET: metadata with `encryption-keys` and `key-id`s from the answer, never from storage
    create    staged, looked at, then created in one commit together with the first KEK
    commit    POST: keys, snapshot and branch in one request, and a look at what came back
    purge     by the client, which can open the manifests; the server cannot

What the server is trusted with, and what is found out nevertheless (`rest_answers`):

    it drops keys or key ids, or makes version 2 ──> found in its answer; the commit is taken back
    it changes a key id                          ──> refused by whoever knows the first one
    it does not answer                           ──> looked up; if that does not tell, nothing is deleted
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from pyiceberg.catalog import TOKEN, Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse, Table, TableProperties
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertTableUUID,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.typedef import EMPTY_DICT
from requests import RequestException

from sealberg.catalogs.base import CreatedMeanwhileError, EncryptedCatalog, changed, first_metadata, response
from sealberg.catalogs.rest.keys import refuse_chosen_key, refuse_namespace_key
from sealberg.catalogs.rest.pyiceberg_client import MODE, RestSeams
from sealberg.catalogs.rest.responses import Pins, landed, losses, orphaned, undoing
from sealberg.errors import FormatError, KeyringError, TrustError, UnsupportedError
from sealberg.keys.keyring import RingDiff
from sealberg.metadata.invariants import VERSION_PROPERTY, check_change, check_keys, check_plain_updates, format_version
from sealberg.metadata.metadata_file import max_bytes, read_text
from sealberg.metadata.schema_json import schema_json, sort_order_json, spec_json
from sealberg.metadata.storage_properties import warn_of
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata
from sealberg.metadata.trust import Trust, other_keys
from sealberg.metadata.updates import AddEncryptionKeyUpdate, key_updates, making_updates, requirement_json, update_json
from sealberg.metadata.version_upgrade import version_first
from sealberg.properties import check_table_properties
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.purge import purge
from sealberg.table.staged_table import CreateTransaction, StagedCatalogTable
from sealberg.write.commit_outcome import CommitAttempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from sealberg.keys.keyring import EncryptedKey

T = TypeVar("T", bound=CatalogTable)
Answer = dict[str, Any]
LOOKS_AFTER_S: Final = (0.0, 0.5, 2.0)  # a server behind a gateway that gave up may still be committing


class EncryptedRestCatalog(EncryptedCatalog, RestSeams):
    """PyIceberg's RestCatalog with encrypted tables."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        # Which KMS is asked and with whose credentials, and what is let through, is the client's alone: an endpoint of
        # the server's choice would wrap new keys for the server.
        self._own = {key: value for key, value in properties.items() if isinstance(value, str)}
        self._pins = Pins(self._server)
        self._proven: set[UUID] = set()

    @property
    def _own_properties(self) -> Mapping[str, str]:
        return self._own

    @property
    def _server(self) -> str:
        """The server's name for messages, without what may be secret in a URL."""
        parts = urlsplit(self.uri)
        return f"the REST server {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    # -- load ---------------------------------------------------------------------------------

    def load_table(self, identifier: str | Identifier) -> Table:
        name = Catalog.identifier_to_tuple(identifier)
        mode = self.properties.get(MODE)
        if mode not in (None, "all", "refs"):
            raise ValueError(f"Invalid snapshot-loading-mode: {mode}")
        answer = self.ask_load(name, snapshots=mode)
        if mode == "refs" and _is_v3(answer):
            answer = self.ask_load(name, snapshots="all")  # a snapshot that is not shown has a key and files too
        return self._table_of(name, answer)

    def _table_of(self, name: Identifier, answer: Answer) -> Table:
        if not _is_v3(answer):
            plain = self.plain_table(name, answer)
            self._check_key_id(name, plain.metadata)
            return plain
        metadata = V3TableMetadata.from_raw(answer["metadata"])
        self._check_key_id(name, metadata)
        return self._sealed(CatalogTable, name, metadata, answer)

    def _check_key_id(self, name: Identifier, metadata: TableMetadata) -> None:
        self.policy.check_expected(name, metadata, self._server)
        self._pins.check(".".join(name), metadata)

    def _sealed(self, kind: type[T], name: Identifier, metadata: V3TableMetadata, answer: Answer) -> T:
        location = answer.get("metadata-location") or metadata.location
        warn_of(".".join(name), self.properties, metadata.properties)
        inner = self.storage_of(name, answer, metadata.properties, location)
        encryption = self._encryption((".".join(name[:-1]), name[-1]), metadata)
        table = kind(name, metadata, location, inner, self, encryption)
        table.config = answer.get("config") or {}
        return table

    # -- create -------------------------------------------------------------------------------

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        properties = self._properties_of_new(identifier, properties)
        about = (identifier, schema, location, partition_spec, sort_order, properties)
        if format_version(properties, TableProperties.DEFAULT_FORMAT_VERSION) < FORMAT_VERSION:
            made: Table = super().create_table(*about)
            return made
        return self.create_table_transaction(*about).commit_transaction()

    def create_table_transaction(  # type: ignore[override]  # PyIceberg's own transaction cannot write version 3
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Transaction:
        properties = self._properties_of_new(identifier, properties)
        about = (identifier, schema, location, partition_spec, sort_order, properties)
        if format_version(properties, TableProperties.DEFAULT_FORMAT_VERSION) < FORMAT_VERSION:
            plain: Transaction = super().create_table_transaction(*about)
            return plain
        name = Catalog.identifier_to_tuple(identifier)
        if len(name) < 2:
            raise NoSuchIdentifierError(f"Missing namespace or invalid identifier: {'.'.join(name)}")
        check_table_properties(".".join(name), properties)
        staged = self._stage(name, first_metadata(schema, location or "", partition_spec, sort_order, properties))

        def create(created: V3TableMetadata, attempt: CommitAttempt) -> None:
            self._create(staged, created, transaction.staged_updates, attempt)

        transaction = CreateTransaction(staged, create)
        # The KEK that the first snapshot will need. A key id that the KMS does not know is found out by it now, and a
        # server that does not keep it when the table is created.
        kek = self._first_kek((".".join(name[:-1]), name[-1]), staged.metadata)
        if kek is not None:
            transaction.apply(key_updates(RingDiff(added=(kek,), removed=())))
        return transaction

    def _stage(self, name: Identifier, wanted: V3TableMetadata) -> StagedCatalogTable:
        """The table that the server would make; it is looked at before there is anything of it."""
        self._encryption((".".join(name[:-1]), name[-1]), wanted)  # what cannot be right is refused here
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
        self._refuse(name, losses(wanted.model_copy(update={"table_uuid": _uuid_of(raw)}), (), raw))
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
            answer = self._look(name, error, lambda raw: str(_uuid_of(raw)) == str(created.table_uuid))
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

    # -- commit -------------------------------------------------------------------------------

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        return self.commit(table, requirements, updates, CommitAttempt())

    def commit(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        with attempt.not_applied():
            self.policy.refuse_write(table.name(), table.metadata)
            if table.metadata.format_version < FORMAT_VERSION:
                before = None if AssertCreate() in requirements else table.metadata
                check_plain_updates(before, updates)
                updates, upgrades = version_first(updates, before)
        if table.metadata.format_version < FORMAT_VERSION:
            if upgrades:
                return self._upgrade(table, requirements, updates, attempt)
            done: CommitTableResponse = super().commit_table(table, requirements, updates)
            return done
        name = table.name()
        with attempt.not_applied():
            current = self.load_table(name)
            if not isinstance(current, CatalogTable):
                raise NoSuchTableError(f"Table is not of version 3 any more: {'.'.join(name)}")
            self.policy.refuse_write(name, current.metadata)
            after = changed(current, requirements, updates)
            if after == current.metadata:
                return response(after, current.metadata_location)
            needs = (*requirements, AssertTableUUID(uuid=after.table_uuid))
        try:
            answer = self._post(name, needs, updates, current.config.get(TOKEN), CommitFailedException, attempt)
        except CommitStateUnknownException as error:
            answer = self._look(name, error, lambda raw: landed(current.metadata, after, updates, raw))
        except (CommitFailedException, BadRequestError) as error:
            answer = self._after_refusal(current, after, updates, error, attempt)
        return self._checked(current, after, updates, answer, attempt)

    def _upgrade(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        """A commit after which a table of version 1 or 2 is one of version 3; the server makes the metadata."""
        name, uuid = table.name(), table.metadata.table_uuid
        needs = (*requirements, AssertTableUUID(uuid=uuid))
        updates = (*updates, UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT_VERSION}))
        try:
            answer = self._post(name, needs, updates, table.config.get(TOKEN), CommitFailedException, attempt)
        except CommitStateUnknownException as error:
            answer = self._look(name, error, lambda raw: _uuid_of(raw) == uuid and raw["format-version"] == 3)
        if not _is_v3(answer):
            self._refuse(name, [f"format version 3 (it says {answer['metadata'].get('format-version')})"])
        return response(V3TableMetadata.from_raw(answer["metadata"]), answer.get("metadata-location") or "")

    def _post(
        self,
        name: Identifier,
        needs: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        token: str | None,
        conflict: type[Exception],
        attempt: CommitAttempt | None = None,
    ) -> Answer:
        """CommitStateUnknownException where nobody knows; every other error says that it did not happen."""
        attempt = attempt or CommitAttempt()
        with attempt.not_applied():
            required = list({str(each): each for each in map(requirement_json, needs)}.values())
            sent = [update_json(update) for update in updates]
        try:
            answer = self.ask_commit(name, required, sent, token=token, conflict=conflict)
            answer["metadata"]["format-version"]
        except (CommitStateUnknownException, RequestException, ValueError, KeyError, TypeError) as error:
            raise CommitStateUnknownException(
                f"{self._server} did not say whether it committed {'.'.join(name)}, and may have: {error}"
            ) from error
        except (RESTError, CommitFailedException, TableAlreadyExistsError, NoSuchTableError, NotImplementedError):
            with attempt.not_applied():
                raise
        return answer

    def _look(self, name: Identifier, unknown: Exception, is_ours: Callable[[Any], bool]) -> Answer:
        """Is it there after all? As in Java, what is not there yet may still come, so that stays unknown."""
        for pause in LOOKS_AFTER_S:
            time.sleep(pause)
            with contextlib.suppress(RESTError, NoSuchTableError, RequestException, ValueError, KeyError):
                answer = self.ask_load(name)
                if is_ours(answer["metadata"]):
                    return answer
        raise unknown

    def _after_refusal(
        self,
        current: CatalogTable,
        after: V3TableMetadata,
        updates: Sequence[TableUpdate],
        refusal: Exception,
        attempt: CommitAttempt,
    ) -> Answer:
        """A refused commit: sent twice by something in between and refused the second time, outrun, or wrong."""
        with attempt.not_applied():
            answer = self.ask_load(current.name())
            snapshots = any(isinstance(update, AddSnapshotUpdate) for update in updates)
            if snapshots and landed(current.metadata, after, updates, answer["metadata"]):
                return answer
            if isinstance(refusal, BadRequestError) and answer.get("metadata-location") != current.metadata_location:
                # A sequence number or a row id that another branch has used: no requirement speaks of it.
                raise CommitFailedException(f"Table has been updated by another process: {refusal}") from refusal
            raise refusal

    def _checked(
        self,
        current: CatalogTable,
        after: V3TableMetadata,
        updates: Sequence[TableUpdate],
        answer: Answer,
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        name = current.name()
        lost = [*losses(after, updates, answer["metadata"])]
        grows = any(isinstance(update, AddSnapshotUpdate | AddEncryptionKeyUpdate) for update in updates)
        if not lost and grows and after.table_uuid not in self._proven:
            kept = self._kept(name)
            # Not there at all: an older answer of a cache, or somebody has removed it since. That proves nothing.
            if kept is not None and landed(current.metadata, after, updates, kept):
                lost = [*losses(after, updates, kept)]
        if lost:
            with self._taken_back(lambda: self._take_back(current, updates), attempt):
                self._refuse(name, lost)
        if keks := orphaned(after, updates, answer["metadata"]):
            answer = self._put_back(current, keks)
        if grows:
            self._proven.add(after.table_uuid)
        metadata = V3TableMetadata.from_raw(answer["metadata"])
        self._check_key_id(name, metadata)
        check_keys(metadata)
        return response(metadata, answer.get("metadata-location") or current.metadata_location)

    def _put_back(self, current: CatalogTable, keks: tuple[EncryptedKey, ...]) -> Answer:
        """Enter keys again that somebody removed while a snapshot was committed which needs them."""
        need = (AssertTableUUID(uuid=current.metadata.table_uuid),)
        adding = key_updates(RingDiff(added=keks, removed=()))
        try:
            answer = self._post(
                current.name(), need, adding, current.config.get(TOKEN), CommitFailedException, CommitAttempt()
            )
            check_keys(V3TableMetadata.from_raw(answer["metadata"]))
        except Exception as error:
            raise KeyringError(
                f"table {'.'.join(current.name())} has lost the key {', '.join(kek.key_id for kek in keks)}: another "
                "process removed it while a snapshot was committed that needs it, and it could not be put back"
            ) from error
        return answer

    def _kept(self, name: Identifier) -> dict[str, Any] | None:
        """The metadata that the server keeps, not those that it echoed; a failure here is none of the commit."""
        with contextlib.suppress(RESTError, NoSuchTableError, RequestException, ValueError, KeyError):
            found: dict[str, Any] = self.ask_load(name)["metadata"]
            return found
        return None

    def _refuse(self, name: Identifier, lost: Iterator[str] | list[str]) -> None:
        if missing := ", ".join(lost):
            raise UnsupportedError(f"{self._server} does not keep what table {'.'.join(name)} needs: {missing}")

    @contextlib.contextmanager
    def _taken_back(self, undo: Callable[[], None], attempt: CommitAttempt) -> Iterator[None]:
        """Undo what the server did wrong; only if that is done for certain, its files may be deleted."""
        try:
            undo()
        except Exception:  # noqa: BLE001 (what the server did wrong matters more)
            yield
        else:
            with attempt.not_applied():
                yield

    def _take_back(self, current: CatalogTable, updates: Sequence[TableUpdate]) -> None:
        """Leave the branches where they were, without the snapshots of these updates."""
        needs, back, added = undoing(current.metadata, updates)
        answer = self._post(
            current.name(), needs, back, current.config.get(TOKEN), CommitFailedException, CommitAttempt()
        )
        left = {each["snapshot-id"] for each in answer["metadata"].get("snapshots") or []}
        if added & left:
            raise CommitStateUnknownException(f"{self._server} did not take back {sorted(added & left)}")

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
        purge(table, lambda: self.drop_table(identifier))

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Have the server enter a table whose metadata are already there; whoever calls this vouches for them."""
        name = Catalog.identifier_to_tuple(identifier)
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
            if not overwrite:  # nobody else can have it yet
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
        # Some servers look only at the name of the table.
        if not self.namespace_exists(name[:-1]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name[:-1])}")


def _is_v3(answer: Answer) -> bool:
    if not isinstance(answer.get("metadata"), dict):
        raise FormatError("the answer of the REST server has no table metadata")
    return bool(answer["metadata"].get("format-version") == FORMAT_VERSION)


def _uuid_of(raw: dict[str, Any]) -> UUID:
    return UUID(str(raw["table-uuid"]))
