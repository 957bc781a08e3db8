"""Whether a plan looks at the columns of its filter first, and at whole manifests only where those leave a file.

    few manifests                                        whole
    the filter is about partitions only                  whole: partition ranges have excluded manifests already
    more than half of the first manifests keep a file    the others whole
    else                                                 the columns of the filter first (SearchedColumns)

Searching costs a third of decoding a manifest, and is lost where a file is left.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundStartsWith,
    Or,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.partitioning import PartitionSpec

    from sealberg.metadata.searched_columns import SearchedColumns

MANY: Final = 32  # manifests
SAMPLE: Final = 16

_LOWER, _UPPER, _BOTH = ("lower_bound",), ("upper_bound",), ("lower_bound", "upper_bound")
# What excludes most files. Counts exclude files without a value from comparisons, too: the second look finds those.
_STATISTICS: Final[dict[type, tuple[str, ...]]] = {
    BoundIsNull: ("null_value_count",),
    BoundNotNull: ("null_value_count", "value_count"),
    BoundIsNaN: ("nan_value_count", "null_value_count", "value_count"),
    BoundNotNaN: ("nan_value_count", "value_count"),
    BoundLessThan: _LOWER,
    BoundLessThanOrEqual: _LOWER,
    BoundGreaterThan: _UPPER,
    BoundGreaterThanOrEqual: _UPPER,
    BoundEqualTo: _BOTH,
    BoundIn: _BOTH,
    BoundStartsWith: _BOTH,
    BoundNotEqualTo: ("null_value_count", *_BOTH),
    BoundNotIn: ("null_value_count", *_BOTH),
    BoundNotStartsWith: ("null_value_count", *_BOTH),
}


class ManifestSearch:
    """Decides for each manifest of one plan; threads may share it.

    Args:
        bound: the filter, bound to the table's schema.
        manifests: how many the plan has to look at.
    """

    def __init__(self, bound: BooleanExpression, specs: Mapping[int, PartitionSpec], manifests: int) -> None:
        leaves = list(_leaves(bound))
        self.statistics = frozenset(chain.from_iterable(_STATISTICS[type(leaf)] for leaf in leaves))
        columns = {leaf.term.ref().field.field_id for leaf in leaves}
        self._specs = {
            spec_id for spec_id, spec in specs.items() if not columns <= {field.source_id for field in spec.fields}
        }
        self._worth = manifests >= MANY
        self._searched = self._left = 0

    def begins(self, spec_id: int) -> bool:
        """Whether to look at the columns of the filter first."""
        return self._worth and spec_id in self._specs

    def is_answered_by(self, columns: SearchedColumns) -> bool:
        """Whether these columns are what to look at first."""
        return self.begins(columns.spec_id) and columns.known.keys() >= self.statistics

    def note(self, *, left: bool) -> None:
        """Whether the columns of the filter left a file of a manifest."""
        self._searched += 1  # a thread may lose the count of another: the counts need not be exact
        self._left += left
        if self._searched >= SAMPLE:
            self._worth = self._left <= self._searched // 2


def _leaves(bound: BooleanExpression) -> Iterator[BoundPredicate]:
    if isinstance(bound, And | Or):
        yield from _leaves(bound.left)
        yield from _leaves(bound.right)
    elif isinstance(bound, BoundPredicate):
        yield bound
