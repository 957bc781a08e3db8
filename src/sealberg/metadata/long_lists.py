"""The long lists of a large metadata.json: checked as text at once, made into objects when somebody asks.

    text ──cut──> the text without its long lists ──JSON──> model
            └───> snapshots, snapshot-log, encryption-keys ──one regular expression each──> LongList

A table with thousands of snapshots spends nearly all of its metadata.json on three lists, and most readers need one
snapshot of them. A list is cut out only if every object of it is regular: the members that Java writes, in Java's
order, of the right types, without escapes and white space. For such a list a parser could find nothing to refuse.
Everything else is parsed and validated as a whole, with the same errors as ever.

The cut leaves a mark in the text, a string with U+0000, which a text that is cut does not have elsewhere. If the mark
is not found as the member of the outermost object afterwards, the list was elsewhere, and nothing is cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sealberg.metadata import java_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LEAST: Final = 128 << 10  # bytes of a text that are worth a cut

_NUMBER: Final = r"(?:0|-?[1-9][0-9]{0,18}+)"
_TEXT: Final = r'"[^"]*+"'
_SNAPSHOT: Final = (
    rf'\{{(?:"sequence-number":{_NUMBER},)?+"snapshot-id":{_NUMBER},(?:"parent-snapshot-id":{_NUMBER},)?+'
    rf'"timestamp-ms":{_NUMBER},"summary":\{{"operation":"(?:append|replace|overwrite|delete)"'
    rf'(?:,(?!"operation"){_TEXT}:{_TEXT})*+\}},"manifest-list":{_TEXT}(?:,"schema-id":{_NUMBER})?+'
    rf'(?:,"first-row-id":{_NUMBER})?+(?:,"added-rows":{_NUMBER})?+(?:,"key-id":{_TEXT})?+\}}'
)
_LOG_ENTRY: Final = rf'\{{"timestamp-ms":{_NUMBER},"snapshot-id":{_NUMBER}\}}'
_KEY: Final = (
    r'\{"key-id":"([^"]*+)","encrypted-key-metadata":"([A-Za-z0-9+/]*+={0,2}+)","encrypted-by-id":"([^"]*+)"'
    rf'(?:,"properties":(\{{{_TEXT}:{_TEXT}(?:,{_TEXT}:{_TEXT})*+\}}))?+\}}'
)
_REGULAR: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(rf"\[(?:{form}(?:,(?=\{{)|(?=\])))++\]")
    for name, form in (("encryption-keys", _KEY), ("snapshots", _SNAPSHOT), ("snapshot-log", _LOG_ENTRY))
}
_KEYS: Final = re.compile(_KEY)
_NEXT_SNAPSHOT: Final = '},{"s'  # in no string: a quote ends it, and "s" follows no end of a string
MOST_FOUND: Final = 4  # snapshots that are looked for in the text before all are made


@dataclass(frozen=True, eq=False)
class LongList:
    """A list whose objects are all regular: a piece of the text of a metadata.json."""

    document: str = field(repr=False)
    start: int
    end: int

    def __deepcopy__(self, _memo: object) -> LongList:
        return self  # immutable

    def parsed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = java_json.loads(self.document[self.start : self.end])
        return found

    def keys(self) -> list[tuple[str, str, str, str]]:
        """Of encryption-keys: id, wrapped key in base64, id of the wrapping key, properties as JSON or nothing."""
        return _KEYS.findall(self.document, self.start, self.end)

    def snapshot(self, snapshot_id: int) -> dict[str, Any] | None:
        """Of snapshots: the first with this id."""
        # A parent's id has no quote before it.
        found = self.document.find(f'"snapshot-id":{snapshot_id},', self.start, self.end)
        if found < 0:
            return None
        start, end = self.document.rindex("{", 0, found), self.document.find(_NEXT_SNAPSHOT, found, self.end)
        raw: dict[str, Any] = java_json.loads(self.document[start : end + 1 if end >= 0 else self.end - 1])
        return raw


def cut(text: bytes, parse: Callable[[str], Any], least: int = LEAST) -> dict[str, Any] | None:
    """The parsed text with a `LongList` in place of each list that is long and regular; None if there is none.

    ValueError if the text is not JSON in UTF-8; the message is about the text without its lists.
    """
    if len(text) < least or np.frombuffer(text, np.uint8).min() < 0x20:
        return None
    escapes = b"\\" in text
    if escapes and b"\\u0000" in text:
        return None
    document, lists, at = text.decode(), {}, 0
    for name, regular in _REGULAR.items():
        member = f'"{name}":'
        start = document.find(f"{member}[", at)  # after the lists that Java writes before it
        if start < 0 < at:
            start = document.find(f"{member}[", 0, at)
        found = regular.match(document, start + len(member)) if start >= 0 else None
        if found is not None and not (escapes and "\\" in found[0]):
            lists[name] = LongList(document, found.start(), found.end())
            at = max(at, found.end())
    raw = parse(_without(document, lists)) if lists else None
    if not isinstance(raw, dict) or any(raw.get(name) != f"\0{name}" for name in lists):
        return None
    raw.update(lists)
    return raw


def _without(document: str, lists: Mapping[str, LongList]) -> str:
    """The text with a mark in place of each list; regular lists do not hold one another."""
    pieces, at = [], 0
    for name, each in sorted(lists.items(), key=lambda pair: pair[1].start):
        pieces += [document[at : each.start], f'"\\u0000{name}"']
        at = each.end
    return "".join((*pieces, document[at:]))
