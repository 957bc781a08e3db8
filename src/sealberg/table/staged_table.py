"""Creates a table and its first rows in one commit.

create_table_transaction(...) ──> StagedCatalogTable ──append, evolve, ...──> metadata ──> one commit creates it

PyIceberg makes a new table from a list of updates to empty metadata, which it cannot do for version 3. Here the first
metadata are made at once, and the transaction stages its updates on top of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sealberg.table.catalog_table import CatalogTable
from sealberg.table.transaction import EncryptedTransaction
from sealberg.write.commit_outcome import CommitAttempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from sealberg.metadata.table_metadata import V3TableMetadata


class StagedCatalogTable(CatalogTable):
    """A table that is not committed yet."""

    def refresh(self) -> NoReturn:
        raise ValueError("Cannot refresh a staged table")


class CreateTransaction(EncryptedTransaction):
    """A transaction whose commit creates its table, keys and trust included."""

    def __init__(self, table: StagedCatalogTable, create: Callable[[V3TableMetadata, CommitAttempt], None]) -> None:
        super().__init__(table)
        self._create = create
        self._created: Table | None = None

    def commit_transaction(self) -> Table:
        if self._created is None:
            self.refuse_if_dead()
            self._dead = True  # unless it succeeds
            attempt = CommitAttempt()
            with self._forgetting_files(attempt):
                self._create(self.table_metadata, attempt)
            self._dead = False
            self._created = self.sealed.catalog.load_table(self.sealed.name())
        return self._created
