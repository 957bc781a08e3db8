"""The type of a catalog that keeps trust records: which metadata of each encrypted table it vouches for.

    catalog = sealberg.load_catalog("prod")
    if isinstance(catalog, TrustingCatalog):
        catalog.trusted("hr.salaries")     what the catalog vouches for
        catalog.found("hr.salaries")       what is in storage now

SQL, Hive and Glue catalogs are such catalogs. A REST catalog is not: its server vouches for the tables.
This module imports nothing of PyIceberg, so that programs and commands can name the type for free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.metadata.trust import Trust


@runtime_checkable
class TrustingCatalog(Protocol):
    """A catalog with a trust record per encrypted table: key id, key length, metadata location and hash."""

    @property
    def name(self) -> str: ...

    def trusted(self, identifier: str | Identifier) -> Trust | None:
        """The trust record; None where the table has none because it is not encrypted."""

    def found(self, identifier: str | Identifier) -> tuple[Trust | None, V3TableMetadata]:
        """The metadata in storage and the trust record that they would have; None where they are not encrypted."""

    def vouched_document(self, trusted: Trust, found: V3TableMetadata) -> dict[str, Any] | None:
        """The metadata that the trust record is about, as parsed JSON, if a file still holds them unchanged."""

    def trust(self, identifier: str | Identifier, accepted: Trust | None) -> None:
        """Vouch for what `found` returned; TrustError if that has changed since, or has another key."""
