"""No file that holds a matching row is skipped, and no less is skipped than by PyIceberg."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator as InclusiveMetricsEvaluator

from kit.tables.file_columns import ListedFiles
from kit.tables.filter_cases import SCHEMA, cases, file_of
from sealberg.scan.column_filter import MetricsFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.expressions import BooleanExpression


@pytest.mark.slow
@given(cases())
def test_no_file_with_a_matching_row_is_skipped(
    case: tuple[str, list[tuple[list[Any], dict[str, Any]]], BooleanExpression, Callable[[Any], bool]],
) -> None:
    name, files, expression, says = case
    kept = MetricsFilter(SCHEMA, expression).may_match(ListedFiles([file_of(name, *file) for file in files]))
    for (rows, found), is_kept in zip(files, kept, strict=True):
        assert is_kept or not any(map(says, rows)), (expression, rows, found)


@pytest.mark.slow
@given(cases())
def test_no_less_is_skipped_than_by_pyiceberg_where_pyiceberg_is_right(
    case: tuple[str, list[tuple[list[Any], dict[str, Any]]], BooleanExpression, Callable[[Any], bool]],
) -> None:
    name, files, expression, _ = case
    if name == "uuid":
        return  # PyIceberg trusts bounds that Java has joined in another order
    if "NotStartsWith" in repr(expression):
        return  # PyIceberg takes a missing count of nulls for a count of zero
    theirs = InclusiveMetricsEvaluator(SCHEMA, expression)
    for rows, found in files:
        file = file_of(name, rows, found)
        try:
            if theirs.eval(file):
                continue
        except struct.error:
            continue  # bounds of a date that became a timestamp
        if name == "float" and MetricsFilter(SCHEMA, expression).may_match(ListedFiles([file]))[0]:
            continue  # PyIceberg compares a float's bound with a literal that no float equals
        assert not MetricsFilter(SCHEMA, expression).may_match(ListedFiles([file]))[0], (expression, rows, found)


@given(cases(), some.sets(some.sampled_from(["values", "nulls", "nans", "lower", "upper"]), min_size=1))
def test_no_file_is_skipped_for_want_of_a_statistic(
    case: tuple[str, list[tuple[list[Any], dict[str, Any]]], BooleanExpression, Callable[[Any], bool]],
    unknown: set[str],
) -> None:
    """Plans look at some of the statistics first, and at no other of a manifest without a file that is kept."""
    name, files, expression, _ = case
    metrics = MetricsFilter(SCHEMA, expression)
    kept = metrics.may_match(ListedFiles([file_of(name, *file) for file in files]))
    fewer = [(rows, {key: found[key] for key in found.keys() - unknown}) for rows, found in files]
    kept_by_fewer = metrics.may_match(ListedFiles([file_of(name, *file) for file in fewer]))
    assert (kept_by_fewer >= kept).all(), (expression, files)
