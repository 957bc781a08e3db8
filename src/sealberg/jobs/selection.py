"""The tables that a job works on: by name, by namespace, or all tables of a catalog.

hr.salaries            a table, if there is one of that name
hr                     all tables of the namespace and of the namespaces below it
("hr", "salaries")     that table and no other: an identifier is not split again, for its parts may have dots
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.exceptions import NoSuchTableError

from sealberg.catalogs.load import load_catalog
from sealberg.catalogs.new_places import tables_below
from sealberg.errors import ConfigError, NothingThereError, SealbergError
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

TableName: TypeAlias = "str | Identifier | Table"  # of a job: by name, by identifier, or open already


@contextmanager
def selected_tables(
    catalog: Catalog | str | None, names: Sequence[str | Identifier], *, every: bool
) -> Iterator[tuple[Catalog, list[Identifier]]]:
    """The catalog and the identifiers of the tables, each once. A catalog that is opened here stays open:
    its tables use its KMS client until the process ends. NothingThereError if there is no table, or none below
    a name."""
    opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    found: dict[Identifier, None] = {}
    if every:
        for namespace in opened.list_namespaces():
            found.update(dict.fromkeys(tables_below(opened, namespace)))
        if not found:
            raise NothingThereError(
                f"no tables: the catalog {opened.name} has none; check which catalog is configured, and whether its "
                "database is the right one"
            )
    for name in names:
        found.update(dict.fromkeys(_named(opened, name)))
    yield opened, sorted(found) if every else list(found)


def shown(identifier: Identifier) -> str:
    """An identifier as SQL has it: hr.pay, hr.`a.b`. Two tables never look the same."""
    parts = map(str, identifier)
    return ".".join(f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in parts)


def dotted(identifier: Identifier) -> str:
    """An identifier for a job that knows tables by a text with dots; ConfigError if the text would mean another one."""
    if any("." in str(part) for part in identifier):
        raise ConfigError(f"{shown(identifier)} has a part with a dot, which this job cannot name; rename the table")
    return ".".join(identifier)


def _named(catalog: Catalog, name: str | Identifier) -> list[Identifier]:
    if not isinstance(name, str):
        if not _is_table(catalog, name):
            raise NothingThereError(f"no table {shown(name)} in the catalog {catalog.name}")
        return [name]
    identifier = tuple(name.split("."))
    if len(identifier) > 1 and _is_table(catalog, identifier):
        return [identifier]
    if _exists(catalog, identifier):
        if found := sorted(tables_below(catalog, identifier)):
            return found
        raise NothingThereError(f"no tables: the namespace {name} of the catalog {catalog.name} has none")
    raise NothingThereError(f"no table or namespace {name} in the catalog {catalog.name}")


def _is_table(catalog: Catalog, identifier: Identifier) -> bool:
    try:
        return catalog.table_exists(identifier)
    except (SealbergError, OSError):
        return True  # a table that cannot be loaded; what is wrong with it is for the job to tell


def _exists(catalog: Catalog, namespace: Identifier) -> bool:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        catalog.load_namespace_properties(namespace)
    except NoSuchNamespaceError:
        return False
    return True


def encrypted_table(table: TableName, catalog: Catalog | str | None = None) -> CatalogTable:
    """One encrypted table, by its name or open already; freshly loaded."""
    if isinstance(table, (str, tuple)):
        opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
        found = load_named(opened, table)
    else:
        found = table.refresh() if isinstance(table, CatalogTable) else table
    if not isinstance(found, CatalogTable) or found.encryption is None:
        name = table if isinstance(table, str) else shown(found.name())
        raise ConfigError(f"{name} is not an encrypted table of a catalog, and this job works on encrypted tables only")
    return found


def load_named(catalog: Catalog, name: str | Identifier) -> Table:
    """The table of this name; NothingThereError if there is none."""
    if isinstance(name, str):
        check_name(name)
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        text = name if isinstance(name, str) else shown(name)
        raise NothingThereError(f"no table {text} in the catalog {catalog.name}") from None


def check_name(name: str) -> None:
    """Refuse a name that can be that of a namespace only, or of nothing."""
    if len(parts := name.split(".")) < 2 or not all(parts):
        raise NothingThereError(f"no table has the name {name!r}, expected the name of one table: namespace.table")
