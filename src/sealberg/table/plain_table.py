"""A table of version 1 or 2: PyIceberg's own, without the properties that name code.

    load      properties that name code are taken out, so that no part of PyIceberg can import that code
    commit    a catalog that writes metadata.json itself puts them back (`restored`), for tools that need them

They are taken out of the metadata, because PyIceberg reads table properties in many places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError as PydanticValidationError
from pyiceberg.exceptions import ValidationError
from pyiceberg.table import StagedTable, StaticTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import SetPropertiesUpdate

import sealberg.metadata.bounded_decoder  # noqa: F401 (PyIceberg reads the manifests of these tables with it)
from sealberg.errors import FormatError
from sealberg.files.file_io import naming
from sealberg.metadata.invariants import VERSION_PROPERTY, refuse_plaintext
from sealberg.metadata.snapshot_refs import check_refs
from sealberg.metadata.spec_sources import check_sources
from sealberg.metadata.storage_properties import location_provider, names_code, warn_of, without_code
from sealberg.metadata.table_metadata import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


class PlainTable(Table):
    """A table of version 1 or 2 of a catalog. `code_properties` are the properties that were taken out."""

    code_properties: Mapping[str, str]

    def __init__(self, identifier: Any, metadata: TableMetadata, *args: Any, **kwargs: Any) -> None:
        super().__init__(identifier, metadata, *args, **kwargs)
        self._take_out()

    def _take_out(self) -> None:
        refuse_plaintext(".".join(self.name()), self.metadata)
        warn_of(".".join(self.name()), self.catalog.properties, self.metadata.properties)
        self.code_properties = {key: value for key, value in self.metadata.properties.items() if names_code(key)}
        self.metadata = harmless(self.metadata, self.catalog.properties)

    def _do_commit(self, updates: tuple[Any, ...], requirements: tuple[Any, ...]) -> None:
        super()._do_commit(updates, requirements)
        if not self._became_version_3():
            self._take_out()

    def refresh(self) -> Table:
        super().refresh()
        self._became_version_3()
        return self

    def _became_version_3(self) -> bool:
        """Change the class of an upgraded table, because PyIceberg's own writers cannot write version 3."""
        if self.metadata.format_version < FORMAT_VERSION:
            return False
        upgraded = self.catalog.load_table(self.name())
        self.__class__ = type(upgraded)  # type: ignore[assignment]
        self.__dict__ = upgraded.__dict__
        return True

    def transaction(self) -> Transaction:
        return PlainTransaction(self)

    def location_provider(self) -> LocationProvider:
        return location_provider(self.metadata.location, self.metadata.properties, self.catalog.properties)


class PlainTransaction(Transaction):
    """PyIceberg's own transaction, if the configuration allows writes; it can upgrade to version 3."""

    def __init__(self, table: Table, autocommit: bool = False) -> None:
        policy = getattr(table.catalog, "policy", None)
        if policy is not None:
            policy.refuse_write(table.name(), table.metadata)
        super().__init__(table, autocommit)

    def upgrade_table_version(self, format_version: Any) -> Transaction:
        if format_version != FORMAT_VERSION:
            return super().upgrade_table_version(format_version)
        return self.set_properties({VERSION_PROPERTY: str(FORMAT_VERSION)})


class PlainStaticTable(StaticTable):
    """A table of version 1 or 2 without a catalog."""

    def __init__(self, identifier: Any, metadata: TableMetadata, *args: Any, **kwargs: Any) -> None:
        refuse_plaintext(identifier[-1], metadata)
        warn_of(identifier[-1], {}, metadata.properties)
        super().__init__(identifier, harmless(metadata, {}), *args, **kwargs)


def plain_metadata(location: str, raw: dict[str, Any]) -> TableMetadata:
    """The metadata of a table of version 1 or 2 from parsed JSON; an error names the wrong field."""
    try:
        found = TableMetadataUtil.parse_obj(raw)
    except (PydanticValidationError, ValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{location}: table metadata do not parse: {first_line(error)}") from error
    with naming(location):
        check_refs(found)
        check_sources(found)
    return found


def first_line(error: Exception) -> str:
    """The first problem of an error, without a dump of the whole document."""
    if isinstance(error, PydanticValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]


def as_plain(table: Table) -> Table:
    """A table that PyIceberg's catalog has loaded, as a `PlainTable`."""
    if type(table) is not Table:
        return table
    return PlainTable(table.name(), table.metadata, table.metadata_location, table.io, table.catalog, table.config)


def harmless(metadata: TableMetadata, own: Mapping[str, Any]) -> TableMetadata:
    """The metadata without properties that name code, except the operator's own location provider."""
    return metadata.model_copy(update={"properties": without_code(metadata.properties, own)})


def restored(current: Table | None, staged: StagedTable, updates: Iterable[TableUpdate]) -> StagedTable:
    """The new version of a table, before it is written, with the properties that were taken out on load."""
    if not isinstance(current, PlainTable):
        return staged
    given = {name for each in updates if isinstance(each, SetPropertiesUpdate) for name in each.updates}
    # The operator's location provider was added for PyIceberg on load, and is not a property of the table.
    properties = {
        name: value for name, value in staged.metadata.properties.items() if not names_code(name) or name in given
    }
    staged.metadata = staged.metadata.model_copy(update={"properties": {**properties, **current.code_properties}})
    return staged
