"""Packed columns that belong together: statistics by field id, lists of numbers, and partition values.

    lower_bounds of a manifest    {1: ..., 4: ...}, {1: ...} ...  ->  a column for field 1, a column for field 4
    split_offsets                 [4, 900], [4], ...              ->  lengths, and all numbers one after another
    a partition field             'de', 'de', 'fr', ...           ->  the distinct values, and a number for each row

A filter unpacks the statistics of its own fields only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sealberg.errors import FormatError
from sealberg.metadata.packed_column import (
    ALL_VALID,
    ARRAY_BYTES,
    LONG,
    OBJECT_BYTES,
    PackedBytes,
    PackedNumbers,
    Validity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from sealberg.metadata.packed_column import Rows

Packed = PackedNumbers | PackedBytes


@dataclass(frozen=True, slots=True)
class PackedStatistics:
    """One map of a manifest, from field id to a number or to bytes; `validity` tells an empty map from none."""

    count: int
    by_field: Mapping[int, Packed]
    validity: Validity

    @classmethod
    def missing(cls, count: int) -> PackedStatistics:
        return cls(count, {}, Validity(any_valid=False))

    @classmethod
    def of(cls, lists: pa.Array, *, numbers: bool) -> PackedStatistics:
        """Of an array of lists of structs (key, value)."""
        entries = lists.flatten()
        keys, values = entries.field(0), entries.field(1)
        if keys.null_count:
            raise FormatError("a map of column statistics has a key that is null")
        count, ids = len(lists), keys.to_numpy(zero_copy_only=False)
        if not numbers:
            values = values.cast(pa.binary())
        found = dict(_columns(lists, count, ids, values, numbers=numbers))
        return cls(count, found, Validity.of(lists))

    def get(self, field_id: int) -> Packed | None:
        return self.by_field.get(field_id)

    def part(self, start: int, stop: int) -> PackedStatistics:
        """The rows from `start` to `stop`, where all maps have the same keys."""
        if stop - start == self.count:
            return self
        found = (
            {field_id: column.part(start, stop) for field_id, column in self.by_field.items()} if stop > start else {}
        )
        return PackedStatistics(stop - start, found, self.validity.part(self.count, start, stop))

    def dicts(self, rows: Rows) -> list[dict[int, Any] | None]:
        """The maps of these rows, as Python has them."""
        ids = list(self.by_field)
        same = self._same()
        if same is not None:
            return [same.copy() for _ in rows]
        columns = [self.by_field[each].arrow(rows) for each in ids]
        lists = [column.to_pylist() for column in columns]
        if any(column.null_count for column in columns):
            made: list[dict[int, Any] | None] = [
                {key: value for key, value in zip(ids, row, strict=True) if value is not None}
                for row in zip(*lists, strict=True)
            ]
        elif len(ids) == 1:
            made = [{ids[0]: value} for value in lists[0]]
        elif ids:
            made = list(map(dict, map(zip, repeat(ids), zip(*lists, strict=True))))
        else:
            made = [{} for _ in rows]
        mask = self.validity.mask(self.count, rows)
        if mask is None:
            return made
        return [each if there else None for each, there in zip(made, mask.tolist(), strict=True)]

    def _same(self) -> dict[int, Any] | None:
        """The map, if all rows have the same map of numbers; counts often are."""
        if self.validity is not ALL_VALID:
            return None
        made = {}
        for field_id, column in self.by_field.items():
            if not isinstance(column, PackedNumbers) or column.above is not None or column.validity is not ALL_VALID:
                return None
            made[field_id] = column.base
        return made

    @property
    def nbytes(self) -> int:
        return OBJECT_BYTES + self.validity.nbytes + sum(50 + each.nbytes for each in self.by_field.values())


def _columns(
    lists: pa.Array, count: int, ids: NDArray[np.int64], values: pa.Array, *, numbers: bool
) -> Iterator[tuple[int, Packed]]:
    if not len(ids):
        return
    width = len(ids) // count
    pack = PackedNumbers.of if numbers else PackedBytes.of
    if width and _is_regular(lists, ids, count, width):
        columns = _numbers(values, count, width) if numbers else _bytes(values, count, width)
        yield from zip(ids[:width].tolist(), columns, strict=True)
        return
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    order = np.argsort(ids, kind="stable")
    distinct, starts = np.unique(ids[order], return_index=True)
    for field_id, start, stop in zip(distinct, starts, [*starts[1:], len(ids)], strict=True):
        places = np.full(count, -1, np.int64)
        places[parents[order[start:stop]]] = order[start:stop]  # the last one counts, where a map has a key twice
        yield int(field_id), pack(values.take(pa.array(places, mask=places < 0)))


def _numbers(values: pa.Array, count: int, width: int) -> Iterator[PackedNumbers]:
    """The columns of a matrix of numbers."""
    if values.null_count:
        yield from (PackedNumbers.of(_every(values, at, width)) for at in range(width))
        return
    # Transposed first: what lies side by side is reduced several times as fast.
    matrix = np.ascontiguousarray(values.to_numpy(zero_copy_only=False).reshape(count, width).T)
    for column, least, most in zip(matrix, matrix.min(axis=1).tolist(), matrix.max(axis=1).tolist(), strict=True):
        yield PackedNumbers.between(column, least, most)


def _bytes(values: pa.Array, count: int, width: int) -> Iterator[PackedBytes]:
    """The columns of a matrix of byte strings; most have one length, which their type has."""
    _, offsets, data = values.buffers()
    if values.null_count or data is None:
        yield from (PackedBytes.of(_every(values, at, width)) for at in range(width))
        return
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
    lengths = np.ascontiguousarray(np.diff(ends).reshape(count, width).T)
    least, most = lengths.min(axis=1), lengths.max(axis=1)
    held = np.frombuffer(data, np.uint8)
    if (least == most).all():  # then all rows have one length
        rows = held[ends[0] : ends[-1]].reshape(count, -1)
        stops = np.cumsum(least).tolist()
        columns = [rows[:, stop - size : stop] for size, stop in zip(least.tolist(), stops, strict=True)]
        yield from (
            PackedBytes.of_matrix(column) if column.shape[1] <= LONG else PackedBytes.of(_every(values, at, width))
            for at, column in enumerate(columns)
        )
        return
    starts = ends[:-1].astype(np.int64).reshape(count, width)
    for at, (size, longest) in enumerate(zip(least.tolist(), most.tolist(), strict=True)):
        if size == longest <= LONG:
            yield PackedBytes.of_matrix(held[starts[:, at, None] + np.arange(size)])
        else:
            yield PackedBytes.of(_every(values, at, width))


def _every(values: pa.Array, first: int, step: int) -> pa.Array:
    return values.take(pa.array(np.arange(first, len(values), step)))


def has_same_keys(lists: pa.Array) -> bool:
    """Whether all maps have the same keys in the same order."""
    keys = lists.flatten().field(0)
    if keys.null_count or not len(lists) or not len(keys):
        return False
    return _is_regular(lists, keys.to_numpy(zero_copy_only=False), len(lists), len(keys) // len(lists))


def _is_regular(lists: pa.Array, ids: NDArray[np.int64], count: int, width: int) -> bool:
    """Whether all maps have the same keys in the same order, as one writer makes them."""
    if width * count != len(ids) or len(set(ids[:width].tolist())) != width:
        return False
    if lists.null_count or (np.diff(lists.offsets.to_numpy(zero_copy_only=False)) != width).any():
        return False
    return bool((ids.reshape(count, width) == ids[:width]).all())


@dataclass(frozen=True, slots=True)
class PackedLists:
    """A column of lists of numbers, some of which may be null."""

    count: int
    lengths: PackedNumbers
    values: PackedNumbers
    validity: Validity

    @classmethod
    def missing(cls, count: int) -> PackedLists:
        return cls.of(pa.nulls(count, pa.list_(pa.int64())))

    @classmethod
    def of(cls, lists: pa.Array) -> PackedLists:
        values = lists.flatten()
        if values.null_count:
            raise FormatError("a list of numbers in a manifest entry has a null")
        lengths = lists.value_lengths().cast(pa.int64()).fill_null(0)
        return cls(len(lists), PackedNumbers.of(lengths), PackedNumbers.of(values), Validity.of(lists))

    def part(self, start: int, stop: int) -> PackedLists:
        """The rows from `start` to `stop`."""
        if stop - start == self.count:
            return self
        before, taken = (int(self.lengths.numpy(np.arange(*rows)).sum()) for rows in ((0, start), (start, stop)))
        values, validity = self.values.part(before, before + taken), self.validity.part(self.count, start, stop)
        return PackedLists(stop - start, self.lengths.part(start, stop), values, validity)

    def counts(self) -> pa.Int64Array:
        """The lengths of the lists, null where a list is null."""
        mask = self.validity.mask(self.count, None)
        return pa.array(self.lengths.numpy(), mask=None if mask is None else ~mask)

    def lists(self, rows: Rows) -> list[list[int] | None]:
        if not self.validity.any_valid:
            return [None] * len(rows)
        lengths = self.lengths.numpy()
        ends = np.cumsum(lengths)
        mask = self.validity.mask(self.count, rows)
        if self.lengths.above is None and self.lengths.base == 1:
            made: list[list[int] | None] = [[each] for each in self.values.numpy(rows).tolist()]
        else:
            starts = ends - lengths
            whole = self.values.numpy()
            made = [whole[starts[row] : ends[row]].tolist() for row in rows]
        if mask is None:
            return made
        return [each if there else None for each, there in zip(made, mask.tolist(), strict=True)]

    def arrow(self, rows: Rows) -> pa.ListArray:
        lengths = self.lengths.numpy()
        starts = (np.cumsum(lengths) - lengths)[rows]
        chosen = lengths[rows]
        ends = np.cumsum(chosen)
        places = np.repeat(starts - (ends - chosen), chosen) + np.arange(ends[-1] if len(ends) else 0)
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        mask = self.validity.mask(self.count, rows)
        nulls = None if mask is None else pa.array(~mask)
        return pa.ListArray.from_arrays(offsets, pa.array(self.values.numpy(places), pa.int64()), mask=nulls)

    @property
    def nbytes(self) -> int:
        return OBJECT_BYTES + self.lengths.nbytes + self.values.nbytes + self.validity.nbytes


@dataclass(frozen=True, slots=True)
class PackedPartition:
    """The values of one partition field: the distinct ones, and for each row the number of its value."""

    distinct: pa.Array
    numbers: PackedNumbers

    @classmethod
    def of(cls, array: pa.Array) -> PackedPartition:
        if pa.types.is_null(array.type):
            return cls(pa.array([], array.type), PackedNumbers(len(array), 0, None, Validity(any_valid=False)))
        # Floating-point numbers by their bits: -0.0 is not 0.0, and NaN is a value as others are.
        bits = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(array.type)
        encoded = (array if bits is None else array.view(bits)).dictionary_encode()
        distinct = encoded.dictionary if bits is None else encoded.dictionary.view(array.type)
        return cls(distinct, PackedNumbers.of(encoded.indices.cast(pa.int64())))

    def arrow(self, rows: Rows | None = None) -> pa.Array:
        if pa.types.is_null(self.distinct.type):
            return pa.nulls(self.numbers.count if rows is None else len(rows))
        return self.distinct.take(self.numbers.arrow(rows))

    def codes(self, rows: Rows) -> NDArray[np.int64]:
        """The number of the value of each row in `distinct`; the next number for a null."""
        codes, mask = self.numbers.numpy(rows), self.numbers.mask(rows)
        return codes if mask is None else np.where(mask, codes, len(self.distinct))

    def objects(self, rows: Rows) -> list[Any]:
        """The values as manifest entries have them: dates and times are numbers."""
        kind = self.distinct.type
        if pa.types.is_date32(kind):
            plain = self.distinct.view(pa.int32())
        elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
            plain = self.distinct.view(pa.int64())
        else:
            plain = self.distinct
        values = plain.to_pylist()
        return [None if number is None else values[number] for number in self.numbers.arrow(rows).to_pylist()]

    @property
    def nbytes(self) -> int:
        return OBJECT_BYTES + ARRAY_BYTES + int(self.distinct.nbytes) + self.numbers.nbytes
