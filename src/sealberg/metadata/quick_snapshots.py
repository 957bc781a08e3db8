"""Snapshots from parsed JSON without pydantic's validators, for tables with thousands of snapshots.

Only objects that have the members of the specification, each of the right type, are made here. All others stay as they
are, and pydantic accepts or refuses them. What is made here equals what pydantic makes, which a test compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table.snapshots import Operation, Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.snapshots import Snapshot

_NAMES: Final[Mapping[str, str]] = {
    "snapshot-id": "snapshot_id",
    "parent-snapshot-id": "parent_snapshot_id",
    "sequence-number": "sequence_number",
    "timestamp-ms": "timestamp_ms",
    "manifest-list": "manifest_list",
    "summary": "summary",
    "schema-id": "schema_id",
    "first-row-id": "first_row_id",
    "added-rows": "added_rows",
    "key-id": "key_id",
}
_TYPES: Final[Mapping[str, type]] = {"manifest-list": str, "key-id": str, "summary": dict}  # all others: int
_NEEDED: Final = frozenset({"snapshot-id", "timestamp-ms", "manifest-list", "summary"})
_OPERATIONS: Final = {operation.value: operation for operation in Operation}
_GIVEN: Final = {"operation"}
_ONLY_TEXT: Final = frozenset({str})


def quick_snapshots(kind: type[Snapshot], given: object) -> object:
    """The list with snapshots of this class in place of the objects that are regular."""
    if not isinstance(given, list):
        return given
    forms = _Forms({name: field.default for name, field in kind.model_fields.items()})
    return [_snapshot(kind, forms, each) if type(each) is dict else each for each in given]


class _Forms(dict[tuple[str, ...], Any]):
    """The names and types of regular snapshots with these members, by the members; None if they are not regular."""

    def __init__(self, unset: Mapping[str, Any]) -> None:
        self.unset = unset

    def __missing__(self, members: tuple[str, ...]) -> Any:
        form = None
        if _NEEDED.issubset(members) and _NAMES.keys() >= set(members):
            names = tuple(_NAMES[member] for member in members)
            # All snapshots share the set of given fields: a snapshot is frozen.
            form = names, tuple(_TYPES.get(member, int) for member in members), set(names)
        self[members] = form
        return form


def _snapshot(kind: type[Snapshot], forms: _Forms, raw: dict[str, Any]) -> object:
    form = forms[tuple(raw)]
    if form is None or tuple(map(type, raw.values())) != form[1]:
        return raw
    summary = _summary(raw["summary"])
    if summary is None:
        return raw
    names, _, given = form
    return _made(
        kind, {**forms.unset, **dict(zip(names, raw.values(), strict=True)), "summary": summary}, given, {}, None
    )


def _summary(raw: dict[str, Any]) -> Any:
    others = raw.copy()
    operation = others.pop("operation", None)
    if type(operation) is not str or operation not in _OPERATIONS or set(map(type, others.values())) - _ONLY_TEXT:
        return None
    values = {"operation": _OPERATIONS[operation]}
    return _made(Summary, values, _GIVEN, None, {"_additional_properties": others})


def _made(kind: type[Any], values: dict[str, Any], given: set[str], extra: Any, private: Any) -> Any:
    # As pydantic's `model_construct`, which would look up every field's aliases and defaults again.
    made: Any = object.__new__(kind)
    put = object.__setattr__
    put(made, "__dict__", values)
    put(made, "__pydantic_fields_set__", given)
    put(made, "__pydantic_extra__", extra)
    put(made, "__pydantic_private__", private)
    return made
