"""Other tables in the folders of a table: their files must not be taken for orphans.

    hr/people                  the table
    hr/people/archive          another table below it: the folder is left out
    hr/people2                 not below hr/people
    hr/people (again)          another table in the same folder: refused, as their files cannot be told apart

The catalog names its tables. A metadata.json of another table in the folder gives away a table of another catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from sealberg.errors import RemovalRefusedError, SealbergError
from sealberg.files.locations import within
from sealberg.jobs.removal.own_folders import own_folders
from sealberg.jobs.selection import selected_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.typedef import Identifier

    from sealberg.table.catalog_table import CatalogTable


def neighbours(table: CatalogTable) -> tuple[str, ...]:
    """The folders of other tables of the catalog that lie in folders of this table.

    Raises:
        RemovalRefusedError: another table shares a folder, or cannot be loaded, so that its folders are not known.
    """
    own = own_folders(table.metadata)
    found: list[str] = []
    for identifier in _others(table):
        name = ".".join(identifier)
        try:
            theirs = own_folders(table.catalog.load_table(identifier).metadata)
        except NoSuchTableError:
            continue  # dropped meanwhile
        except (SealbergError, OSError) as error:
            raise RemovalRefusedError(
                f"the table {name} of the catalog cannot be loaded, so it is not known whether its files lie in the "
                f"folders of {'.'.join(table.name())} ({', '.join(own)}): {type(error).__name__}: {error}. Mend the "
                "table, or say that no other table has files there (--ignore-other-tables)"
            ) from error
        found += inside(own, theirs, f"the table {name}")
    return tuple(found)


def inside(own: Iterable[str], theirs: Iterable[str], whose: str) -> Iterator[str]:
    """The folders of another table that lie in ours; refused if the two share a folder."""
    theirs = tuple(theirs)
    for folder in own:
        for other in theirs:
            if within(folder, other) and within(other, folder):
                raise RemovalRefusedError(
                    f"{whose} has the same folder {folder}, so its files cannot be told from orphans. Give one of the "
                    "tables a folder of its own; or, if that table was dropped, say so (--ignore-other-tables)"
                )
            if within(other, folder):
                yield other


def _others(table: CatalogTable) -> Iterator[Identifier]:
    with selected_tables(table.catalog, (), every=True) as (_, identifiers):
        yield from (each for each in identifiers if each != table.name())
