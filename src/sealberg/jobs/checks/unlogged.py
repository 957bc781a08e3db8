"""Metadata files of a table that neither its catalog nor its log names.

newer         it builds on the current metadata: the catalog is behind storage, or a commit has not ended
explained     it says nothing that the newest metadata do not say: it has dropped out of the log
anything else a finding: nobody vouches for it, and anything may be in it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.files.locations import normal
from sealberg.metadata.metadata_diff import FIXED, GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.jobs.checks.table_state import TableState

MEMBERS: Final = frozenset(name for names in GROUPS.values() for name in names)
STATISTICS: Final = ("statistics", "partition-statistics")
LOG_MEMBERS: Final = frozenset({"timestamp-ms", "snapshot-id", "metadata-file"})


def is_newer(state: TableState, found: Mapping[str, Any]) -> bool:
    """Whether a document was made out of the current metadata, or of later ones."""
    assert state.table is not None
    current, here = state.metadata, normal(state.table.metadata_location)
    sequence = found.get("last-sequence-number")
    logged = [each.get("metadata-file") for each in _objects(found, "metadata-log")]
    builds = any(isinstance(each, str) and normal(each) == here for each in logged)
    return builds or (isinstance(sequence, int) and sequence > current.last_sequence_number)


def is_explained(state: TableState, found: Mapping[str, Any]) -> bool:
    """Whether a document says nothing that the newest does not say, but what has expired and its own numbers."""
    newest: Mapping[str, Any] = state.metadata.document
    properties, refs = newest.get("properties") or {}, newest.get("refs") or {}
    folder = f"{str(newest.get('location')).rstrip('/')}/"
    logged = [*_objects(found, "snapshot-log"), *_objects(found, "metadata-log")]
    return (
        found.keys() <= MEMBERS
        and found.get("location") == newest.get("location")
        and all(_has_all(name, id_name, found, newest) for name, id_name in FIXED.items())
        and all(properties.get(name) == value for name, value in (found.get("properties") or {}).items())
        and (found.get("refs") or {}).keys() <= refs.keys()
        and all(item in _objects(newest, name) for name in STATISTICS for item in _objects(found, name))
        and all(item.keys() <= LOG_MEMBERS for item in logged)
        and all(str(item.get("metadata-file", folder)).startswith(folder) for item in logged)
    )


def _has_all(name: str, id_name: str, found: Mapping[str, Any], newest: Mapping[str, Any]) -> bool:
    """Whether the newest has every item of a list."""
    known = {item.get(id_name): item for item in _objects(newest, name)}
    return all(known.get(item.get(id_name)) == item for item in _objects(found, name))


def _objects(found: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    held = found.get(name)
    return [item for item in held if isinstance(item, dict)] if isinstance(held, list) else []
