"""The locations that a table's metadata give: its own, and those that its properties name for new files.

They are checked where they are set, and only what is new: a table that has an odd location already is still read,
altered and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError
from sealberg.files.locations import Location
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

PATHS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
NOT_EMPTY: Final = "sealberg.create.allow-non-empty-location"
_NONE: Final[Mapping[str, str]] = {}


def without_consent(properties: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The properties to store, and whether the creator wants a location that is not empty."""
    wanted = bool(value_of(properties, NOT_EMPTY, default=False))
    return {name: value for name, value in properties.items() if name != NOT_EMPTY}, wanted


def check_paths(given: Mapping[str, Any], before: Mapping[str, str] = _NONE) -> None:
    """Refuse a path among these properties that is not a normal location; one that stays as it was is let be."""
    if NOT_EMPTY in given and NOT_EMPTY not in before:
        raise ConfigError(f"{NOT_EMPTY} is a property for the creation of a table, and no table has it")
    for name in PATHS:
        if name in given and before.get(name) != given[name]:
            Location.parse(given[name], f"the property {name}")


def check_location(location: str, before: str | None = None) -> None:
    """Refuse a table's location that is not a normal one, unless the table has it already."""
    if location != before:
        Location.parse(location, "the location of the table")


def check_places(after: TableMetadata, before: TableMetadata | None = None) -> None:
    """Refuse new locations in these metadata that are not normal."""
    check_location(after.location, before.location if before is not None else None)
    check_paths(after.properties, before.properties if before is not None else _NONE)
