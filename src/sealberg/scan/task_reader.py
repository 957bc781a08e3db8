"""A planned task as Arrow batches: the rows that are left of one data file, as the scan wants them.

    file ── batch and position of its first row
       1. positions that are deleted fall out
       2. rows equal to deleted ones fall out
       3. rows that the filter does not want fall out
       4. columns: by field id, in the types of the table; row lineage; where the row was found

The filter is evaluated on columns as the table has them, so it means the same for every file, however old its
schema. The file's statistics are asked before, but only about columns that have the same type there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

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
from sealberg.scan import metadata_columns as lineage
from sealberg.scan.data_file_reader import STEADY, DecodeOptions, open_rows
from sealberg.scan.deletes import DeleteLoader
from sealberg.scan.projection import Projector, partition_constants

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow.dataset as ds
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField

    from sealberg.files.puffin.deletion_vector import DeletionVector
    from sealberg.scan.data_file_reader import Rows
    from sealberg.scan.planner import EncryptedFileScanTask
    from sealberg.scan.projection import Column


@dataclass(frozen=True)
class TaskReader:
    """Reads the tasks of one scan; shared by the threads that do.

    Args:
        schema: the whole schema that the filter is about.
        projection: the columns to give, some of `lineage` perhaps among them.
        row_filter: not bound yet.
        dictionary_columns: columns of text to give as dictionaries.
        pace: of reading each file.
        file_sizes: whether a batch has the types of its file (`string` or `large_string`), as PyIceberg's to_arrow has.
    """

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    projection: Schema
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    case_sensitive: bool = True
    dictionary_columns: tuple[str, ...] = ()
    pace: DecodeOptions = STEADY
    file_sizes: bool = False

    deletes: DeleteLoader = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "deletes", DeleteLoader(self.io, self.metadata))

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """Of every batch, unless `file_sizes` says otherwise."""
        plain = schema_to_pyarrow(self.projection, include_field_ids=False)
        return pa.schema([self._encoded(one) for one in plain])

    @cached_property
    def bound_filter(self) -> BooleanExpression:
        # Without NOT, as the planner has it: pyarrow would find NaN in what is not greater, and statistics would not.
        return bind(self.schema, rewrite_not(self.row_filter), self.case_sensitive)

    @cached_property
    def filter_fields(self) -> Sequence[NestedField]:
        """The top-level columns that the filter looks at."""
        ids = extract_field_ids(self.bound_filter)
        return [one for one in self.schema.fields if not ids.isdisjoint(_ids_of(one))]

    @cached_property
    def filter_expression(self) -> ds.Expression:
        """The filter over columns that are named by their ids: names can have dots, and differ in their case."""
        renamed = Schema(*map(_comparable, self.filter_fields))
        translated = translate_column_names(self.bound_filter, renamed, case_sensitive=True)
        return expression_to_pyarrow(bind(renamed, translated, case_sensitive=True), renamed)

    def batches(self, task: EncryptedFileScanTask) -> Generator[pa.RecordBatch]:
        """What is left of a file; batches are never empty."""
        file = task.file
        assert isinstance(file, DataFileV3)
        with open_rows(self.io, file, self.metadata.name_mapping()) as rows:
            yield from _FileReader(self, task, rows).batches()

    def _encoded(self, one: pa.Field) -> pa.Field:
        return one.with_type(pa.dictionary(pa.int32(), one.type)) if self.is_dictionary(one) else one

    def is_dictionary(self, one: pa.Field) -> bool:
        return one.name in self.dictionary_columns and (
            pa.types.is_large_string(one.type) or pa.types.is_large_binary(one.type)
        )


class _FileReader:
    """One file, and what is to be done with its batches."""

    def __init__(self, reader: TaskReader, task: EncryptedFileScanTask, rows: Rows) -> None:
        self._reader = reader
        self._task = task
        self._rows = rows
        deletes = [one for one in task.delete_files if isinstance(one, DataFileV3)]
        self._deleted: DeletionVector | None = reader.deletes.positions(str(task.file.file_path), deletes)
        self._equalities = reader.deletes.equalities(deletes)
        self._filtered = not isinstance(task.residual, AlwaysTrue)
        wanted = self._wanted()
        own, arrow = rows.schema(wanted)
        spec = reader.metadata.specs().get(task.file.spec_id)
        self._constants = partition_constants(task.file, spec)
        self._projector = Projector(own, arrow, self._constants)
        self._given = Projector(own, arrow, self._constants, file_sizes=reader.file_sizes)
        # Several columns may be made of one; and what is not in the file is not asked for.
        self._columns = list(dict.fromkeys(name for name in map(self._projector.source, wanted) if name is not None))

    def _wanted(self) -> list[NestedField]:
        """The top-level columns of the table that take part, whole."""
        reader = self._reader
        whole = {one.field_id: one for one in reader.schema.fields}
        wanted = [whole.get(one.field_id, one) for one in reader.projection.fields]
        if self._filtered:
            wanted += reader.filter_fields
        for equality in self._equalities:
            wanted += [whole.get(leaf.field.field_id, leaf.field) for leaf in equality.leaves]
        return wanted

    def batches(self) -> Generator[pa.RecordBatch]:
        tests = [[leaf.values(self._projector) for leaf in one.leaves] for one in self._equalities]
        test = self._filter() if self._filtered else None
        build = self._output()
        pruning = self._pruning if self._filtered else None
        for start, read in self._rows.batches(self._columns, pruning, self._reader.pace):
            batch = read
            positions: pa.Array | None = None
            if self._needs_positions:
                positions = pa.arange(start, start + batch.num_rows)

            def keep(mask: pa.Array) -> None:
                nonlocal batch, positions
                batch = batch.filter(mask)
                positions = None if positions is None else positions.filter(mask)

            kept = None if self._deleted is None else self._deleted.kept(start, start + batch.num_rows)
            if kept is not None:
                keep(kept)
            for columns, equality in zip(tests, self._equalities, strict=True):
                deleted = equality.values.contains([column(batch) for column in columns])
                if deleted.true_count:
                    keep(pc.invert(deleted))
            if test is not None and batch.num_rows:
                mask = test(batch)
                if mask.true_count < batch.num_rows:
                    keep(mask)
            if batch.num_rows:
                yield build(batch, positions)

    @property
    def _needs_positions(self) -> bool:
        return not {lineage.POS.field_id, lineage.ROW_ID.field_id}.isdisjoint(
            one.field_id for one in self._reader.projection.fields
        )

    # -- filter ---------------------------------------------------------------------------------

    def _filter(self) -> Callable[[pa.RecordBatch], pa.Array]:
        fields = self._reader.filter_fields
        columns = [self._projector.column(one) for one in fields]
        names = [_name(one) for one in fields]
        project = acero.ProjectNodeOptions([self._reader.filter_expression], ["keep"])

        def test(batch: pa.RecordBatch) -> pa.Array:
            table = pa.Table.from_arrays([_storage(column(batch)) for column in columns], names)
            source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
            made = acero.Declaration("project", project, [source]).to_table(use_threads=False)
            return made.column(0).combine_chunks()

        return test

    def _pruning(self, own: Schema) -> ds.Expression | None:
        """The filter for the statistics of the file; None where they could mean something else there."""
        reader = self._reader
        if _misled(reader.bound_filter):
            return None
        for field_id in extract_field_ids(reader.bound_filter):
            if field_id not in own.field_ids:
                continue
            there, here = own.find_field(field_id), reader.schema.find_field(field_id)
            name = own.find_column_name(field_id) or ""
            # PyIceberg takes a dot in a name for a step into a struct.
            if there.field_type != here.field_type or name.count(".") != _depth(own, field_id):
                return None
            if isinstance(here.field_type, UUIDType):
                return None
        translated = translate_column_names(reader.bound_filter, own, True, self._constants)
        return expression_to_pyarrow(bind(own, translated, case_sensitive=True), own)

    # -- columns --------------------------------------------------------------------------------

    def _output(self) -> Callable[[pa.RecordBatch, pa.Array | None], pa.RecordBatch]:
        reader = self._reader
        columns = [self._column(one) for one in reader.projection.fields]
        encoded = [isinstance(one.type, pa.DictionaryType) for one in reader.arrow_schema]

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

    def _column(self, one: NestedField) -> Callable[[pa.RecordBatch, pa.Array | None], pa.Array]:
        task, projector = self._task, self._given
        if one.field_id not in lineage.IDS:
            column = projector.column(one)
            return lambda batch, _: column(batch)
        if one.field_id == lineage.FILE.field_id:
            path = pa.scalar(str(task.file.file_path), pa.large_string())
            return lambda batch, _: pa.repeat(path, batch.num_rows)
        if one.field_id == lineage.POS.field_id:
            return lambda _, positions: positions
        stored: Column | None = projector.column(one) if projector.source(one) is not None else None
        first, age = task.file.first_row_id, task.sequence_number
        if one.field_id == lineage.ROW_ID.field_id:
            return lambda batch, positions: lineage.row_ids(stored and stored(batch), first, positions)
        return lambda batch, _: lineage.last_updated(stored and stored(batch), first, age, batch.num_rows)


def _name(one: NestedField) -> str:
    return f"c{one.field_id}"


def _comparable(one: NestedField) -> NestedField:
    """A column for the filter. pyarrow compares no UUIDs, but the bytes that they are."""
    kind = FixedType(16) if isinstance(one.field_type, UUIDType) else one.field_type
    return one.model_copy(update={"name": _name(one), "field_type": kind, "initial_default": None})


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _misled(expression: BooleanExpression) -> bool:
    """Whether statistics could hide rows of a float column from pyarrow.

    They do not tell of NaN, and one value in them is taken for all there is. A zero has the bounds -0.0 and 0.0,
    which are that one value too, and `in` tells them apart.
    """
    match expression:
        case And() | Or():
            return _misled(expression.left) or _misled(expression.right)
        case BoundIsNaN() | BoundNotEqualTo() | BoundIn() | BoundNotIn():
            return isinstance(expression.term.ref().field.field_type, FloatType | DoubleType)
        case _:
            return False


def _ids_of(one: NestedField) -> set[int]:
    return set(Schema(one).field_ids)


def _depth(schema: Schema, field_id: int) -> int:
    """How many structs a column lies in."""
    depth, at = 0, schema.accessor_for_field(field_id)
    while at.inner is not None:
        depth, at = depth + 1, at.inner
    return depth
