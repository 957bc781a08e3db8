"""Lists that are cut out of a metadata.json are the lists of the whole text, and refused texts stay refused."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel

from kit.tables import golden
from sealberg.errors import FormatError
from sealberg.keys.keyring import Keyring
from sealberg.keys.long_keyring import LongKeyring
from sealberg.metadata import java_json, long_lists, metadata_file
from sealberg.metadata.long_lists import MOST_FOUND, LongList, cut
from sealberg.metadata.table_metadata import V3Snapshot, V3TableMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("encryption-keys", "snapshots", "snapshot-log")
FILES = sorted(
    path for table in golden.TABLES for path in (golden.root() / "wh/db.db" / table / "metadata").glob("*metadata.json")
)


def document(snapshots: int = 6) -> dict[str, Any]:
    """The newest metadata of a table that Java wrote, with more snapshots."""
    path = max(FILES, key=lambda path: path.stat().st_size)
    raw: dict[str, Any] = json.loads(golden.metadata_text(path))
    kek = next(key for key in raw["encryption-keys"] if "properties" in key)
    made, keys = [], [kek]
    for number in range(1, snapshots + 1):
        key_id = base64.b64encode(b"%012d" % number).decode()
        keys.append({"key-id": key_id, "encrypted-key-metadata": "QUJDRA==", "encrypted-by-id": kek["key-id"]})
        snapshot = {
            "sequence-number": number,
            "snapshot-id": number,
            "parent-snapshot-id": number - 1,
            "timestamp-ms": number,
            "summary": {"operation": "append", "added-records": "1", "é},{": "},{", "a": "[]"},
            "manifest-list": f"s3://b/{number}.avro",
            "schema-id": 0,
            "first-row-id": 0,
            "added-rows": 1,
            "key-id": key_id,
        }
        if number == 1:
            del snapshot["parent-snapshot-id"]
        made.append(snapshot)
    log = [{"timestamp-ms": number, "snapshot-id": number} for number in range(1, snapshots + 1)]
    raw |= {"encryption-keys": keys, "snapshots": made, "snapshot-log": log, "current-snapshot-id": snapshots}
    return raw | {"refs": {"main": {"snapshot-id": snapshots, "type": "branch"}}}


def text_of(raw: object) -> bytes:
    return json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()


def quick(text: bytes) -> V3TableMetadata:
    raw = cut(text, java_json.loads, least=0)
    assert raw is not None
    return V3TableMetadata.from_raw(raw)


def outcome(act: Callable[[], V3TableMetadata]) -> tuple[Any, ...]:
    try:
        made = act()
    except (FormatError, ValueError) as error:
        return type(error), str(error)
    kinds = {type(each) for each in made.snapshots}
    return made.to_json(), made.snapshots, made.snapshot_log, tuple(made.encryption_keys), kinds, made.document


def both(text: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """With and without the cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists.cut, "__defaults__", (0,))
        patch.setattr("time.time", lambda: 5.0)  # PyIceberg's timestamp of a snapshot without one
        long = outcome(lambda: V3TableMetadata.from_raw(metadata_file.parse_long(text, "here")))
        return long, outcome(lambda: V3TableMetadata.from_raw(metadata_file.parse(text, "here")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.name[:5]}")
def test_metadata_of_java_are_cut_and_written_again_byte_for_byte(path: Any) -> None:
    text = golden.metadata_text(path)
    raw = json.loads(text)
    found = cut(text.encode(), java_json.loads, least=0)
    assert {name for name in NAMES if raw.get(name)} == {
        name for name in NAMES if found is not None and isinstance(found.get(name), LongList)
    }
    if found is not None:
        assert V3TableMetadata.from_raw(found).to_json() == text


def test_metadata_with_long_lists_are_as_any_other() -> None:
    text = text_of(document())
    plain, long = V3TableMetadata.from_json(text), quick(text)
    assert not {"snapshots", "snapshot_log"} & vars(long).keys()
    assert isinstance(long.encryption_keys, LongKeyring)
    assert long.snapshots == plain.snapshots
    assert type(long.snapshots) is list
    assert long.snapshots is long.snapshots
    assert long.snapshot_log == plain.snapshot_log
    assert long.model_fields_set == plain.model_fields_set
    assert long == plain
    for made in (
        copy.deepcopy(quick(text)),
        quick(text).model_copy(),
        quick(text).model_copy(deep=True),
        pickle.loads(pickle.dumps(quick(text))),
        quick(text).in_java_form(),
    ):
        assert made == plain
        assert made.snapshots == plain.snapshots
    assert sorted(repr(quick(text))) == sorted(repr(plain))  # the fields may be in another order
    assert dict(quick(text)) == dict(plain)
    assert quick(text).document == plain.document
    assert quick(text).model_dump() == plain.model_dump()
    assert quick(text).model_copy(update={"snapshots": []}).snapshots == []


def test_metadata_within_another_model_are_serialized_whole() -> None:
    class Answer(BaseModel):
        metadata: V3TableMetadata

    text = text_of(document())
    dumped = Answer(metadata=quick(text)).model_dump()
    assert dumped == Answer(metadata=V3TableMetadata.from_json(text)).model_dump()
    assert len(dumped["metadata"]["snapshots"]) == 6


def test_a_snapshot_is_found_in_the_text_without_making_the_others() -> None:
    long, plain = quick(text_of(document(12))), V3TableMetadata.from_json(text_of(document(12)))
    for snapshot_id in (1, 12, 6, 99):
        assert long.snapshot_by_id(snapshot_id) == plain.snapshot_by_id(snapshot_id)
    assert long.current_snapshot() == plain.current_snapshot()
    assert "snapshots" not in vars(long)
    assert MOST_FOUND == 4
    assert long.snapshot_by_id(3) == plain.snapshot_by_id(3)
    assert "snapshots" in vars(long), "who asks for many snapshots gets all of them"


def test_snapshots_are_found_in_metadata_that_have_changed() -> None:
    metadata = V3TableMetadata.from_json(text_of(document(3)))
    assert [metadata.snapshot_by_id(each) for each in (1, 2, 3)] == metadata.snapshots
    fewer = metadata.model_copy(update={"snapshots": metadata.snapshots[1:]})
    assert fewer.snapshot_by_id(1) is None
    assert fewer.snapshot_by_id(2) is metadata.snapshot_by_id(2) is copy.deepcopy(metadata).snapshot_by_id(2)
    fewer.snapshots.pop()
    assert fewer.snapshot_by_id(3) is None
    assert metadata.snapshot_by_id(3) is metadata.snapshots[2]


def test_of_two_snapshots_with_one_id_the_first_is_found() -> None:
    raw = document(3)
    raw["snapshots"][1]["snapshot-id"] = 1
    plain = V3TableMetadata.from_json(text_of(raw))
    assert quick(text_of(raw)).snapshot_by_id(1) == plain.snapshot_by_id(1) == plain.snapshots[0]


def test_a_long_ring_is_the_ring_of_its_entries() -> None:
    raw = document(20)
    long, plain = quick(text_of(raw)).encryption_keys, Keyring.from_json(raw["encryption-keys"])
    key_id = plain.entries[5].key_id
    assert long.get(key_id) == plain.get(key_id)
    assert long.get("other") is None
    assert key_id in long
    assert len(long) == len(plain)
    assert "_whole" not in vars(long)
    assert long.list_key(key_id) == plain.list_key(key_id)
    assert (long, repr(long), hash(long), long.to_json()) == (plain, repr(plain), hash(plain), plain.to_json())
    assert plain == long
    assert long.get(key_id) == plain.get(key_id)
    assert pickle.loads(pickle.dumps(long)) == plain
    assert copy.deepcopy(long) is long
    assert long.without([key_id]) == plain.without([key_id])
    assert plain.diff(long) == long.diff(plain)


def test_escapes_elsewhere_do_not_prevent_the_cut() -> None:
    raw = document()
    raw["properties"] |= {"schema.name-mapping.default": '[{"field-id":1,"names":["a\\\\"]}]'}
    text = text_of(raw)
    assert b"\\" in text
    assert quick(text) == V3TableMetadata.from_json(text)


def test_short_texts_are_not_cut() -> None:
    assert cut(text_of(document()), java_json.loads) is None


HOSTILE: some.SearchStrategy[Any] = some.sampled_from(
    [None, True, 0, -1, 1.5, 1e400, 10**30, -(2**63), "", "x", "1", "\0", "\x7f", "\\", '"', "=", "QQ", "Q===", [], {}]
) | some.sampled_from([[1], {"a": 1}, {"operation": "append"}, {"operation": "other"}, "append", "é", "\u2028"])
HOSTILE = HOSTILE.map(copy.deepcopy)
KEY_IDS = some.sampled_from([base64.b64encode(b"%012d" % number).decode() for number in (1, 2)])


@pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")
@given(some.data())
def test_a_changed_document_is_accepted_or_refused_as_without_the_cut(data: some.DataObject) -> None:
    raw = document(3)
    for _ in range(data.draw(some.integers(1, 2))):
        name = data.draw(some.sampled_from(NAMES))
        if not isinstance(raw[name], list) or not raw[name] or data.draw(some.integers(0, 9)) == 0:
            raw[name] = data.draw(HOSTILE)
            continue
        place = data.draw(some.integers(0, len(raw[name]) - 1))
        target = raw[name][place]
        if not isinstance(target, dict) or data.draw(some.integers(0, 9)) == 0:
            raw[name][place] = data.draw(HOSTILE)
            continue
        if isinstance(target.get("summary"), dict) and data.draw(some.booleans()):
            target = target["summary"]
        member = data.draw(some.sampled_from([*target, "unknown", "operation"]))
        match data.draw(some.integers(0, 3)):
            case 0:
                target.pop(member, None)
            case 1:
                target[member] = data.draw(KEY_IDS)
            case 2:
                target[member] = target.pop(member, 1)  # the members in another order
            case _:
                target[member] = data.draw(HOSTILE)
    long, plain = both(text_of(raw))
    assert long == plain


@pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")  # both ways read it as PyIceberg does
@given(some.data())
def test_a_changed_text_is_accepted_or_refused_as_without_the_cut(data: some.DataObject) -> None:
    text = text_of(document(2))
    place = data.draw(some.integers(text.index(b'"encryption-keys"'), len(text)))
    gone = data.draw(some.integers(0, 3))
    new = data.draw(
        some.binary(max_size=2)
        | some.sampled_from([b'"', b"}", b"{", b",", b"]", b"-0", b"01", b" ", b"=", b"\\u0000"])
    )
    long, plain = both(text[:place] + new + text[place + gone :])
    assert long == plain


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["before", "after", "nested", "in-a-string", "behind-an-escape", "mark"])
def test_a_second_list_of_the_same_name_counts_as_in_the_whole_text(name: str, where: str) -> None:
    raw = document(3)
    text = text_of(raw)
    again = b'"%s":%s' % (name.encode(), text_of(document(2)[name]))
    match where:
        case "before":
            text = b"{" + again + b"," + text[1:]
        case "after":
            text = text[:-1] + b"," + again + b"}"
        case "nested":
            text = b'{"more":{' + again + b"}," + text[1:]
        case "in-a-string":
            text = text_of({"more": again.decode(), **raw})
        case "behind-an-escape":
            text = b'{"\\"' + again[1:] + b"," + text[1:]
        case _:
            text = text_of({**raw, name: f"\0{name}"})
            text = b'{"more":{' + again + b"}," + text[1:]
    long, plain = both(text)
    assert long == plain


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"snapshot-id":2,', b'"snapshot-id":02,'),
        (b'"snapshot-id":2,', b'"snapshot-id":-0,'),
        (b'"snapshot-id":2,', b'"snapshot-id":2.0,'),
        (b'"snapshot-id":2,', b'"snapshot-id":2e0,'),
        (b'"snapshot-id":2,', b'"snapshot-id":"2",'),
        (b'"snapshot-id":2,', b'"snapshot-id":%d,' % 10**40),
        (b'"added-records":"1"', b'"operation":"other"'),
        (b'"added-records":"1"', b'"added-records":"1","added-records":"2"'),
        (b'"added-records":"1"', b'"added-records":1'),
        (b'"operation":"append"', b'"operation":"other"'),
        (b'"added-rows":1', b'"added-rows":null'),
        (b'"added-rows":1', b'"added-rows":1,"more":[1]'),
        (b"QUJDRA==", b"QUJDRA"),
        (b"QUJDRA==", b"QUJDRA="),
        (b"QUJDRA==", b"QUJD===="),
        (b"QUJDRA==", b"QUJD RA="),
        (b"QUJDRA==", b"QUJDR-=="),
        (b"QUJDRA==", b"QUJDR\xff=="),
        (b"QUJDRA==", b"QUJDR\xed\xa0\x80=="),
        (b"QUJDRA==", b""),
        (b"MDAwMDAwMDAwMDAy", b"MDAwMDAwMDAwMDAx"),
        (b'"encrypted-by-id"', b'"encrypted-by-id":null,"other"'),
        (b'"timestamp-ms":2,"snapshot-id":2}', b'"snapshot-id":2,"timestamp-ms":2}'),
        (b'"timestamp-ms":2,"snapshot-id":2}', b'"timestamp-ms":2}'),
        (b"s3://b/2.avro", b"s3://b/\t.avro"),
        (b"s3://b/2.avro", b"s3://b/\xff.avro"),
        (b"s3://b/2.avro", b"\\ud800"),
    ],
)
def test_what_is_not_regular_is_accepted_or_refused_as_without_the_cut(find: bytes, put: bytes) -> None:
    text = text_of(document(3))
    assert find in text
    long, plain = both(text.replace(find, put))
    assert long == plain


@pytest.mark.parametrize("change", ["cycle", "self", "copy"])
def test_a_ring_that_is_refused_is_refused_with_the_same_words(change: str) -> None:
    raw = document(3)
    kek, first, second, _ = raw["encryption-keys"]
    match change:
        case "cycle":
            first["encrypted-by-id"], second["encrypted-by-id"] = second["key-id"], first["key-id"]
        case "self":
            kek["encrypted-by-id"] = kek["key-id"]
        case _:
            first |= {"encrypted-key-metadata": kek["encrypted-key-metadata"], "properties": kek["properties"]}
    long, plain = both(text_of(raw))
    assert long == plain
    assert long[0] is FormatError


def test_snapshots_of_a_long_list_are_of_our_class() -> None:
    assert {type(each) for each in quick(text_of(document())).snapshots} == {V3Snapshot}
