"""A Parquet file: every module is authenticated, and the footer is compared with the manifest entry.

every module           altered, swapped, cut, plaintext columns, pages that the footer does not count
bytes between modules  nothing but zeros
footer and manifest    rows, values, nulls, sizes of columns, offsets of row groups, bounds, partition
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealberg.errors import IntegrityError
from sealberg.files.parquet.modules import ModuleKind
from sealberg.jobs.checks.bounds import check_bounds, check_partition, check_partition_rows
from sealberg.jobs.checks.outcome import Problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.files.parquet.footer import ColumnChunk, FileFooter, RowGroup
    from sealberg.files.parquet.module_walk import ModuleWalk
    from sealberg.files.parquet.thrift import Struct
    from sealberg.metadata.manifest import DataFileV3

HEADERS: Final = (ModuleKind.DATA_PAGE_HEADER, ModuleKind.DICTIONARY_PAGE_HEADER)
UNCOMPRESSED_SIZE: Final = 2  # fields of a page header, by their ids in Parquet's Thrift
PAGE_KINDS: Final = (5, 7, 8)  # of a data page, a dictionary page and a data page of version 2


@dataclass
class PageSizes:
    """What pages have when they are decompressed, for whoever decodes them next.

    Attributes:
        largest: the bytes of the largest page, of the column `column`.
        row_bytes: about the most bytes of a row, for each column of the schema.
    """

    largest: int = 0
    column: str = ""
    row_bytes: dict[str, float] = field(default_factory=dict)

    def add(self, group: RowGroup, chunk: ColumnChunk, headers: Iterable[Struct]) -> None:
        """The page headers of one column chunk."""
        most = 0.0
        for header in headers:
            size, inner = header.integer(UNCOMPRESSED_SIZE), next(filter(None, map(header.struct, PAGE_KINDS)), None)
            if size > self.largest:
                self.largest, self.column = size, ".".join(chunk.leaf.path)
            most = max(most, size / max(1, 0 if inner is None else inner.integer(1)))
        name = chunk.leaf.path[0]
        row = most * chunk.num_values / max(1, group.num_rows)  # a row of a list has many values
        self.row_bytes[name] = max(row, self.row_bytes.get(name, 0))


def check_modules(walk: ModuleWalk, where: str, sizes: PageSizes) -> Iterator[Problem]:
    """Authenticate every module; one problem per damaged column chunk."""
    damaged = False
    for group, chunk in walk.footer.chunks():
        try:
            modules = walk.chunk(group, chunk)
            sizes.add(group, chunk, (each.struct for each in modules if each.struct and each.place.kind in HEADERS))
        except IntegrityError as error:
            damaged = True
            found = problem_of(error, where)
            assert found is not None, "every IntegrityError has a code"
            yield found
    if not damaged:  # a damaged chunk was not walked to its end
        for gap in walk.gaps():
            yield Problem("malformed", f"{gap.length} bytes at {gap.offset} belong to no part of the file")


def check_footer(footer: FileFooter, file: DataFileV3, schema: Schema, spec: PartitionSpec) -> Iterator[Problem]:
    """Compare the footer with the manifest entry."""
    rows = sum(group.num_rows for group in footer.row_groups)
    if footer.num_rows != rows:
        yield Problem("count", f"the footer claims {footer.num_rows} rows, its row groups have {rows}")
    if file.record_count != footer.num_rows:
        yield Problem("count", f"the manifest claims {file.record_count} records, the file has {footer.num_rows}")
    sizes: Counter[int] = Counter()
    values: Counter[int] = Counter()
    nulls: Counter[int] = Counter()
    unknown_nulls: set[int] = set()
    for _, chunk in footer.chunks():
        if (field_id := chunk.leaf.field_id) is None:
            continue
        sizes[field_id] += chunk.pages.length
        values[field_id] += chunk.num_values
        if chunk.statistics.null_count is None:
            unknown_nulls.add(field_id)
        else:
            nulls[field_id] += chunk.statistics.null_count
    yield from _compare("size", "stored bytes", file.column_sizes, sizes)
    yield from _compare("count", "values", file.value_counts, values)
    known = {field_id: count for field_id, count in nulls.items() if field_id not in unknown_nulls}
    repeated = {chunk.leaf.field_id for _, chunk in footer.chunks() if chunk.leaf.repeated}
    flat = {field_id: count for field_id, count in known.items() if field_id not in repeated}
    yield from _compare("count", "nulls", file.null_value_counts, flat)
    starts = [group.start for group in footer.row_groups]
    if file.split_offsets and list(file.split_offsets) != starts:
        yield Problem("size", "the split offsets in the manifest are not the offsets of the row groups")
    yield from check_bounds(footer, file, schema)
    yield from check_partition(file, spec, schema)
    yield from check_partition_rows(footer, file, spec, schema)
    ids = {leaf.field_id for leaf in footer.leaves}
    if None not in ids:  # files that were copied out of a folder may have none
        for code, claims in (
            ("size", file.column_sizes),
            ("count", file.value_counts),
            ("count", file.null_value_counts),
            ("bounds", file.lower_bounds),
            ("bounds", file.upper_bounds),
        ):
            for field_id in sorted((claims or {}).keys() - ids):
                yield Problem(
                    code, f"the manifest has claims about the column {field_id}, which the file does not have"
                )


def _compare(code: str, what: str, said: Mapping[int, int] | None, found: Mapping[int, int]) -> Iterator[Problem]:
    for field_id, number in (said or {}).items():
        if field_id in found and number != found[field_id]:
            yield Problem(
                code, f"the manifest claims {number} {what} for field {field_id}, the file has {found[field_id]}"
            )
