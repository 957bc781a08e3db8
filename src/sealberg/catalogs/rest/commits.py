"""Commits to a REST server: each response is compared with the request.

POST ──> response ──> losses? ──> revert the commit, UnsupportedError
                  └─> orphaned KEKs? ──> add them again
no response ──> load the table: is the commit in it? ──> success, otherwise CommitStateUnknownException
409, 400    ──> load the table: is the commit in it? (a proxy sent it twice) ──> success, otherwise a conflict
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyiceberg.catalog import TOKEN
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertTableUUID,
    UpgradeFormatVersionUpdate,
)
from requests import RequestException

from sealberg.catalogs.base import EncryptedCatalog, changed, response
from sealberg.catalogs.rest.pyiceberg_client import RestSeams
from sealberg.catalogs.rest.responses import Pins, landed, losses, orphaned, undoing
from sealberg.catalogs.rest.session import without_secrets
from sealberg.errors import FormatError, KeyringError, UnsupportedError
from sealberg.keys.keyring import RingDiff
from sealberg.metadata.invariants import check_keys, check_plain_updates
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata
from sealberg.metadata.updates import AddEncryptionKeyUpdate, key_updates, requirement_json, update_json
from sealberg.metadata.version_upgrade import version_first
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.cherrypick import AssertSnapshot
from sealberg.table.key_changes import AssertKeys
from sealberg.write.commit_outcome import CommitAttempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

    from sealberg.keys.keyring import EncryptedKey

Answer = dict[str, Any]
LOOKS_AFTER_S: Final = (0.0, 0.5, 2.0)  # after a gateway timeout the server may still be committing


class RestCommits(EncryptedCatalog, RestSeams):
    """Commits to the tables of a REST server, and creates."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        # The server cannot set the KMS, its credentials, or what is allowed: a KMS of the server's choice would give
        # new keys to the server.
        self._own = {key: value for key, value in properties.items() if isinstance(value, str)}
        self._pins = Pins(self._server)
        self._proven: set[UUID] = set()

    @property
    def _own_properties(self) -> Mapping[str, str]:
        return self._own

    @property
    def _server(self) -> str:
        """The server's name for messages, without secrets of the URL."""
        return f"the REST server {without_secrets(self.uri)}"

    def _check_key_id(self, name: Identifier, metadata: TableMetadata) -> None:
        self.policy.check_expected(name, metadata, self._server)
        self._pins.check(".".join(name), metadata)

    # -- commit -------------------------------------------------------------------------------

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
            done: CommitTableResponse = self._plain.commit_table(table, requirements, updates)
            return done
        name = table.name()
        with attempt.not_applied():
            current = self.load_table(name)
            if not isinstance(current, CatalogTable):
                raise NoSuchTableError(
                    f"Table {'.'.join(name)} was replaced by another process: it has format version "
                    f"{current.format_version}, expected 3. Load the table again"
                )
            self.policy.refuse_write(name, current.metadata)
            after = changed(current, requirements, updates)
            if after == current.metadata:
                return response(after, current.metadata_location)
            # These two are not words of the protocol.
            asked: tuple[Any, ...] = requirements
            sent = (need for need in asked if not isinstance(need, AssertKeys | AssertSnapshot))
            needs = (*sent, AssertTableUUID(uuid=after.table_uuid))
            checks = [each for need in asked if isinstance(need, AssertSnapshot) for each in need.updates]
        try:
            answer = self._post(
                name, needs, [*checks, *updates], current.config.get(TOKEN), CommitFailedException, attempt
            )
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
        """Commit the upgrade of a table of version 1 or 2 to version 3; the server makes the metadata."""
        name, uuid = table.name(), table.metadata.table_uuid
        needs = (*requirements, AssertTableUUID(uuid=uuid))
        updates = (*updates, UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT_VERSION}))
        try:
            answer = self._post(name, needs, updates, table.config.get(TOKEN), CommitFailedException, attempt)
        except CommitStateUnknownException as error:
            answer = self._look(name, error, lambda raw: uuid_of(raw) == uuid and raw["format-version"] == 3)
        if not is_v3(answer):
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
        """Send a commit; after any error but CommitStateUnknownException nothing was applied."""
        attempt = attempt or CommitAttempt()
        with attempt.not_applied():
            required = list({str(each): each for each in map(requirement_json, needs)}.values())
            sent = [update_json(update) for update in updates]
        try:
            answer = self.ask_commit(name, required, sent, token=token, conflict=conflict)
            answer["metadata"]["format-version"]
        except (CommitStateUnknownException, RequestException, ValueError, KeyError, TypeError) as error:
            raise CommitStateUnknownException(
                f"{self._server} did not say whether it committed {'.'.join(name)}, and may have: {error}. No file was "
                "deleted; load the table to see whether the commit was applied"
            ) from error
        except (RESTError, CommitFailedException, TableAlreadyExistsError, NoSuchTableError, NotImplementedError):
            with attempt.not_applied():
                raise
        return answer

    def _look(self, name: Identifier, unknown: Exception, is_ours: Callable[[Any], bool]) -> Answer:
        """Load the table until it has the commit. As in Java, a commit that is missing stays unknown: it may follow."""
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
        """A refused commit: applied already and sent twice by a proxy, in conflict with another one, or wrong."""
        with attempt.not_applied():
            answer = self.ask_load(current.name())
            snapshots = any(isinstance(update, AddSnapshotUpdate) for update in updates)
            if snapshots and landed(current.metadata, after, updates, answer["metadata"]):
                return answer
            if isinstance(refusal, BadRequestError) and answer.get("metadata-location") != current.metadata_location:
                # A commit to another branch has used the sequence number or the row ids; no requirement covers these.
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
            # If the commit is missing, a cache may have responded, or another process has removed it: no proof.
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
        """Add KEKs again that another process removed while this commit used them."""
        need = (AssertTableUUID(uuid=current.metadata.table_uuid),)
        adding = key_updates(RingDiff(added=keks, removed=()))
        try:
            answer = self._post(
                current.name(), need, adding, current.config.get(TOKEN), CommitFailedException, CommitAttempt()
            )
            check_keys(V3TableMetadata.from_raw(answer["metadata"]))
        except Exception as error:
            raise KeyringError(
                f"table {'.'.join(current.name())} has lost the KEK {', '.join(kek.key_id for kek in keks)}: another "
                "process removed it while this commit used it, and it could not be added again. The new snapshot "
                "cannot be read: roll back to the snapshot before it"
            ) from error
        return answer

    def _kept(self, name: Identifier) -> dict[str, Any] | None:
        """The metadata that the server stored, not those that it echoed; None if they cannot be loaded."""
        with contextlib.suppress(RESTError, NoSuchTableError, RequestException, ValueError, KeyError):
            found: dict[str, Any] = self.ask_load(name)["metadata"]
            return found
        return None

    def _refuse(self, name: Identifier, lost: Iterator[str] | list[str]) -> None:
        if missing := ", ".join(lost):
            raise UnsupportedError(
                f"{self._server} does not keep what table {'.'.join(name)} needs: {missing}. Use a server that "
                "supports encryption keys and format version 3"
            )

    @contextlib.contextmanager
    def _taken_back(self, undo: Callable[[], None], attempt: CommitAttempt) -> Iterator[None]:
        """Revert what the server did wrong; the files of the commit may be deleted only if that succeeded."""
        try:
            undo()
        except Exception:  # noqa: BLE001 (the error of the block is the one to report)
            yield
        else:
            with attempt.not_applied():
                yield

    def _take_back(self, current: CatalogTable, updates: Sequence[TableUpdate]) -> None:
        """Revert the branches and remove the snapshots of these updates."""
        needs, back, added = undoing(current.metadata, updates)
        answer = self._post(
            current.name(), needs, back, current.config.get(TOKEN), CommitFailedException, CommitAttempt()
        )
        left = {each["snapshot-id"] for each in answer["metadata"].get("snapshots") or []}
        if added & left:
            raise CommitStateUnknownException(f"{self._server} did not remove the snapshots {sorted(added & left)}")


def is_v3(answer: Answer) -> bool:
    if not isinstance(answer.get("metadata"), dict):
        raise FormatError("the answer of the REST server has no table metadata")
    return bool(answer["metadata"].get("format-version") == FORMAT_VERSION)


def uuid_of(raw: dict[str, Any]) -> UUID:
    return UUID(str(raw["table-uuid"]))
