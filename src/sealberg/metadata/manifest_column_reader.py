"""Reads a manifest as columns, and keeps the columns for the next plan of the same process.

    manifest ──> Arrow columns by field id (manifest_decoder) ──> packed, with inherited fields: ManifestColumns
            └──> those that a filter needs, to exclude all files ──> packed: SearchedColumns (manifest_groups)

The cache holds packed columns (about 200 bytes for a file with statistics of six columns), or the columns of filters
with the decrypted manifest, which is compressed and smaller; it is bounded by their memory.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.manifest import FileFormat

from sealberg.metadata.decode_cache import Cache
from sealberg.metadata.manifest_columns import FORMATS, Inherited, ManifestColumns
from sealberg.metadata.manifest_decoder import decode_fetched, decoding, fetch
from sealberg.metadata.manifest_fields import BOUNDS, COUNTS, LISTS, NUMBERS, PATH, RECORD_COUNT, STATUS, DecodedColumns
from sealberg.metadata.packed_column import ALL_VALID, PackedBytes, PackedNumbers
from sealberg.metadata.packed_groups import PackedLists, PackedPartition, PackedStatistics, has_same_keys
from sealberg.metadata.packing_turn import packing_turn
from sealberg.metadata.searched_columns import SearchedColumns

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyiceberg.io import FileIO

    from sealberg.metadata.manifest import ManifestFileV3

MAX_BYTES: Final = 256 << 20
REST: Final = 60.0  # seconds
KEPT: Final = Cache[ManifestColumns | SearchedColumns](MAX_BYTES, lambda columns: columns.nbytes, rest=REST)

STATISTICS: Final = {name: field_id for field_id, name in (COUNTS | BOUNDS).items()}
_OWN: Final = {field_id: name for field_id, name in NUMBERS.items() if field_id not in (1, 3, 4, 134, 142)}


def kept_columns(manifest: ManifestFileV3, io: FileIO) -> ManifestColumns | SearchedColumns | None:
    """What an earlier plan of this process has kept of a manifest."""
    return KEPT.find(manifest.cache_key) if len(KEPT) and manifest.is_kept(io) else None


def read_columns(manifest: ManifestFileV3, io: FileIO) -> ManifestColumns:
    """The columns of a manifest, with the fields that its entries inherit from this object."""
    kept = manifest.is_kept(io)
    found = KEPT.find(manifest.cache_key) if kept else None
    if isinstance(found, ManifestColumns):
        return found
    with decoding(manifest.manifest_path):
        made = whole_alone(manifest, io, fetch(io, manifest.manifest_path) if found is None else found.manifest)
    if kept:
        KEPT.put(manifest.cache_key, made)
    return made


def whole_alone(manifest: ManifestFileV3, io: FileIO, raw: bytes) -> ManifestColumns:
    """All columns of a manifest whose bytes are there."""
    found = decode_fetched(io, manifest.manifest_path, raw)
    with packing_turn:
        return _packed(manifest, found)


def whole_together(
    manifests: Sequence[ManifestFileV3], found: DecodedColumns, ends: Sequence[int]
) -> list[ManifestColumns]:
    """All columns of each manifest, from the rows of all.

    Args:
        ends: where the rows of each manifest end, after a zero.
    """
    shared, statistics = _shared(found), StatisticsParts(found, STATISTICS)
    statuses, counts, paths = found.statuses(), found.numbers(RECORD_COUNT), found.texts(PATH, required=True)
    made = []
    for manifest, (start, stop) in zip(manifests, pairwise(ends), strict=True):
        inherited = Inherited.of(manifest)

        def own(field_id: int, rows: slice = slice(start, stop)) -> pa.Int64Array:
            return found.numbers(field_id)[rows]

        state = statuses[start:stop]
        columns: dict[str, Any] = {name: column.part(start, stop) for name, column in shared.items()}
        columns["snapshot_id"] = PackedNumbers.of(inherited.snapshots(own(1)))
        for field_id in (3, 4):
            columns[NUMBERS[field_id]] = PackedNumbers.of(inherited.sequence_numbers(own(field_id), state))
        columns["first_row_id"] = PackedNumbers.of(inherited.first_row_ids(own(142), state, counts[start:stop]))
        columns["file_path"] = PackedBytes.of(paths[start:stop])  # the paths of one manifest begin alike
        columns["partition"] = partition_of(found, start, stop)
        columns |= statistics.of(start, stop)
        location = str(manifest.manifest_path)
        made.append(ManifestColumns(location=location, spec_id=inherited.spec_id, **columns))
    return made


def searched_fields(statistics: Collection[str]) -> frozenset[int]:
    """The ids of the fields that a search for these maps of statistics decodes, beside the partition."""
    return frozenset({STATUS, RECORD_COUNT, *(STATISTICS[name] for name in statistics)})


def searched_alone(
    manifest: ManifestFileV3, io: FileIO, raw: bytes, statistics: Collection[str]
) -> ManifestColumns | SearchedColumns:
    """These maps of statistics and a few more columns; all columns if polars cannot decode the schema."""
    location, wanted = manifest.manifest_path, searched_fields(statistics)
    found = decode_fetched(io, location, raw, wanted)
    with packing_turn:
        if found.fields.keys() - wanted:
            return _packed(manifest, found)
        return SearchedColumns(
            str(location),
            manifest.partition_spec_id,
            raw,
            PackedNumbers.of(found.statuses()),
            PackedNumbers.of(found.numbers(RECORD_COUNT)),
            partition_of(found),
            {name: statistics_of(found, name) for name in statistics},
        )


# -- packing ------------------------------------------------------------------------------------


def _packed(manifest: ManifestFileV3, found: DecodedColumns) -> ManifestColumns:
    (made,) = whole_together([manifest], found, (0, found.count))
    return made


def _shared(found: DecodedColumns) -> dict[str, Any]:
    """The columns that are as they are stored."""
    made: dict[str, Any] = {name: PackedNumbers.of(found.numbers(field_id)) for field_id, name in _OWN.items()}
    made["content"] = PackedNumbers.of(found.contents())
    made["file_format"] = _formats(found.texts(101, required=True))
    made["referenced_data_file"] = PackedBytes.of(found.texts(143))
    made["key_metadata"] = PackedBytes.of(found.keys())
    for field_id, name in LISTS.items():
        values = found.fields.get(field_id)
        made[name] = PackedLists.missing(found.count) if values is None else PackedLists.of(values)
    return made


def partition_of(found: DecodedColumns, start: int = 0, stop: int | None = None) -> dict[int, PackedPartition]:
    """The partition values of the rows from `start` to `stop`."""
    return {field_id: PackedPartition.of(values[start:stop]) for field_id, values in found.partition.items()}


def statistics_of(found: DecodedColumns, name: str, start: int = 0, stop: int | None = None) -> PackedStatistics:
    """A map of statistics by its name in ManifestColumns, of the rows from `start` to `stop`."""
    field_id = STATISTICS[name]
    values = found.fields.get(field_id)
    if values is None:
        return PackedStatistics.missing((found.count if stop is None else stop) - start)
    return PackedStatistics.of(values[start:stop], numbers=field_id in COUNTS)


class StatisticsParts:
    """The maps of statistics of several manifests: all rows at once, and each manifest's.

    Where the maps of the manifests differ in their keys, each manifest is packed alone: its columns are its own keys
    in its own order then.
    """

    def __init__(self, found: DecodedColumns, names: Collection[str]) -> None:
        self._found = found
        self.whole = {name: statistics_of(found, name) for name in names}

    @cached_property
    def _alike(self) -> set[str]:
        """Names of maps with the same keys in all manifests."""
        values = {name: self._found.fields.get(STATISTICS[name]) for name in self.whole}
        return {name for name, each in values.items() if each is None or has_same_keys(each)}

    def of(self, start: int, stop: int) -> dict[str, PackedStatistics]:
        """The maps of the rows from `start` to `stop`, by name."""
        if stop - start == self._found.count:
            return self.whole
        return {
            name: each.part(start, stop) if name in self._alike else statistics_of(self._found, name, start, stop)
            for name, each in self.whole.items()
        }


def _formats(texts: pa.Array) -> PackedNumbers:
    encoded = texts.dictionary_encode()
    codes = [FORMATS.index(FileFormat(each.decode())) for each in encoded.dictionary.to_pylist()]
    if len(codes) == 1:
        return PackedNumbers(len(texts), codes[0], None, ALL_VALID)
    return PackedNumbers.of(pa.array(codes, pa.int64()).take(encoded.indices))
