"""The manifest entry of a copied file: the entry of the source with another place, length and key.

DataFileV3 of the source + CopiedFile ──copied_entry──> DataFileV3 of the target

Counts, bounds, partition, sort order and equality ids stay. `column_sizes` and `split_offsets` are of the new file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.metadata.manifest_cache import copy_of
from sealberg.pyiceberg_private import dict_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.jobs.copying.file_copy import CopiedFile
    from sealberg.metadata.manifest import DataFileV3

PATH, RECORDS, SIZE, COLUMN_SIZES, LOWER, UPPER, KEY, SPLITS, REFERENCED, OFFSET, LENGTH = (
    1,
    4,
    5,
    6,
    10,
    11,
    12,
    13,
    17,
    18,
    19,
)
_MAPS: Final = (6, 7, 8, 9, 10, 11)


def changed_entry(file: DataFileV3, fields: Mapping[int, Any]) -> DataFileV3:
    """A copy with other values of some fields, by their position."""
    made = copy_of(file)
    for at in _MAPS:
        if made[at] is not None and not isinstance(made[at], dict):
            made[at] = dict_of(made[at])
    for at, value in fields.items():
        made[at] = value
    return made


def copied_entry(file: DataFileV3, copy: CopiedFile) -> DataFileV3:
    claimed = file.column_sizes
    sizes = copy.column_sizes
    return changed_entry(
        file,
        {
            PATH: copy.target,
            SIZE: copy.stored_length,
            KEY: copy.key_metadata,
            SPLITS: copy.split_offsets,
            COLUMN_SIZES: None if not claimed or sizes is None else {i: sizes[i] for i in claimed if i in sizes},
        },
    )
