"""Whether one file may hold rows that match a filter, by PyIceberg's evaluators.

    plans              whole columns of files       column_filter.py
    conflict checks    one file at a time           this module

A commit that looks for conflicts has a few files as objects, and no columns.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection
from pyiceberg.schema import Schema
from pyiceberg.typedef import KeyDefaultDict

from sealberg.pyiceberg_private import InclusiveMetricsEvaluator
from sealberg.scan.bounds_filter import BoundsFilter
from sealberg.scan.column_filter import nullable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec


class FileFilter:
    """One filter, for files of all partition specs.

    Args:
        schema: the schema that the filter is bound to.
        row_filter: an unbound expression.
    """

    def __init__(
        self,
        specs: Mapping[int, PartitionSpec],
        schema: Schema,
        row_filter: BooleanExpression,
        *,
        case_sensitive: bool = True,
        include_empty_files: bool = False,
    ) -> None:
        self._specs = specs
        self._schema = nullable(schema)
        self._filter = row_filter
        self._case_sensitive = case_sensitive
        self._include_empty_files = include_empty_files
        self._everything = isinstance(row_filter, AlwaysTrue)
        self._partition_evaluators = KeyDefaultDict(self._partition_evaluator)
        self._statistics = InclusiveMetricsEvaluator(self._schema, row_filter, case_sensitive, include_empty_files)
        self._bounds_filter = BoundsFilter(self._statistics.expr)

    def may_match(self, file: DataFile) -> bool:
        """Whether this data file may hold a row that matches the filter, by its partition and its bounds."""
        if self._everything:
            return self._include_empty_files or file.record_count != 0
        if self._bounds_filter.rules_out(file):
            return False
        return self.partition_may_match(file) and self._statistics_may_match(file)

    def partition_may_match(self, file: DataFile) -> bool:
        """Whether this data or delete file may hold a row that matches the filter, by its partition alone."""
        return self._everything or self._partition_evaluators[file.spec_id](file)

    def _statistics_may_match(self, file: DataFile) -> bool:
        try:
            return self._statistics.eval(file)
        except struct.error:
            # A date column promoted to timestamp: its old bounds have four bytes, and PyIceberg expects eight.
            return True

    def _partition_evaluator(self, spec_id: int) -> Callable[[DataFile], bool]:
        spec = self._specs[spec_id]
        projected = inclusive_projection(self._schema, spec, self._case_sensitive)(self._filter)
        partition = Schema(*spec.partition_type(self._schema).fields)
        evaluate = expression_evaluator(partition, projected, self._case_sensitive)
        return lambda file: evaluate(file.partition)
