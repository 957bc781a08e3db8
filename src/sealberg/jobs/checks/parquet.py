"""A Parquet file: every module is authenticated, and the footer is compared with the manifest entry.

every module           altered, swapped, cut, plaintext columns, pages that the footer does not count
bytes between modules  nothing but zeros
footer and manifest    rows, values, nulls, sizes of columns, offsets of row groups, bounds, partition
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sealberg.errors import IntegrityError
from sealberg.jobs.checks.bounds import check_bounds, check_partition
from sealberg.jobs.checks.outcome import Problem, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from sealberg.files.parquet.footer import FileFooter
    from sealberg.files.parquet.module_walk import ModuleWalk
    from sealberg.metadata.manifest import DataFileV3


def check_modules(walk: ModuleWalk, where: str) -> Iterator[Problem]:
    """Authenticate every module; one problem per damaged column chunk."""
    damaged = False
    for group, chunk in walk.footer.chunks():
        try:
            for _ in walk.chunk(group, chunk):
                pass
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


def _compare(code: str, what: str, said: Mapping[int, int] | None, found: Mapping[int, int]) -> Iterator[Problem]:
    for field_id, number in (said or {}).items():
        if field_id in found and number != found[field_id]:
            yield Problem(
                code, f"the manifest claims {number} {what} for field {field_id}, the file has {found[field_id]}"
            )
