"""write.metadata.delete-after-commit.enabled: a commit removes metadata files that fell out of the metadata log.

The log of plaintext metadata is what somebody wrote into a file, so a name in it makes nothing deletable. A file goes
only if it lies directly in the folder of the metadata file that the commit replaced, has the name of a metadata file,
is a regular file with the UUID of this table, is named by nothing in the new metadata, and is not the current one of a
second name of the table. All others stay, with a warning.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import TableProperties

from sealberg.errors import SealbergError
from sealberg.files.listing import stat_file
from sealberg.files.locations import Location, Locations
from sealberg.files.removal import remove_file
from sealberg.metadata.metadata_file import DEFAULT_MAX_BYTES, parse, read_text
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

# 00007-<UUID>.metadata.json of catalogs, v7.metadata.json of Hadoop tables; compressed with .gz in or behind it
NAME: Final = re.compile(
    r"(?:\d+-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|v\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?"
)


def delete_old_metadata(
    io: FileIO,
    base: TableMetadata,
    metadata: TableMetadata,
    current_of_any: Callable[[Iterable[str]], Iterable[str]] = lambda _: (),
) -> None:
    """Delete the metadata files that `base` names in its log and `metadata`, which replaced it, no longer does.

    Args:
        current_of_any: asks the catalog which of the files are the current ones of tables.
    """
    if not value_of(metadata.properties, TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED, default=False):
        return
    kept = {entry.metadata_file for entry in metadata.metadata_log}
    gone = dict.fromkeys(entry.metadata_file for entry in base.metadata_log if entry.metadata_file not in kept)
    if not gone:
        return
    named, current = Locations(_named(metadata)), Locations(current_of_any(gone))
    replaced = metadata.metadata_log[-1].metadata_file if metadata.metadata_log else ""
    for location in gone:
        try:
            reason = "a table of the catalog has it as its current one" if location in current else None
            reason = reason or _why_not(io, location, replaced, named, metadata) or remove_file(io, location)
        except FileNotFoundError:
            continue
        except (SealbergError, OSError) as error:
            reason = f"{type(error).__name__}: {error}"
        if reason:
            warnings.warn(f"the old metadata file {location[:300]!r} stays: {reason[:300]}", stacklevel=3)


def _why_not(io: FileIO, location: str, replaced: str, named: Locations, metadata: TableMetadata) -> str | None:
    """Why a file is not deleted; None if it is an older metadata file of the table."""
    place, newest = Location.parse(location), Location.parse(replaced)
    if place.place.rpartition("/")[0] != newest.place.rpartition("/")[0]:
        return f"it is not in the folder of the metadata file {replaced}, which the commit has replaced"
    if NAME.fullmatch(place.name) is None:
        return "its name is not that of a metadata file"
    if location in named:
        return "the new metadata name it"
    if (found := stat_file(io, place.text)) is None:
        return None
    if found.problem is not None:
        return f"it {found.problem}"
    uuid = _uuid_in(io, place.text)
    return None if uuid == str(metadata.table_uuid) else f"it has the table UUID {uuid}, not {metadata.table_uuid}"


def _named(metadata: TableMetadata) -> Iterator[str]:
    """Every file that the metadata name."""
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (snapshot.manifest_list for snapshot in metadata.snapshots)
    yield from (str(file.statistics_path) for file in (*metadata.statistics, *metadata.partition_statistics))


def _uuid_in(io: FileIO, location: str) -> str:
    raw: dict[str, Any] = parse(read_text(io.new_input(location), DEFAULT_MAX_BYTES), location)
    return str(raw.get("table-uuid"))
