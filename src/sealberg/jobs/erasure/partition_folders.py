"""Empty partition folders that have an erased value in their name: `data/name=Ann`, on a file system.

    erased files ──> their folders x=y ─┐
    name = 'Ann' ──> name=Ann          ─┴──> folders below the table's own, deepest first ──> removed if empty

A store of objects has no folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from pyiceberg.expressions import And, BoundEqualTo, BoundIn, Or
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from sealberg.files.listing import folders_below
from sealberg.files.removal import remove_empty_folder
from sealberg.table.own_folders import Domain, neighbours, own_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression

    from sealberg.jobs.erasure.names import Wanted
    from sealberg.table.catalog_table import CatalogTable


def remove_partition_folders(table: CatalogTable, erased: Iterable[str], rows: Wanted) -> int:
    """Remove what is empty of the folders that hold a value of the rows in their name; how many were removed.

    Args:
        erased: the data files that held the rows.
    """
    named = {part for location in erased for part in location.split("/")[:-1] if "=" in part}
    named.update(_segments(table, rows))
    found = [
        folder
        for top in (own_folders(table.metadata) if named else ())
        for folder in folders_below(table.inner, top)
        if not named.isdisjoint(folder.removeprefix(top).split("/"))
    ]
    if not found:
        return 0
    domain = Domain.of(table, neighbours(table.catalog), vouched=table.catalog.vouches(table))
    return sum(remove_empty_folder(table.inner, folder) for folder in found if domain.has_folder(folder))


def _segments(table: CatalogTable, rows: Wanted) -> Iterator[str]:
    """The names of the folders that writers make for the values in the filter."""
    for field_id, value in _values(rows.bound):
        for spec in table.metadata.partition_specs:
            for field in spec.fields:
                if field.source_id == field_id and isinstance(field.transform, IdentityTransform | TruncateTransform):
                    kind = rows.schema.find_type(field_id)
                    part = field.transform.transform(kind)(value)
                    text = field.transform.to_human_string(field.transform.result_type(kind), part)
                    yield f"{quote_plus(field.name, safe='')}={quote_plus(text, safe='')}"


def _values(bound: BooleanExpression) -> Iterator[tuple[int, Any]]:
    if isinstance(bound, And | Or):
        yield from _values(bound.left)
        yield from _values(bound.right)
    elif isinstance(bound, BoundEqualTo):
        yield bound.term.ref().field.field_id, bound.literal.value
    elif isinstance(bound, BoundIn):
        yield from ((bound.term.ref().field.field_id, each.value) for each in bound.literals)
