"""The folders of a table, and what in them may be removed.

    hr/people           the location
    s3://hot/people     write.data.path, write.metadata.path, ...

    Domain.of(table, ...) ──refusal(location)──> None: the table's own, or why the file stays

A file is a table's own if it lies in one of the folders, and not in a folder of another table. `hr/people2` does not
lie in `hr/people`. Where the catalog has no hash of the metadata, nobody vouches for the folders that they name: such
a table lives in the folder around the metadata file to which the catalog points, and nothing else is its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from pyiceberg.exceptions import NoSuchTableError

from sealberg.errors import RemovalRefusedError, SealbergError
from sealberg.files.locations import Location, normal, oddity, within
from sealberg.metadata.table_places import PATHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

METADATA: Final = "metadata"
IN_ANOTHER: Final = "lies in the folder of another table"
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_WRITTEN: Final = re.compile(rf".*{_UUID}.*\.(parquet|avro|orc|puffin|stats)|{_UUID}-expiry\.json|(\d+-{_UUID}|v\d+)\.metadata\.json(\.gz)?", re.IGNORECASE)  # fmt: skip  # noqa: E501


def is_written_form(name: str) -> bool:
    """Whether the name has the form that writers of Iceberg give: a UUID and the ending of a format."""
    return _WRITTEN.fullmatch(name) is not None


def own_folders(metadata: TableMetadata) -> tuple[str, ...]:
    """The folders that metadata name for the table's files, none of them inside another."""
    named = [metadata.location, *(metadata.properties[name] for name in PATHS if metadata.properties.get(name))]
    tops: list[str] = []
    for folder in (each.rstrip("/") for each in named):
        if not any(within(folder, top) for top in tops):
            tops = [top for top in tops if not within(top, folder)] + [folder]
    return tuple(tops)


def metadata_folder(metadata: TableMetadata) -> str:
    """Where writers put metadata.json."""
    return (metadata.properties.get("write.metadata.path") or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")


def jail(metadata_location: str) -> str:
    """The folder of a table for whose metadata nobody vouches: around the metadata file that the catalog names."""
    folder = metadata_location.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return above if name == METADATA and above.strip("/") else folder


@dataclass(frozen=True)
class Neighbour:
    """Another table of the catalog.

    Attributes:
        error: why it could not be loaded.
        pointer: the metadata file of a table that could not be loaded, if the catalog tells it.
    """

    identifier: Identifier
    uuid: str = ""
    folders: tuple[str, ...] = ()
    error: str | None = None
    pointer: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.identifier)


def neighbours(catalog: Catalog) -> tuple[Neighbour, ...]:
    """All tables of a catalog with their folders, as the catalog has them now."""
    return tuple(filter(None, (_neighbour(catalog, each) for each in sorted(set(_all(catalog))))))


def _neighbour(catalog: Catalog, identifier: Identifier) -> Neighbour | None:
    try:
        metadata = catalog.load_table(identifier).metadata
    except NoSuchTableError:
        return None  # dropped meanwhile
    except (SealbergError, OSError) as error:
        return Neighbour(identifier, error=f"{type(error).__name__}: {error}", pointer=_pointer(catalog, identifier))
    return Neighbour(identifier, str(metadata.table_uuid), own_folders(metadata))


def _pointer(catalog: Catalog, identifier: Identifier) -> str:
    ask: Any = getattr(catalog, "trusted", None)  # of catalogs that keep the location themselves
    try:
        known = None if ask is None else ask(identifier)
    except (SealbergError, OSError, NoSuchTableError):
        return ""
    return "" if known is None else str(known.metadata_location)


def _all(catalog: Catalog, *above: Identifier) -> Iterator[Identifier]:
    for namespace in catalog.list_namespaces(*above):
        if not above or len(namespace) > len(above[0]):
            yield from catalog.list_tables(namespace)
            yield from _all(catalog, namespace)


@dataclass(frozen=True)
class Domain:
    """What of a table may be removed.

    Attributes:
        location: the table's location, or its jail.
        more: folders that its properties name, or have named, outside of the location; only files of a writer's form
            are its own there.
        others: folders of other tables inside of these folders.
    """

    table: str
    location: Location
    more: tuple[Location, ...] = ()
    others: tuple[Location, ...] = ()

    @classmethod
    def of(cls, table: Table, others: Iterable[Neighbour], *, vouched: bool, former: Iterable[str] = ()) -> Self:
        """The domain of a table.

        Args:
            others: the tables of its catalog.
            vouched: whether the catalog vouches for all of the metadata, because it stores them or a hash of them.
            former: folders of metadata files and manifest lists that such metadata name.

        Raises:
            RemovalRefusedError: another table is the same table, or has the same folder; or the location is not normal.
        """
        name = ".".join(table.name())
        folders = own_folders(table.metadata) if vouched else (jail(table.metadata_location),)
        top = next((each for each in folders if within(table.metadata.location, each)), folders[0])
        if (reason := oddity(top)) is not None:
            raise RemovalRefusedError(
                f"the location {top!r} of {name} {reason}, so its files cannot be told from those of others, and "
                "nothing is removed. Copy the table to a normal location"
            )
        location = Location.parse(top)
        outside = [each for each in former if vouched and not any(within(each, folder) for folder in folders)]
        more = tuple(Location.parse(each) for each in (*folders, *outside) if each != top and oddity(each) is None)
        inside: list[Location] = []
        everywhere: list[Location] = []
        for other in others:
            if other.identifier == table.name():
                continue
            if other.error is not None:
                if other.pointer and any(within(other.pointer, folder) for folder in (top, *folders)):
                    raise RemovalRefusedError(
                        f"{other.name} cannot be loaded, and its metadata file {other.pointer} lies in a folder of "
                        f"{name}, so it is not known which files are its own: {other.error}. Mend or drop that table"
                    )
                continue
            if other.uuid == str(table.metadata.table_uuid):
                raise RemovalRefusedError(
                    f"{other.name} is the same table as {name} (table-uuid {other.uuid}), registered under two names: "
                    "its files would be lost for both. Drop one of the two without purge"
                )
            for folder in (Location.parse(each) for each in other.folders if oddity(each) is None):
                if folder == location:
                    raise RemovalRefusedError(
                        f"{other.name} has the same folder {folder} as {name}, so the files of the two cannot be told "
                        "apart. Give one of the tables a folder of its own; or, if that table was dropped, say so "
                        "(--ignore-other-tables)"
                    )
                everywhere.append(folder)
                if folder.within(location):
                    inside.append(folder)
        # A folder that another table has too, in which another table lies, or that lies in one, is nobody's own.
        more = tuple(each for each in more if not any(other.within(each) or each.within(other) for other in everywhere))
        return cls(name, location, more, tuple(inside))

    @property
    def folders(self) -> tuple[Location, ...]:
        return self.location, *self.more

    def has_folder(self, location: str) -> bool:
        """Whether a folder lies in one of the table's own, and in none of another table."""
        place = normal(location)
        own = any(_is_below(place, folder) for folder in self.folders)
        return own and not any(place == other.place or _is_below(place, other) for other in self.others)

    def refusal(self, location: str, place: str | None = None) -> str | None:
        """Why the file is not the table's own to remove; None if it is.

        Args:
            place: the location in the spelling of `normal`, if the caller has it.
        """
        if (reason := oddity(location)) is not None:
            return reason
        place = normal(location) if place is None else place
        if any(_is_below(place, other) for other in self.others):
            return IN_ANOTHER
        if _is_below(place, self.location):
            return None
        if any(_is_below(place, folder) for folder in self.more):
            return None if is_written_form(place.rpartition("/")[2]) else "has not the name of a table's file"
        return f"lies outside of the folders of {self.table}"


def _is_below(place: str, folder: Location) -> bool:
    return place.startswith(f"{folder.place}/")
