"""A table and its first rows, created as one: nothing can be seen of it before, and all of it after.

create_table_transaction(...) ──> StagedCatalogTable ──append, evolve, ...──> metadata ──> one commit creates it

PyIceberg describes a new table as a list of updates to an empty one, which version 3 does not survive there.
Here the first metadata are made at once, and what the transaction adds is staged on top of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sealberg.table.catalog_table import CatalogTable
from sealberg.table.transaction import EncryptedTransaction
from sealberg.write.snapshot_builder import surely_not_committed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from sealberg.metadata.table_metadata import V3TableMetadata


class StagedCatalogTable(CatalogTable):
    """A table that is not there yet."""

    def refresh(self) -> NoReturn:
        raise ValueError("Cannot refresh a staged table")


class CreateTransaction(EncryptedTransaction):
    """A transaction whose commit creates its table, keys and trust included."""

    def __init__(self, table: StagedCatalogTable, create: Callable[[V3TableMetadata], None]) -> None:
        super().__init__(table)
        self._create = create
        self._created: Table | None = None

    def commit_transaction(self) -> Table:
        if self._created is None:
            self.refuse_if_dead()
            try:
                self._create(self.table_metadata)
            except BaseException as error:
                self.end(forget=surely_not_committed(error))
                raise
            self._created = self.sealed.catalog.load_table(self.sealed.name())
        return self._created
