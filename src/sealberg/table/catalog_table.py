"""A version 3 table of a catalog: it can be changed, and every change goes through `EncryptedTransaction`.

    TransactionalCatalog    a catalog that can commit such a table
    CatalogTable            the table

Several methods of PyIceberg's `Table` make a PyIceberg Transaction; all of them are overridden here.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.table.maintenance import MaintenanceTable
from pyiceberg.table.update.sorting import UpdateSortOrder

from sealberg.files.file_io import EncryptingFileIO, allowances
from sealberg.metadata.invariants import refuse_plaintext
from sealberg.pyiceberg_private import adopt
from sealberg.table.base import EncryptedTable
from sealberg.table.cherrypick import EncryptedManageSnapshots
from sealberg.table.expiry import EncryptedExpireSnapshots
from sealberg.table.transaction import EncryptedTransaction
from sealberg.write.commit_outcome import CommitAttempt

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.table.update.schema import UpdateSchema
    from pyiceberg.table.update.spec import UpdateSpec
    from pyiceberg.table.update.statistics import UpdateStatistics
    from pyiceberg.typedef import Identifier

    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.write.retry import Turn


class TransactionalCatalog(Catalog):
    """A catalog that says what became of a commit that failed."""

    @abstractmethod
    def commit(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        attempt: CommitAttempt,
    ) -> CommitTableResponse:
        """Commit; if it fails, `attempt` knows whether it was applied."""

    @abstractmethod
    def vouches(self, table: Table) -> bool:
        """Whether the catalog vouches for all metadata of a table: it stores them, or a hash of them."""

    def turn(self) -> Turn | None:
        """The lock for which writers queue after a conflict, where the catalog has one."""
        return None


def _is_commit_table_replaced(catalog: TransactionalCatalog) -> bool:
    """Has the user put a `commit_table` of his own into the catalog? PyIceberg's tables commit by that method."""
    return "commit_table" in vars(catalog) or not type(catalog).commit_table.__module__.startswith("sealberg.")


class CatalogTable(EncryptedTable):
    """A version 3 table of a catalog; `encryption` is None if the table is not encrypted."""

    catalog: TransactionalCatalog

    def __init__(
        self,
        identifier: Identifier,
        metadata: V3TableMetadata,
        metadata_location: str,
        inner: FileIO,
        catalog: TransactionalCatalog,
        encryption: EncryptionManager | None,
    ) -> None:
        if encryption is None:
            refuse_plaintext(".".join(identifier), metadata)
        self.encryption = encryption
        self.inner = inner
        # From the catalog's configuration only: whoever can write table metadata must not be able to allow this.
        self.allowed = allowances(catalog.properties)
        super().__init__(identifier, metadata, metadata_location, self.io_for(metadata), catalog)

    def io_for(self, metadata: V3TableMetadata) -> FileIO:
        """A FileIO that opens the snapshots of these metadata."""
        if self.encryption is None:
            return self.inner
        return EncryptingFileIO(
            self.inner,
            partial(self.encryption.open_list_key, metadata.encryption_keys),
            **self.allowed,
        )

    def refresh(self) -> Table:
        super().refresh()
        # With the FileIO that the catalog gives now: earlier vended credentials may have expired.
        self.inner = self.io.inner if isinstance(self.io, EncryptingFileIO) else self.io
        self.io = self.io_for(self.metadata)
        return self

    def commit(
        self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...], attempt: CommitAttempt
    ) -> None:
        """Commit to the catalog, and be the table that it answers with."""
        if _is_commit_table_replaced(self.catalog):
            adopt(self, self.catalog.commit_table(self, requirements, updates))
        else:
            adopt(self, self.catalog.commit(self, requirements, updates, attempt))
        self.io = self.io_for(self.metadata)  # the new snapshot's key is in the new metadata

    def _do_commit(self, updates: tuple[Any, ...], requirements: tuple[Any, ...]) -> None:
        self.commit(updates, requirements, CommitAttempt())

    # -- changes ------------------------------------------------------------------------------

    def transaction(self) -> EncryptedTransaction:
        return EncryptedTransaction(self)

    def transaction_at_once(self) -> EncryptedTransaction:
        """A transaction in which each change is committed by itself."""
        return self._at_once()

    def _at_once(self) -> EncryptedTransaction:
        return EncryptedTransaction(self, autocommit=True)

    @property
    def maintenance(self) -> MaintenanceTable:
        return _Maintenance(self)

    def manage_snapshots(self) -> EncryptedManageSnapshots:
        return EncryptedManageSnapshots(self._at_once())

    def update_statistics(self) -> UpdateStatistics:
        return self._at_once().update_statistics()

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        return self._at_once().update_schema(allow_incompatible_changes, case_sensitive)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        return UpdateSortOrder(self._at_once(), case_sensitive=case_sensitive)

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        return self._at_once().update_spec(case_sensitive)


class _Maintenance(MaintenanceTable):
    def expire_snapshots(self) -> EncryptedExpireSnapshots:
        assert isinstance(self.tbl, CatalogTable)
        return EncryptedExpireSnapshots(EncryptedTransaction(self.tbl, autocommit=True))
