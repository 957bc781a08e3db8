"""Where a new table goes: into a folder that has nothing of anybody else.

    no location given    warehouse/hr/people; warehouse/hr/people-<UUID> if that folder holds anything, or always with
                         the catalog's property unique-table-location=true, as in Java
    a location given     refused if it holds anything, unless the creator sets sealberg.create.allow-non-empty-location;
                         and in any case if a table of the catalog has it, or a folder around it or in it

A dropped table leaves its files in its folder, and so does a renamed one, which still has them.
Stores that cannot be listed are believed to be empty.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import LocationError, SealbergError, UnsupportedError
from sealberg.files.listing import first_file, list_files
from sealberg.files.locations import Location
from sealberg.files.store_errors import is_denied
from sealberg.metadata.table_places import NOT_EMPTY, PATHS
from sealberg.properties.values import FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

UNIQUE: Final = "unique-table-location"
ADVICE: Final = "give the table a LOCATION of its own"
METADATA_FILE: Final = ".metadata.json"


def always_unique(properties: Mapping[str, Any]) -> bool:
    """What the catalog's property says."""
    return bool(FLAG.of(UNIQUE, properties.get(UNIQUE, "false")))


@dataclass(frozen=True)
class NewPlace:
    """Finds the folder of one new table.

    Args:
        table: its name.
        io_for: a FileIO that lists this location.
        others: the names and metadata of the tables of the catalog; asked only where a folder seems to be a table's.
        wanted: the creator says that the location may hold files.
    """

    table: str
    io_for: Callable[[str], FileIO]
    others: Callable[[], Iterable[tuple[str, TableMetadata]]]
    wanted: bool = False

    def given(self, location: str) -> str:
        """A location that the creator gives; refused if it is not a folder for this table alone."""
        place = Location.parse(location, f"the location of the new table {self.table}")
        io = self.io_for(place.text)
        self._refuse_folder_of_table(io, place)
        if (found := _file_in(io, place)) is None:
            return place.text
        if not self.wanted:
            raise LocationError(
                f"the location {place} of the new table {self.table} is not empty: there is {found}. Each table has a "
                "folder of its own, or files of one would be removed as those of the other; give another location, or "
                f"set {NOT_EMPTY}=true if no other table uses it"
            )
        self._refuse_shared(place)
        return place.text

    def usual(self, location: str, *, unique: bool) -> str:
        """The location that the catalog has for this name, or a unique one beside it."""
        place = self.named(location)
        io = self.io_for(place.text)
        self._refuse_folder_of_table(io, place)
        if not unique and (_file_in(io, place) is None or (self.wanted and not self._is_shared(place))):
            return place.text
        return f"{place}-{uuid.uuid4()}"

    def named(self, location: str) -> Location:
        """The location that the name of the table gives."""
        try:
            return Location.parse(location, f"the location that the name of the new table {self.table!r} gives")
        except LocationError as error:
            raise LocationError(f"{error}; {ADVICE}") from error

    def _refuse_folder_of_table(self, io: FileIO, place: Location) -> None:
        """Refuse a folder inside of that of another table, which would take its files for orphans."""
        for folder in _above(place):
            if (found := _metadata_in(io, folder)) is None:
                continue
            self._refuse_shared(place)
            if not self.wanted:
                raise LocationError(
                    f"the location {place} of the new table {self.table} lies in {folder}, which is the folder of "
                    f"a table: there is {found}; {ADVICE}, or set {NOT_EMPTY}=true if that table is no longer used"
                )

    def _is_shared(self, place: Location) -> bool:
        try:
            self._refuse_shared(place)
        except LocationError:
            return True
        return False

    def _refuse_shared(self, place: Location) -> None:
        for name, metadata in self.others():
            for theirs in _folders(metadata):
                if place.within(theirs) or theirs.within(place):
                    raise LocationError(
                        f"the location {place} of the new table {self.table} and {theirs}, which the table {name} has, "
                        f"would share files; {ADVICE}"
                    )


def tables_below(catalog: Catalog, namespace: Identifier) -> Iterator[Identifier]:
    """The tables of a namespace and of the namespaces below it."""
    yield from catalog.list_tables(namespace)
    for inner in catalog.list_namespaces(namespace):
        if len(inner) > len(namespace):
            yield from tables_below(catalog, inner)


def tables_of(catalog: Catalog) -> Iterator[tuple[str, TableMetadata]]:
    """The names and metadata of all tables of a catalog; LocationError if one cannot be loaded."""
    from pyiceberg.exceptions import NoSuchTableError

    for name in dict.fromkeys(name for each in catalog.list_namespaces() for name in tables_below(catalog, each)):
        try:
            yield ".".join(name), catalog.load_table(name).metadata
        except NoSuchTableError:
            continue  # dropped meanwhile
        except (SealbergError, OSError) as error:
            raise LocationError(
                f"the table {'.'.join(name)} cannot be loaded, so it is not known which folders it has: "
                f"{type(error).__name__}: {error}. Give the new table a location that is empty, and not in the folder "
                "of another table"
            ) from error


def _folders(metadata: TableMetadata) -> Iterator[Location]:
    for each in (metadata.location, *(metadata.properties[name] for name in PATHS if metadata.properties.get(name))):
        try:
            yield Location.parse(each)
        except LocationError:
            continue  # it is what it is; the folder of the new table is a normal one, and empty


def _above(place: Location) -> Iterator[str]:
    """The folders around a location, without links."""
    text = place.place if place.place.startswith("/") else place.text
    scheme, there, path = text.rpartition("://")
    top, *parts = path.split("/")
    for end in range(len(parts) - 1, 0, -1):
        yield f"{scheme}{there}{'/'.join([top, *parts[:end]])}"


def _file_in(io: FileIO, place: Location) -> str | None:
    """A file below a location; None if there is none, or if the store cannot be listed."""
    try:
        return first_file(io, place.text)
    except UnsupportedError:
        return None
    except OSError as error:
        if is_denied(error):
            return None
        raise


def _metadata_in(io: FileIO, folder: str) -> str | None:
    """A metadata file of a table whose folder this is; None if there is none, or if the store cannot be listed."""
    try:
        found = (file.location for file in list_files(io, f"{folder}/metadata"))
        return next((location for location in found if location.endswith(METADATA_FILE)), None)
    except UnsupportedError:
        return None
    except OSError as error:
        if is_denied(error):
            return None
        raise
