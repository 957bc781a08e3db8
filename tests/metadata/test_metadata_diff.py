"""Two metadata documents: every place at which they differ is found, and a change in place is known for one."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealberg.metadata.metadata_diff import GROUPS, Difference, differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCUMENT: dict[str, Any] = {
    "format-version": 3,
    "table-uuid": "u",
    "location": "file:///t",
    "last-sequence-number": 2,
    "last-updated-ms": 5,
    "last-column-id": 2,
    "current-schema-id": 1,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "type": "int", "required": False}]},
        {
            "type": "struct",
            "schema-id": 1,
            "fields": [
                {"id": 1, "name": "a", "type": "int", "required": False},
                {"id": 2, "name": "b", "type": {"type": "list", "element-id": 3, "element": "int"}, "required": False},
            ],
        },
    ],
    "default-spec-id": 0,
    "partition-specs": [
        {"spec-id": 0, "fields": [{"name": "a", "transform": "identity", "source-id": 1, "field-id": 1000}]}
    ],
    "last-partition-id": 1000,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "properties": {"encryption.key-id": "hr", "x": "y"},
    "current-snapshot-id": 7,
    "next-row-id": 3,
    "encryption-keys": [
        {"key-id": "k", "encrypted-key-metadata": "c2VjcmV0", "encrypted-by-id": "hr", "properties": {"t": "1"}}
    ],
    "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
    "snapshots": [
        {"snapshot-id": 6, "timestamp-ms": 1, "summary": {"operation": "append"}, "manifest-list": "l6", "key-id": "k"},
        {"snapshot-id": 7, "timestamp-ms": 2, "summary": {"operation": "append"}, "manifest-list": "l7", "key-id": "k"},
    ],
    "statistics": [{"snapshot-id": 7, "statistics-path": "s", "blob-metadata": [{"type": "x", "fields": [1]}]}],
    "partition-statistics": [],
    "snapshot-log": [{"timestamp-ms": 1, "snapshot-id": 6}, {"timestamp-ms": 2, "snapshot-id": 7}],
    "metadata-log": [{"timestamp-ms": 1, "metadata-file": "m"}],
    "new-member": {"deep": [1, {"a": True}]},
}


def changed(change: Callable[[dict[str, Any]], object]) -> list[Difference]:
    after = copy.deepcopy(DOCUMENT)
    change(after)
    return differences(DOCUMENT, after)


def test_the_same_document_has_no_differences() -> None:
    assert differences(DOCUMENT, copy.deepcopy(DOCUMENT)) == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*path, name))
    else:
        yield path


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


@pytest.mark.parametrize("value", ["other", None, 1.0, True, [], {}], ids=repr)
@pytest.mark.parametrize("path", list(leaves(DOCUMENT)), ids=lambda path: ".".join(map(str, path)))
def test_every_changed_leaf_is_found(path: tuple[Any, ...], value: Any) -> None:
    after = copy.deepcopy(DOCUMENT)
    put(after, path, value)
    found = differences(DOCUMENT, after)
    assert found or (type(value) is type(_at(DOCUMENT, path)) and value == _at(DOCUMENT, path))
    fixed = {"schemas", "partition-specs", "sort-orders", "snapshots", "encryption-keys"}
    id_of_item = len(path) == 3 and path[2] in {"schema-id", "spec-id", "order-id", "snapshot-id", "key-id"}
    if path[0] in fixed and found and (path[0], path[2:3]) != ("snapshots", ("snapshot-id",)) and not id_of_item:
        assert any(each.in_place for each in found)


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("path", list(leaves(DOCUMENT)), ids=lambda path: ".".join(map(str, path)))
def test_every_removed_leaf_is_found(path: tuple[Any, ...]) -> None:
    after = copy.deepcopy(DOCUMENT)
    del _at(after, path[:-1])[path[-1]]
    assert differences(DOCUMENT, after)
    assert differences(after, DOCUMENT)


NAMES = st.sampled_from([*DOCUMENT, "id", "schema-id", "z"])
LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)


@given(value=VALUES, data=st.data())
def test_documents_differ_if_and_only_if_a_difference_is_found(value: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*DOCUMENT, "unknown"]))
    other = data.draw(st.just(value) | VALUES)
    found = differences({**DOCUMENT, name: value}, {**DOCUMENT, name: other})
    assert bool(found) == (json.dumps(value, sort_keys=True) != json.dumps(other, sort_keys=True))


def test_new_content_under_a_new_id_is_no_change_in_place() -> None:
    def commit(after: dict[str, Any]) -> None:
        after["schemas"].append({"type": "struct", "schema-id": 2, "fields": []})
        after["snapshots"].append({"snapshot-id": 8, "manifest-list": "l8", "key-id": "k2"})
        after["snapshots"].pop(0)
        after["encryption-keys"].append({"key-id": "k2", "encrypted-key-metadata": "c2VjcmV0Mg=="})
        after["refs"]["main"]["snapshot-id"] = after["current-snapshot-id"] = 8

    found = changed(commit)
    assert not [each for each in found if each.in_place]
    assert [(each.group, each.change, each.path) for each in found] == [
        ("schemas", "added", "schemas[2]"),
        ("snapshots", "removed", "snapshots[6]"),
        ("snapshots", "added", "snapshots[8]"),
        ("current snapshot and refs", "changed", "current-snapshot-id"),
        ("current snapshot and refs", "changed", "refs.main.snapshot-id"),
        ("encryption keys", "added", "encryption-keys[k2]"),
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda after: after["schemas"][1]["fields"].reverse(), "schemas[1].fields (order)"),
        (lambda after: after["schemas"].append(dict(after["schemas"][0])), "schemas[2]"),
        (lambda after: after["snapshots"].append({**after["snapshots"][1], "manifest-list": "l6"}), "snapshots[2]"),
        (lambda after: after["snapshots"][1].update({"manifest-list": "l6"}), "snapshots[7].manifest-list"),
        (lambda after: after["encryption-keys"][0]["properties"].update(t="2"), "encryption-keys[k].properties.t"),
        (lambda after: after.update(schemas={}), "schemas"),
        (lambda after: after.update({"table-uuid": "v"}), "table-uuid"),
    ],
)
def test_a_change_in_place_is_known_for_one(change: Callable[[dict[str, Any]], object], path: str) -> None:
    assert path in [each.path for each in changed(change) if each.in_place]


def test_null_and_nothing_are_shown_and_mean_the_same() -> None:
    (found,) = changed(lambda after: after["snapshots"][0].update({"schema-id": None}))
    assert (found.path, found.change, found.in_place) == ("snapshots[6].schema-id", "added", False)


def test_a_wrapped_key_is_shown_by_a_digest() -> None:
    found = changed(lambda after: after["encryption-keys"][0].update({"encrypted-key-metadata": "b3RoZXI="}))
    found += changed(lambda after: after["encryption-keys"].clear())
    found += changed(lambda after: after["encryption-keys"].append("x"))
    assert len(found) == 3
    assert "c2VjcmV0" not in repr(found)
    assert "b3RoZXI=" not in repr(found)
    assert str(found[0].before).startswith("6 bytes, SHA-256 ")


def test_every_member_has_one_group() -> None:
    members = [name for group in GROUPS.values() for name in group]
    assert len(members) == len(set(members))
    (found,) = changed(lambda after: after["new-member"]["deep"][1].update(a=1))
    assert (found.group, found.path) == ("unknown members", "new-member.deep[1].a")
