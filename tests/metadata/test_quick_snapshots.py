"""Quick snapshots are pydantic's, and what is not regular is left to pydantic."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sealberg.metadata import java_json, quick_snapshots
from sealberg.metadata.table_metadata import V3Snapshot, snapshot_json

NUMBERS = some.integers(-1, 2**63)
WORDS = some.text(max_size=4)
REGULAR = some.fixed_dictionaries(
    {
        "snapshot-id": NUMBERS,
        "timestamp-ms": NUMBERS,
        "manifest-list": WORDS,
        "summary": some.dictionaries(WORDS, WORDS, max_size=3).map(lambda more: {**more, "operation": "append"}),
    },
    optional={
        "parent-snapshot-id": NUMBERS,
        "sequence-number": NUMBERS,
        "schema-id": NUMBERS,
        "first-row-id": NUMBERS,
        "added-rows": NUMBERS,
        "key-id": WORDS,
    },
)


def quick(raw: Any) -> Any:
    return quick_snapshots.quick_snapshots(V3Snapshot, [raw])[0]  # type: ignore[index]


@given(REGULAR)
def test_a_regular_snapshot_equals_pydantics_in_everything(raw: dict[str, Any]) -> None:
    ours, theirs = quick(raw), V3Snapshot.model_validate(raw)
    assert type(ours) is V3Snapshot
    assert ours == theirs
    assert ours.model_fields_set == theirs.model_fields_set
    assert (ours.model_extra, vars(ours)) == (theirs.model_extra, vars(theirs))
    assert (repr(ours), snapshot_json(ours), ours.model_dump_json()) == (
        repr(theirs),
        snapshot_json(theirs),
        theirs.model_dump_json(),
    )
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours.model_copy()):
        assert copied == theirs
    assert ours.model_copy(update={"schema_id": 7}).schema_id == 7
    assert ours.summary is not None
    assert raw["summary"]["operation"] == "append", "the parsed JSON is as it was"


@pytest.mark.parametrize(
    "change",
    [
        {"snapshot-id": "5"},
        {"snapshot-id": True},
        {"timestamp-ms": None},
        {"manifest-list": 5},
        {"schema-id": None},
        {"summary": {"operation": "append", "n": 5}},
        {"summary": {"operation": "other"}},
        {"summary": {"operation": ["append"]}},
        {"summary": {}},
        {"summary": None},
        {"unknown": 1},
        {"sequence-number": java_json.Number.read("1.0")},
    ],
)
def test_what_is_not_regular_is_left_to_pydantic(change: dict[str, Any]) -> None:
    regular = {"snapshot-id": 1, "timestamp-ms": 2, "manifest-list": "a", "summary": {"operation": "append"}}
    assert type(quick(regular)) is V3Snapshot
    raw = {**regular, **change}
    assert quick(raw) is raw


@pytest.mark.parametrize("given_", [None, {}, "x", 5])
def test_what_is_no_list_is_left_to_pydantic(given_: object) -> None:
    assert quick_snapshots.quick_snapshots(V3Snapshot, given_) is given_
