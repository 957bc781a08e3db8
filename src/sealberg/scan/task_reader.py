"""Reads a planned task as Arrow batches: the live rows of one data file that match the filter.

    file ── batch and position of its first row
       1. drop rows at deleted positions
       2. drop rows with the values of equality deletes
       3. drop rows that do not match the filter
       4. project columns: by field id, in the types of the table; metadata columns

The filter is evaluated on columns in the types of the table, so it means the same for every file, however old its
schema. The statistics of the file prune row groups first, but only for columns that have the same type in the file.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIn,
    BoundIsNaN,
    BoundNotEqualTo,
    BoundNotIn,
    Or,
)
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not, translate_column_names
from pyiceberg.io.pyarrow import expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FixedType, FloatType, UUIDType

from sealberg.metadata.manifest import DataFileV3
from sealberg.scan import metadata_columns
from sealberg.scan.column_filter import nullable
from sealberg.scan.data_file_reader import STEADY, DecodeOptions, Part, open_rows
from sealberg.scan.delete_loader import DeleteLoader
from sealberg.scan.filter_literals import fitted
from sealberg.scan.narrowed_in import narrowed_ins
from sealberg.scan.projection import Projector, partition_constants

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence

    import pyarrow.dataset as ds
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

    from sealberg.files.puffin.deletion_vector import DeletionVector
    from sealberg.scan.data_file_reader import Rows
    from sealberg.scan.narrowed_in import NarrowedIn
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.scan.projection import Column

FEW: Final = 8  # dropped rows of a batch around which the others are cut out; a filter would copy all of them


@dataclass(frozen=True)
class TaskReader:
    """Reads the tasks of one scan; shared by its threads.

    Args:
        schema: the whole schema, which the filter is bound to.
        projection: the columns of the batches; may include metadata columns.
        row_filter: an unbound expression.
        dictionary_columns: string columns to return dictionary-encoded.
        options: how each file is decoded.
        file_sizes: keep the types of the file (`string` or `large_string`), as PyIceberg's to_arrow does.
        drop_matching: the other way round: all rows but those that match; where the filter is null, a row stays.
    """

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    projection: Schema
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    case_sensitive: bool = True
    dictionary_columns: tuple[str, ...] = ()
    options: DecodeOptions = STEADY
    file_sizes: bool = False
    drop_matching: bool = False

    deletes: DeleteLoader = field(init=False)
    _lock: threading.Lock = field(init=False, repr=False, compare=False, default_factory=threading.Lock)
    _prunings: dict[Hashable, ds.Expression | None] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deletes", DeleteLoader(self.io, self.metadata))

    def prepare(self) -> TaskReader:
        """Bind the filter before threads begin, which would wait for one of them, and interrupt it again and again."""
        if not isinstance(self.row_filter, AlwaysTrue):
            _ = self.filter_fields, self.narrowed
        return self

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of every batch, except with `file_sizes`."""
        plain = schema_to_pyarrow(self.projection, include_field_ids=False)
        return pa.schema([self._encoded(field) for field in plain])

    @cached_property
    def bound_filter(self) -> BooleanExpression:
        # NOT is rewritten, as in the planner: pyarrow's NOT (x > 5) matches NaN, and pruning by bounds does not.
        row_filter = fitted(self.row_filter, self.schema, case_sensitive=self.case_sensitive)
        return bind(nullable(self.schema), rewrite_not(row_filter), self.case_sensitive)

    @cached_property
    def filter_fields(self) -> Sequence[NestedField]:
        """The top-level columns that the filter refers to."""
        ids = extract_field_ids(self.bound_filter)
        return [field for field in self.schema.fields if not ids.isdisjoint(_ids_of(field))]

    def filter_expression(self) -> ds.Expression:
        """The filter over columns named by field id, because names may have dots or differ in case only."""
        with self._lock:
            return self._filter_expression

    @cached_property
    def narrowed(self) -> tuple[NarrowedIn, ...]:
        """The parts of a filter that is narrowed for each file; () for any other filter."""
        return narrowed_ins(self.bound_filter, self.schema)

    @cached_property
    def _filter_expression(self) -> ds.Expression:
        renamed = nullable(Schema(*map(_comparable, self.filter_fields)))
        translated = translate_column_names(self.bound_filter, renamed, case_sensitive=True)
        return expression_to_pyarrow(bind(renamed, translated, case_sensitive=True), renamed)

    def pruning(self, own: Schema, constants: Mapping[int, Any]) -> ds.Expression | None:
        """The filter for the statistics of a file; None where the statistics could exclude matching rows.

        Translated once for all files that have the columns of the filter alike: a filter may have thousands of values.
        """
        if self._statistics_may_mislead:
            return None
        columns = [_FilterColumn.of(field_id, own, constants) for field_id in sorted(self._filter_ids)]
        # NaN, -0.0 and unhashable values: the text is different where the filter could be.
        key = tuple(map(repr, columns))
        with self._lock:  # the threads of a scan begin at the same time
            if key not in self._prunings:
                self._prunings[key] = self._translated(own, constants) if self._has_same_types(columns) else None
        return self._prunings[key]

    @cached_property
    def _statistics_may_mislead(self) -> bool:
        return _statistics_may_mislead(self.bound_filter)

    @cached_property
    def _filter_ids(self) -> set[int]:
        return set(extract_field_ids(self.bound_filter))

    def _has_same_types(self, columns: Sequence[_FilterColumn]) -> bool:
        """Whether the statistics of the file mean in each column what the filter means."""
        for column in columns:
            kind = self.schema.find_type(column.field_id)
            if column.name is None:
                continue
            # PyIceberg reads a dot in a column name as a step into a struct.
            if column.kind != kind or column.name.count(".") != column.depth or isinstance(kind, UUIDType):
                return False
        return True

    def _translated(self, own: Schema, constants: Mapping[int, Any]) -> ds.Expression:
        own = nullable(own)
        translated = translate_column_names(self.bound_filter, own, True, dict(constants))
        return expression_to_pyarrow(bind(own, translated, case_sensitive=True), own)

    def batches(self, task: EncryptedFileScanTask, part: Part | None = None) -> Generator[pa.RecordBatch]:
        """The live, matching rows of a task, or of a part of its file; batches are never empty."""
        file = task.file
        assert isinstance(file, DataFileV3)
        with open_rows(self.io, file, self.metadata.name_mapping()) as rows:
            yield from _FileReader(self, task, rows).batches(part)

    def _encoded(self, field: pa.Field) -> pa.Field:
        return field.with_type(pa.dictionary(pa.int32(), field.type)) if self.is_dictionary(field) else field

    def is_dictionary(self, field: pa.Field) -> bool:
        return field.name in self.dictionary_columns and (
            pa.types.is_large_string(field.type) or pa.types.is_large_binary(field.type)
        )


class _FilterColumn(NamedTuple):
    """A column of the filter in one file: all of the file that the translated filter depends on."""

    field_id: int
    name: str | None
    kind: IcebergType | None
    depth: int
    constant: Any

    @classmethod
    def of(cls, field_id: int, own: Schema, constants: Mapping[int, Any]) -> _FilterColumn:
        if field_id not in own.field_ids:
            return cls(field_id, None, None, 0, constants.get(field_id))
        name = own.find_column_name(field_id) or ""
        return cls(field_id, name, own.find_type(field_id), _depth(own, field_id), None)


class _FileReader:
    """The steps of one task, applied to the batches of its file."""

    def __init__(self, reader: TaskReader, task: EncryptedFileScanTask, rows: Rows) -> None:
        self._reader = reader
        self._task = task
        self._rows = rows
        deletes = [file for file in task.delete_files if isinstance(file, DataFileV3)]
        self._deleted: DeletionVector | None = reader.deletes.positions(str(task.file.file_path), deletes)
        self._equalities = reader.deletes.equalities(deletes)
        self._filtered = reader.drop_matching or not isinstance(task.residual, AlwaysTrue)
        wanted = self._wanted()
        own, arrow = rows.schema(wanted)
        spec = reader.metadata.specs().get(task.file.spec_id)
        self._constants = partition_constants(task.file, spec)
        self._projector = Projector(own, arrow, self._constants)
        self._given = Projector(own, arrow, self._constants, file_sizes=reader.file_sizes)
        # A column of the file may be used twice and is read once; columns that the file lacks are not read.
        self._columns = list(dict.fromkeys(name for name in map(self._projector.source, wanted) if name is not None))

    def _wanted(self) -> list[NestedField]:
        """The whole top-level columns that the projection, the filter or an equality delete needs."""
        reader = self._reader
        whole = {field.field_id: field for field in reader.schema.fields}
        wanted = [whole.get(field.field_id, field) for field in reader.projection.fields]
        if self._filtered:
            wanted += reader.filter_fields
        for equality in self._equalities:
            wanted += [whole.get(column.field.field_id, column.field) for column in equality.key_columns]
        return wanted

    def batches(self, part: Part | None) -> Generator[pa.RecordBatch]:
        tests = [[column.values(self._projector) for column in equality.key_columns] for equality in self._equalities]
        test = self._filter() if self._filtered else None
        build = self._output()
        pruning = self._pruning if self._filtered and not self._reader.drop_matching else None
        numbered = self._needs_positions or self._deleted is not None
        read_part = self._rows.batches(self._columns, pruning, self._reader.options, part, numbered=numbered)
        for start, read in read_part:
            batch = read
            positions: pa.Array | None = None
            if self._needs_positions:
                assert start is not None, "positions were asked for"
                positions = pa.arange(start, start + batch.num_rows)

            def keep(mask: pa.Array) -> None:
                nonlocal batch, positions
                batch = batch.filter(mask)
                positions = None if positions is None else positions.filter(mask)

            if self._deleted is not None:
                assert start is not None, "positions were asked for"
                kept = self._deleted.kept(start, start + batch.num_rows)
                if kept is not None:
                    keep(kept)
            for columns, equality in zip(tests, self._equalities, strict=True):
                deleted = equality.values.contains([column(batch) for column in columns])
                if deleted.true_count:
                    keep(pc.invert(deleted))
            if test is not None and batch.num_rows:
                mask = test(batch)
                if self._reader.drop_matching:
                    dropped = pc.indices_nonzero(mask)  # without those where the filter is null
                    if 0 < len(dropped) <= FEW:
                        for begin, end in _between(dropped.to_pylist(), batch.num_rows):
                            rest = None if positions is None else positions.slice(begin, end - begin)
                            yield build(batch.slice(begin, end - begin), rest)
                        continue
                    mask = pc.invert(pc.fill_null(mask, False))
                if mask.true_count < batch.num_rows:
                    keep(mask)
            if batch.num_rows:
                yield build(batch, positions)

    @property
    def _needs_positions(self) -> bool:
        return not {metadata_columns.POS.field_id, metadata_columns.ROW_ID.field_id}.isdisjoint(
            field.field_id for field in self._reader.projection.fields
        )

    # -- filter ---------------------------------------------------------------------------------

    def _filter(self) -> Callable[[pa.RecordBatch], pa.Array]:
        if self._narrowed is not None:
            parts = [(self._projector.column(part.field), values) for part, values in self._narrowed]
            return lambda batch: reduce(
                pc.and_, (pc.is_in(column(batch), value_set=values) for column, values in parts)
            )
        fields = self._reader.filter_fields
        columns = [self._projector.column(field) for field in fields]
        names = [_name(field) for field in fields]
        project = acero.ProjectNodeOptions([self._reader.filter_expression()], ["keep"])

        def test(batch: pa.RecordBatch) -> pa.Array:
            table = pa.Table.from_arrays([_storage(column(batch)) for column in columns], names)
            source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
            made = acero.Declaration("project", project, [source]).to_table(use_threads=False)
            return made.column(0).combine_chunks()

        return test

    @cached_property
    def _narrowed(self) -> list[tuple[NarrowedIn, pa.Array]] | None:
        """The values that lie between the bounds of the file; None if a bound is not known, or for another filter."""
        parts = [(part, part.between_bounds(self._task.file)) for part in self._reader.narrowed]
        found = [(part, values) for part, values in parts if values is not None]
        return found if found and len(found) == len(parts) else None

    def _pruning(self, own: Schema) -> ds.Expression | None:
        if self._narrowed is not None and len(self._task.file.split_offsets or ()) == 1:
            return None  # the statistics of the only row group are the bounds
        return self._reader.pruning(own, self._constants)

    # -- columns --------------------------------------------------------------------------------

    def _output(self) -> Callable[[pa.RecordBatch, pa.Array | None], pa.RecordBatch]:
        reader = self._reader
        columns = [self._column(field) for field in reader.projection.fields]
        encoded = [isinstance(field.type, pa.DictionaryType) for field in reader.arrow_schema]

        def build(batch: pa.RecordBatch, positions: pa.Array | None) -> pa.RecordBatch:
            arrays = [column(batch, positions) for column in columns]
            arrays = [
                array.dictionary_encode() if as_dictionary else array
                for array, as_dictionary in zip(arrays, encoded, strict=True)
            ]
            if not arrays:
                return batch.select([])
            schema = reader.arrow_schema
            if reader.file_sizes:
                pairs = zip(schema, arrays, strict=True)
                schema = pa.schema([field.with_type(array.type) for field, array in pairs])
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

        return build

    def _column(self, field: NestedField) -> Callable[[pa.RecordBatch, pa.Array | None], pa.Array]:
        task, projector = self._task, self._given
        if field.field_id not in metadata_columns.IDS:
            column = projector.column(field)
            return lambda batch, _: column(batch)
        if field.field_id == metadata_columns.FILE.field_id:
            path = pa.scalar(str(task.file.file_path), pa.large_string())
            return lambda batch, _: pa.repeat(path, batch.num_rows)
        if field.field_id == metadata_columns.POS.field_id:
            return lambda _, positions: positions
        stored: Column | None = projector.column(field) if projector.source(field) is not None else None
        first, age = task.file.first_row_id, task.sequence_number
        if field.field_id == metadata_columns.ROW_ID.field_id:
            return lambda batch, positions: metadata_columns.row_ids(stored and stored(batch), first, positions)
        return lambda batch, _: metadata_columns.last_updated(stored and stored(batch), first, age, batch.num_rows)


def _between(dropped: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
    """The runs of rows around the dropped ones, without empty runs."""
    for before, after in pairwise((-1, *dropped, count)):
        if after - before > 1:
            yield before + 1, after


def _name(field: NestedField) -> str:
    return f"c{field.field_id}"


def _comparable(field: NestedField) -> NestedField:
    """The column as the filter sees it; pyarrow cannot compare UUIDs, but can compare their 16 bytes."""
    kind = FixedType(16) if isinstance(field.field_type, UUIDType) else field.field_type
    return field.model_copy(update={"name": _name(field), "field_type": kind, "initial_default": None})


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _statistics_may_mislead(expression: BooleanExpression) -> bool:
    """Whether pyarrow could skip matching rows of a float column because of the statistics.

    Parquet statistics leave NaN out, and pyarrow concludes from equal bounds that all rows have that value. Zeros have
    the bounds -0.0 and 0.0, which pyarrow takes for one value too, though `in` distinguishes them.
    """
    match expression:
        case And() | Or():
            return _statistics_may_mislead(expression.left) or _statistics_may_mislead(expression.right)
        case BoundIsNaN() | BoundNotEqualTo() | BoundIn() | BoundNotIn():
            return isinstance(expression.term.ref().field.field_type, FloatType | DoubleType)
        case _:
            return False


def _ids_of(field: NestedField) -> set[int]:
    return set(Schema(field).field_ids)


def _depth(schema: Schema, field_id: int) -> int:
    """How many structs the column is nested in."""
    depth, at = 0, schema.accessor_for_field(field_id)
    while at.inner is not None:
        depth, at = depth + 1, at.inner
    return depth
