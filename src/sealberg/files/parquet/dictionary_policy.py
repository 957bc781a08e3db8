"""Chooses the columns of a Parquet file that get a dictionary.

    the first rows of a column:   a b a a c ...   ──>   dictionary: a b c   and indices: 0 1 0 0 2 ...
    are both together smaller than the values?    ──>   then the column gets a dictionary

parquet-java decides in this way after its first page. pyarrow continues until the dictionary is full, which makes
a file that is larger, slower to write, and much slower to read for Spark and Java.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_ROWS: Final = 20_000  # about one page of most writers
SAMPLE: Final = 1_000
CHANCE: Final = 2  # values that a sample may hold twice by chance
LENGTH: Final = 4  # bytes for the length of a string


def worthwhile(rows: pa.Table) -> list[str]:
    """The paths of the chosen columns, nested ones included, as Parquet spells them."""
    first = rows.slice(0, FIRST_ROWS)
    return [
        path
        for name, column in zip(first.column_names, first.columns, strict=True)
        for path, values in _leaves(name, _whole(column))
        if _is_smaller(values)
    ]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(path, values.storage)
    elif pa.types.is_struct(kind):
        for field, inner in zip(kind, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", inner)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _is_smaller(values: pa.Array) -> bool:
    values = values.slice(0, FIRST_ROWS).drop_null()
    if not len(values):
        return True  # nothing is known yet, and pyarrow falls back by itself when the dictionary is full
    if _hardly_any_value_repeats(values):
        return False
    distinct = values.unique()
    numbers = len(values) * (len(distinct) - 1).bit_length() / 8
    return _size(distinct) + numbers < _size(values)


def _hardly_any_value_repeats(values: pa.Array) -> bool:
    """Whether a random sample holds hardly any value twice; then a dictionary would hold nearly every value.

    A dictionary that is worthwhile has many values twice, so a sample of SAMPLE values shows dozens of repeated values.
    Sampling takes a tenth of the time of `unique`, which a file of few rows would notice.
    """
    if len(values) < 4 * SAMPLE:
        return False
    # One sample for all lengths of about the same size: the files of many partitions differ in their lengths.
    sampled = values.take(_sample(1 << len(values).bit_length() - 1))
    return len(sampled.unique()) >= SAMPLE - CHANCE


@lru_cache
def _sample(count: int) -> pa.Array:
    # Random, because values that repeat in a cycle would escape from a sample of every tenth value.
    return pa.array(random.Random(count).sample(range(count), SAMPLE), pa.int32())  # noqa: S311 (no secret)


def _size(values: pa.Array) -> float:
    kind = values.type
    if any(is_kind(kind) for is_kind in _VARIABLE_LENGTH):
        return int(pc.sum(pc.binary_length(values)).as_py()) + LENGTH * len(values)
    return len(values) * int(kind.bit_width) / 8


_VARIABLE_LENGTH: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
