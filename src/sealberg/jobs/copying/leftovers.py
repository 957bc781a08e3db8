"""What killed runs of a copy have left in the folder of the new table, and nothing else.

    below the folder ──> named as writers name files ──> a killed run's: removed
                     └─> in the folder of another table, a link, or of any other name: it stays, with the reason

The folder was empty when the copy began. Meanwhile anybody may have put something there, or made a table there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import SealbergError
from sealberg.files.file_io import METADATA_SUFFIXES, naming
from sealberg.files.listing import list_files
from sealberg.files.locations import Location, Locations, normal, oddity
from sealberg.files.removal import remove_file
from sealberg.jobs.copying.target import is_copy_name
from sealberg.metadata.metadata_file import DEFAULT_MAX_BYTES, parse, read_text
from sealberg.table.own_folders import IN_ANOTHER, is_written_form, jail, neighbours

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Identifier

    from sealberg.files.listing import Listed

SOURCE: Final = (
    "sealberg.copy.source-uuid"  # of the record of a copy, and of the finished table: where its rows came from
)


@dataclass
class Leftovers:
    """What lies in a folder of a copy and nothing names.

    Attributes:
        files: of killed runs.
        kept: what stays, and why.
    """

    files: list[Listed] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    def remove(self, io: FileIO) -> dict[str, str]:
        """Remove the files; returns all that stays, with the reasons."""
        for each in self.files:
            if reason := remove_file(io, each.location, each):
                self.kept[each.location] = reason
        return self.kept


def leftovers(
    catalog: Catalog,
    io: FileIO,
    folder: str,
    identity: str,
    names: Collection[Identifier],
    *,
    but: Iterable[str] = (),
    but_below: str | None = None,
) -> Leftovers:
    """What killed runs have left below a folder.

    Args:
        identity: the UUID of the source of the copy, which its metadata files name.
        names: the tables of the catalog that are this copy.
        but: files that the copy has.
        but_below: a folder that is not looked into.
    """
    named = Locations(but)
    found = [
        each
        for each in list_files(io, folder)
        if each.location not in named and not (but_below and each.location.startswith(f"{but_below}/"))
    ]
    judged = Leftovers()
    if not found:
        return judged
    others: list[Location] = []
    for other in neighbours(catalog):
        if other.identifier in names:
            continue
        if other.error is not None:
            reason = f"may be of the table {other.name}, which cannot be loaded: {other.error}"
            return Leftovers(kept={each.location: reason for each in found})
        others += [Location.parse(each) for each in other.folders if oddity(each) is None]
    for each in found:
        others += _folders_of_another(io, each, identity)
    for each in found:
        place = normal(each.location)
        if each.problem is not None:
            judged.kept[each.location] = each.problem
        elif any(place.startswith(f"{other.place}/") for other in others):
            judged.kept[each.location] = IN_ANOTHER
        elif not (is_written_form(name := place.rpartition("/")[2]) or is_copy_name(name)):
            judged.kept[each.location] = "has not the name of a table's file"
        else:
            judged.files.append(each)
    return judged


def _folders_of_another(io: FileIO, listed: Listed, identity: str) -> list[Location]:
    """The folders of the table whose metadata file this is, if it is not a record of this copy."""
    if listed.problem is not None or not listed.location.endswith(METADATA_SUFFIXES):
        return []
    document: dict[str, Any] = {}
    with suppress(SealbergError, FileNotFoundError), naming(listed.location):  # half a file, which a killed run left
        document = parse(read_text(io.new_input(listed.location), DEFAULT_MAX_BYTES), listed.location)
    properties = document.get("properties")
    if not document or (isinstance(properties, dict) and properties.get(SOURCE) == identity):
        return []
    named = [jail(listed.location), str(document.get("location") or "")]
    return [Location.parse(each) for each in named if oddity(each) is None]
