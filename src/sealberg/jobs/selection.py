"""The tables that a job works on: by name, by namespace, or all tables of a catalog.

hr.salaries    a table, if there is one of that name
hr             all tables of the namespace and of the namespaces below it
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from sealberg.catalogs.load import load_catalog
from sealberg.errors import ConfigError, NothingThereError, SealbergError
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier


@contextmanager
def selected_tables(
    catalog: Catalog | str | None, names: Sequence[str], *, every: bool
) -> Iterator[tuple[Catalog, list[Identifier]]]:
    """The catalog and the identifiers of the tables, each once. A catalog that is opened here stays open:
    its tables use its KMS client until the process ends. NothingThereError if there is no table, or none below
    a name."""
    opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
    found: dict[Identifier, None] = {}
    if every:
        for namespace in opened.list_namespaces():
            found.update(dict.fromkeys(_below(opened, namespace)))
        if not found:
            raise NothingThereError(
                f"no tables: the catalog {opened.name} has none; check which catalog is configured, and whether its "
                "database is the right one"
            )
    for name in names:
        found.update(dict.fromkeys(_named(opened, name)))
    yield opened, sorted(found) if every else list(found)


def _named(catalog: Catalog, name: str) -> list[Identifier]:
    identifier = tuple(name.split("."))
    if len(identifier) > 1 and _is_table(catalog, identifier):
        return [identifier]
    if _exists(catalog, identifier):
        if found := sorted(_below(catalog, identifier)):
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


def _below(catalog: Catalog, namespace: Identifier) -> Iterator[Identifier]:
    yield from catalog.list_tables(namespace)
    for inner in catalog.list_namespaces(namespace):
        if len(inner) > len(namespace):
            yield from _below(catalog, inner)


def encrypted_table(table: str | Table, catalog: Catalog | str | None = None) -> CatalogTable:
    """One encrypted table, by its name or open already; freshly loaded."""
    if isinstance(table, str):
        opened = load_catalog(catalog) if catalog is None or isinstance(catalog, str) else catalog
        found = load_named(opened, table)
    else:
        found = table.refresh() if isinstance(table, CatalogTable) else table
    if not isinstance(found, CatalogTable) or found.encryption is None:
        name = table if isinstance(table, str) else ".".join(table.name())
        raise ConfigError(f"{name} is not an encrypted table of a catalog, and this job works on encrypted tables only")
    return found


def load_named(catalog: Catalog, name: str) -> Table:
    """The table of this name; NothingThereError if there is none."""
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        raise NothingThereError(f"no table {name} in the catalog {catalog.name}") from None
