"""The footer of a Parquet file, as far as it says where modules are and what they hold.

    FileFooter ── RowGroup ── ColumnChunk: pages, column index, offset index, bloom filter, statistics
       └─ Leaf: the columns of the schema, in file order

Field numbers are those of parquet.thrift. `raw` keeps every struct whole, for a writer that changes offsets only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from sealberg.errors import FormatError
from sealberg.files.parquet.thrift import Struct, decode_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.format.aes_gcm import Bytes

REPEATED: Final = 2
MAGIC_LENGTH: Final = 4
MAX_SCHEMA_DEPTH: Final = 256


class Range(NamedTuple):
    """Bytes of the file."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of the schema. A `repeated` column is inside of a list or map, so it may have more values than rows."""

    path: tuple[str, ...]
    field_id: int | None
    physical_type: int | None
    repeated: bool


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts and bounds of a column chunk, in Parquet's plain encoding; None where the writer has written none."""

    null_count: int | None = None
    lower: bytes | None = field(default=None, repr=False)
    upper: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of one row group.

    Attributes:
        pages: all pages with their headers, the dictionary page first if there is one.
        first_data_page: where the data pages begin.
        bloom_filter: its offset and, if the footer has it, its length; otherwise the length is 0.
        encrypted: whether the chunk is encrypted with the key of the footer.
    """

    row_group: int
    column: int
    leaf: Leaf
    num_values: int
    pages: Range
    has_dictionary: bool
    first_data_page: int
    column_index: Range | None
    offset_index: Range | None
    bloom_filter: Range | None
    encrypted: bool
    statistics: Statistics
    raw: Struct = field(repr=False)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of the file; `ordinal` is part of the AAD of every module in it."""

    index: int
    ordinal: int
    num_rows: int
    chunks: tuple[ColumnChunk, ...]

    @property
    def start(self) -> int:
        """Where the first page of the row group begins."""
        return min((chunk.pages.offset for chunk in self.chunks), default=0)


@dataclass(frozen=True, slots=True)
class FileFooter:
    """The decrypted footer."""

    num_rows: int
    leaves: tuple[Leaf, ...]
    row_groups: tuple[RowGroup, ...]
    created_by: str
    raw: Struct = field(repr=False)

    @classmethod
    def decode(cls, plain: Bytes) -> FileFooter:
        """Parse FileMetaData."""
        raw, _ = decode_struct(plain)
        leaves = tuple(_leaves(raw.structs(2)))
        groups = tuple(_row_group(index, group, leaves) for index, group in enumerate(raw.structs(4)))
        created_by = (raw.binary(6) or b"").decode(errors="replace")
        return cls(raw.integer(3), leaves, groups, created_by, raw)

    def chunks(self) -> Iterator[tuple[RowGroup, ColumnChunk]]:
        for group in self.row_groups:
            for chunk in group.chunks:
                yield group, chunk


def _leaves(elements: list[Struct]) -> Iterator[Leaf]:
    """The leaves of the schema, which is a tree in depth-first order."""
    if not elements:
        raise FormatError("the footer has no schema")
    # For each open group: how many children are to come, the path, and whether it is repeated.
    open_groups: list[list[int]] = [[elements[0].optional_integer(5) or 0]]
    paths: list[tuple[str, ...]] = [()]
    repeated = [False]
    for element in elements[1:]:
        while open_groups and open_groups[-1][0] == 0:
            open_groups.pop()
            paths.pop()
            repeated.pop()
        if not open_groups or len(open_groups) > MAX_SCHEMA_DEPTH:
            raise FormatError("the schema in the footer is not a tree")
        open_groups[-1][0] -= 1
        path = (*paths[-1], (element.binary(4) or b"").decode(errors="replace"))
        many = repeated[-1] or element.optional_integer(3) == REPEATED
        children = element.optional_integer(5) or 0
        if children:
            open_groups.append([children])
            paths.append(path)
            repeated.append(many)
        else:
            yield Leaf(path, element.optional_integer(9), element.optional_integer(1), many)
    if any(left for (left,) in open_groups):
        raise FormatError("the schema in the footer ends before all of its groups are complete")


def _row_group(index: int, raw: Struct, leaves: tuple[Leaf, ...]) -> RowGroup:
    columns = raw.structs(1)
    if len(columns) != len(leaves):
        raise FormatError(f"row group {index} has {len(columns)} columns, the schema has {len(leaves)}")
    ordinal = raw.optional_integer(7)
    if ordinal is not None and ordinal != index:
        raise FormatError(f"row group {index} has the ordinal {ordinal}, expected {index}")
    chunks = (_chunk(index, at, column, leaf) for at, (column, leaf) in enumerate(zip(columns, leaves, strict=True)))
    return RowGroup(index, index, raw.integer(3), tuple(chunks))


def _chunk(row_group: int, column: int, raw: Struct, leaf: Leaf) -> ColumnChunk:
    metadata = raw.struct(3)
    if metadata is None:
        raise FormatError(f"column {column} of row group {row_group} has no metadata in the footer")
    path = tuple(name.decode(errors="replace") for name in metadata.binaries(3))
    if path != leaf.path:
        raise FormatError(
            f"column {column} of row group {row_group} is {'.'.join(path)}, expected {'.'.join(leaf.path)}"
        )
    data, dictionary = metadata.integer(9), metadata.optional_integer(11)
    has_dictionary = dictionary is not None and MAGIC_LENGTH <= dictionary < data
    start = dictionary if has_dictionary and dictionary is not None else data
    crypto = raw.struct(8)
    bloom = metadata.optional_integer(14)
    return ColumnChunk(
        row_group,
        column,
        leaf,
        metadata.integer(5),
        Range(start, metadata.integer(7)),
        has_dictionary,
        data,
        _range(raw, 6, 7),
        _range(raw, 4, 5),
        None if bloom is None else Range(bloom, metadata.optional_integer(15) or 0),
        crypto is not None and 1 in crypto,
        _statistics(metadata.struct(12)),
        raw,
    )


def _range(raw: Struct, offset_field: int, length_field: int) -> Range | None:
    offset, length = raw.optional_integer(offset_field), raw.optional_integer(length_field)
    return None if offset is None or not length else Range(offset, length)


def _statistics(raw: Struct | None) -> Statistics:
    return Statistics() if raw is None else Statistics(raw.optional_integer(3), raw.binary(6), raw.binary(5))
