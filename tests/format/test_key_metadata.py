"""The key-metadata codec against fastavro, against every mutation, and with its key kept to itself."""

from __future__ import annotations

import dataclasses
import io
import pickle
import traceback

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.examples import examples
from sealberg.errors import ConfigError, KeyMetadataError, KeyMetadataVersionError
from sealberg.format.key_metadata import MAX_LONG, KeyMetadata

many = examples(5)

KEY = bytes(range(0xA0, 0xB0))
keys = st.sampled_from([16, 24, 32]).flatmap(lambda n: st.binary(min_size=n, max_size=n))
aad_prefixes = st.none() | st.binary(max_size=100) | st.binary(min_size=16, max_size=16)
lengths = st.none() | st.integers(0, MAX_LONG) | st.integers(0, 2**22) | st.integers(0, 63).map(lambda n: (1 << n) - 1)
values = st.builds(KeyMetadata, keys, aad_prefixes, lengths)

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "encryption_key", "type": "bytes"},
        {"name": "aad_prefix", "type": ["null", "bytes"]},
        {"name": "file_length", "type": ["null", "long"]},
    ],
}


def by_fastavro(value: KeyMetadata) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, dataclasses.asdict(value))
    return b"\x01" + out.getvalue()


def decode_or_none(blob: bytes) -> KeyMetadata | None:
    """Whatever the bytes: a value, or an error of the codec. Anything else fails the test."""
    try:
        return KeyMetadata.decode(blob)
    except KeyMetadataError:
        return None


# -- codec --------------------------------------------------------------------------------------


@many
@given(values)
@example(KeyMetadata(KEY, b"", 0))
@example(KeyMetadata(KEY, None, MAX_LONG))
def test_encodes_byte_for_byte_as_avro_does(value: KeyMetadata) -> None:
    blob = value.encode()
    assert blob == by_fastavro(value)
    assert KeyMetadata.decode(blob) == value


@many
@given(values)
def test_every_cut_is_refused_but_the_two_fields_of_old_releases(value: KeyMetadata) -> None:
    blob = value.encode()
    two_fields = dataclasses.replace(value, file_length=None).encode()[:-1]
    for cut in range(len(blob)):
        assert decode_or_none(blob[:cut]) == (value_without_length(value) if blob[:cut] == two_fields else None)


def value_without_length(value: KeyMetadata) -> KeyMetadata:
    return dataclasses.replace(value, file_length=None)


@many
@given(values, st.binary(min_size=1, max_size=40))
def test_anything_after_the_record_is_refused(value: KeyMetadata, more: bytes) -> None:
    with pytest.raises(KeyMetadataError, match="trailing"):
        KeyMetadata.decode(value.encode() + more)


@many
@given(st.data(), values)
def test_any_changed_byte_gives_a_valid_value_or_is_refused(data: st.DataObject, value: KeyMetadata) -> None:
    blob = bytearray(value.encode())
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= data.draw(st.integers(1, 255))
    found = decode_or_none(bytes(blob))
    if found is not None:
        assert found != value
        assert KeyMetadata.decode(found.encode()) == found


@many
@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\x01\x20" + tail))
def test_arbitrary_bytes_give_a_value_or_are_refused(blob: bytes) -> None:
    found = decode_or_none(blob)
    if found is not None:
        assert KeyMetadata.decode(found.encode()) == found


def test_all_other_versions_are_refused_in_the_words_of_java() -> None:
    for version in set(range(256)) - {1}:
        blob = bytes([version]) + KeyMetadata(KEY).encode()[1:]
        with pytest.raises(KeyMetadataVersionError, match=f"Cannot resolve schema for version: {version}$"):
            KeyMetadata.decode(blob)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_decodes_to_bytes(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    found = KeyMetadata.decode(kind(KeyMetadata(KEY, b"aad", 36).encode()))
    assert (type(found.encryption_key), type(found.aad_prefix)) == (bytes, bytes)
    assert found == KeyMetadata(KEY, b"aad", 36)


# -- the value ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 15, 17, 33])
def test_key_of_another_length_makes_no_value(length: int) -> None:
    with pytest.raises(ConfigError, match=f"Invalid key length: {length}"):
        KeyMetadata(bytes(length))


@pytest.mark.parametrize("length", [-1, MAX_LONG + 1])
def test_impossible_file_length_makes_no_value(length: int) -> None:
    with pytest.raises(ConfigError, match=str(length)):
        KeyMetadata(KEY, file_length=length)


@many
@given(values, st.integers(0, MAX_LONG))
def test_with_length_changes_the_length_alone(value: KeyMetadata, length: int) -> None:
    known = value.with_length(length)
    assert known.file_length == length
    assert (known.encryption_key, known.aad_prefix) == (value.encryption_key, value.aad_prefix)


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        KeyMetadata(KEY).file_length = 36  # type: ignore[misc]


# -- secrets ------------------------------------------------------------------------------------


def test_key_shows_in_no_text() -> None:
    value = KeyMetadata(KEY, b"aad", 36)
    for shown in (repr(value), str(value), f"{value}", repr([value]), repr({"key": value})):
        assert_no_key(shown)
        assert "36" in shown


def test_key_is_no_input_of_the_hash() -> None:
    """A hash may end up in logs or other processes; a guess at a key could be checked against it."""
    assert hash(KeyMetadata(KEY, b"aad", 36)) == hash(KeyMetadata(KEY[::-1], b"aad", 36))
    assert KeyMetadata(KEY, b"aad", 36) != KeyMetadata(KEY[::-1], b"aad", 36)


def test_key_shows_in_no_failure() -> None:
    blob = KeyMetadata(KEY, KEY[::-1], 1048612).encode()
    broken = [blob[:cut] for cut in range(len(blob))]
    broken += [blob + KEY, blob[:1] + b"\x1e" + blob[2:], blob[:18] + b"\x04" + blob[19:]]
    refused = 0
    for case in broken:
        try:
            KeyMetadata.decode(case)
        except KeyMetadataError as error:
            refused += 1
            assert_no_key(str(error) + repr(error) + "".join(traceback.format_exception(error)))
    assert refused == len(broken) - 1  # the form with two fields is fine


def test_value_survives_pickling() -> None:
    """Spark tasks carry the keys of their own files."""
    value = KeyMetadata(KEY, b"aad", 36)
    assert pickle.loads(pickle.dumps(value)) == value


def assert_no_key(shown: str) -> None:
    for part in (KEY, KEY[::-1]):
        for text in (part.hex(), repr(part)[2:-1], str(list(part))[1:-1], part[:4].hex(), repr(part[:4])[2:-1]):
            assert text not in shown
