"""The table and the state of its catalog, read together before anything is checked.

catalog: metadata location, hash, key id ──┐
storage: metadata.json                   ──┴──> TableState, or the error that stopped it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchTableError

from sealberg.catalogs.trusting import TrustingCatalog
from sealberg.errors import NothingThereError, SealbergError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.jobs.findings import SnapshotFacts, TableFacts
from sealberg.jobs.selection import shown
from sealberg.keys.file_key import DEFAULT_KEY_LENGTH, KEY_LENGTH_PROPERTY
from sealberg.keys.keyring import KEK_LIFESPAN_MS
from sealberg.keys.manager import KEY_ID_PROPERTY, EncryptionManager
from sealberg.metadata.metadata_file import max_bytes, read_text
from sealberg.metadata.table_metadata import V3TableMetadata, metadata_hash
from sealberg.table.base import EncryptedTable
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from sealberg.jobs.findings import Vouching
    from sealberg.metadata.trust import Trust

TRIES: Final = 3


@dataclass(frozen=True)
class TableState:
    """A loaded table, or the error that stopped its loading.

    Attributes:
        table: None if the table could not be loaded.
        trusted: the trust record of the catalog; None for catalogs without trust records and for plain tables.
        digest: the hash of the text of metadata.json, as the catalog computes it.
    """

    name: str
    table: Table | None = field(repr=False)
    trusted: Trust | None = None
    vouched_by: Vouching = "nobody"
    digest: str | None = None
    error: Exception | None = None

    @property
    def encrypted(self) -> EncryptedTable | None:
        """The table, if it is encrypted."""
        table = self.table
        return table if isinstance(table, EncryptedTable) and isinstance(table.io, EncryptingFileIO) else None

    @property
    def metadata(self) -> V3TableMetadata:
        assert self.encrypted is not None
        return self.encrypted.metadata

    @property
    def io(self) -> EncryptingFileIO:
        """A FileIO that reads also files that break the rules, so that the rest of the table can be checked."""
        assert self.encrypted is not None
        own = self.encrypted.io
        assert isinstance(own, EncryptingFileIO)
        return EncryptingFileIO(own.inner, own.open_list_key, allow_plaintext=True, allow_missing_length=True)

    @property
    def storage(self) -> FileIO:
        """The FileIO below, which knows no keys."""
        return self.io.inner

    @property
    def kek_lifespan_ms(self) -> int:
        owner = self.table.encryption if isinstance(self.table, CatalogTable) else self.io.open_list_key
        manager = owner if isinstance(owner, EncryptionManager) else getattr(owner, "manager", None)
        return manager.settings.kek_lifespan_ms if isinstance(manager, EncryptionManager) else KEK_LIFESPAN_MS

    def facts(self, checked: frozenset[int] = frozenset(), **more: Any) -> TableFacts:
        """The facts for the result; `checked` are the snapshots that were checked."""
        if self.table is None:
            known = self.trusted
            where, key_id = (known.metadata_location, known.key_id) if known is not None else ("", None)
            saved = None if known is None else known.metadata_hash
            encrypted = known is not None
            return TableFacts(
                self.name, "", "", encrypted, key_id, None, where, self.digest, saved, self.vouched_by, None
            )
        metadata = self.table.metadata
        properties: Mapping[str, str] = metadata.properties
        by_snapshot: dict[int, list[str]] = {}
        for name, ref in metadata.refs.items():
            by_snapshot.setdefault(ref.snapshot_id, []).append(name)
        snapshots = tuple(
            SnapshotFacts(
                snapshot.snapshot_id,
                snapshot.timestamp_ms,
                None if snapshot.summary is None else str(snapshot.summary.operation.value),
                getattr(snapshot, "key_id", None),
                tuple(sorted(by_snapshot.get(snapshot.snapshot_id, ()))),
                snapshot.snapshot_id in checked,
            )
            for snapshot in metadata.snapshots
        )
        encrypted = self.encrypted is not None
        length = properties.get(KEY_LENGTH_PROPERTY, str(DEFAULT_KEY_LENGTH))
        return TableFacts(
            self.name,
            metadata.location,
            str(metadata.table_uuid),
            encrypted,
            properties.get(KEY_ID_PROPERTY),
            int(length) if encrypted and length.isdigit() else None,
            self.table.metadata_location,
            self.digest,
            None if self.trusted is None else self.trusted.metadata_hash,
            self.vouched_by,
            metadata.current_snapshot_id,
            snapshots,
            **more,
        )


def load(catalog: Catalog, identifier: str | Identifier) -> TableState:
    """Load a table. An error of the table is part of the state; a name that no table has is a ConfigError."""
    name = identifier if isinstance(identifier, str) else shown(identifier)
    trusted: Trust | None = None
    for _ in range(TRIES):
        try:
            trusted = catalog.trusted(identifier) if isinstance(catalog, TrustingCatalog) else None
            table = catalog.load_table(identifier)
        except NoSuchTableError as error:
            raise NothingThereError(f"no table {name} in the catalog {catalog.name}") from error
        except (SealbergError, OSError) as error:
            by: Vouching = "hash" if trusted is not None and trusted.metadata_hash else "location"
            return TableState(name, None, trusted, by, None, error)
        if trusted is None or trusted.metadata_location == table.metadata_location:
            break  # otherwise somebody has committed between the two calls
    return _state(name, table, trusted, isinstance(catalog, TrustingCatalog))


def reloaded(state: TableState) -> TableState | None:
    """The state of the table as it is now; None if it has not changed, or cannot be loaded again."""
    table = state.table
    if not isinstance(table, CatalogTable):
        return None
    try:
        found = load(table.catalog, table.name())
    except NothingThereError:
        return None  # it was dropped
    changed = found.table is not None and found.table.metadata_location != table.metadata_location
    return found if changed and found.name == state.name else None


def of_table(table: Table) -> TableState:
    """The state of a table that is open already; nobody vouches for a table without a catalog."""
    if isinstance(table, CatalogTable):
        return load(table.catalog, table.name())
    name = table.name()[-1] if table.name()[:1] == ("static-table",) else shown(table.name())
    return _state(name, table, None, trusting=True, vouched_by="nobody")


def _state(
    name: str, table: Table, trusted: Trust | None, trusting: bool, vouched_by: Vouching | None = None
) -> TableState:
    if vouched_by is None:
        hashed = trusted is not None and trusted.metadata_hash is not None
        vouched_by = ("hash" if hashed else "location") if trusting else "server"
    digest = None
    if isinstance(table, EncryptedTable):
        # A REST server sends the metadata itself; the file in storage is a copy that nobody reads.
        digest = _digest(table) if trusting else table.metadata.metadata_hash()
    return TableState(name, table, trusted, vouched_by, digest)


def _digest(table: EncryptedTable) -> str | None:
    try:
        file = table.io.new_input(table.metadata_location)
        return metadata_hash(read_text(file, max_bytes(table.catalog.properties)))
    except (SealbergError, OSError):
        return None  # it was read a moment ago; the difference to the catalog's hash is a finding
