"""The content of a keystore: a JWK set."""

from __future__ import annotations

import json

import pytest

from keys.test_keystore import CREATED, HR
from sealberg.errors import (
    ConfigError,
    FormatError,
    SealbergError,
)
from sealberg.keys.keystore.jwk import Keystore, MasterKey

GOOD = '{"kty": "oct", "kid": "hr", "k": "AAAAAAAAAAAAAAAAAAAAAA"}'
BAD: dict[str, str | bytes] = {
    "not JSON": "{",
    "not UTF-8": b"\xff",
    "an array": "[]",
    "no keys": "{}",
    "keys no array": '{"keys": {}}',
    "key no object": '{"keys": [1]}',
    "no kid": '{"keys": [{"kty": "oct", "k": "AAAAAAAAAAAAAAAAAAAAAA"}]}',
    "kid no string": '{"keys": [{"kty": "oct", "kid": 1, "k": "AAAAAAAAAAAAAAAAAAAAAA"}]}',
    "kid empty": '{"keys": [{"kty": "oct", "kid": "", "k": "AAAAAAAAAAAAAAAAAAAAAA"}]}',
    "kid with an escape": '{"keys": [{"kty": "oct", "kid": "\\u001b[31m", "k": "AAAAAAAAAAAAAAAAAAAAAA"}]}',
    "no k": '{"keys": [{"kty": "oct", "kid": "hr"}]}',
    "k padded": '{"keys": [{"kty": "oct", "kid": "hr", "k": "AAAAAAAAAAAAAAAAAAAAAA=="}]}',
    "k not canonical": '{"keys": [{"kty": "oct", "kid": "hr", "k": "AAAAAAAAAAAAAAAAAAAAAB"}]}',
    "k in plain base64": '{"keys": [{"kty": "oct", "kid": "hr", "k": "++++++++++++++++++++++"}]}',
    "k not ASCII": '{"keys": [{"kty": "oct", "kid": "hr", "k": "äAAAAAAAAAAAAAAAAAAAAA"}]}',
    "k of odd length": '{"keys": [{"kty": "oct", "kid": "hr", "k": "AAAAAAAAAAAAAAAAAAAA"}]}',
    "k empty": '{"keys": [{"kty": "oct", "kid": "hr", "k": ""}]}',
    "two of one kid": f'{{"keys": [{GOOD}, {GOOD}]}}',
    "a member twice": f'{{"keys": [], "keys": [{GOOD}]}}',
    "no number": f'{{"keys": [{GOOD}], "more": NaN}}',
    "too deep": '{"keys":' + "[" * 100_000 + "]" * 100_000 + "}",
}


class TestJwkSet:
    def test_good_one_is_good(self) -> None:
        assert Keystore.decode(f'{{"keys": [{GOOD}]}}'.encode()).keys == (MasterKey("hr", bytes(16)),)

    @pytest.mark.parametrize("name", BAD)
    def test_is_refused(self, name: str) -> None:
        text = BAD[name]
        with pytest.raises(SealbergError) as caught:
            Keystore.decode(text if isinstance(text, bytes) else text.encode())
        assert type(caught.value) is FormatError
        assert "AAAA" not in str(caught.value)
        assert caught.value.__cause__ is None

    def test_what_is_not_understood_is_kept(self) -> None:
        text = {
            "keys": [
                {"kty": "oct", "kid": "hr", "k": "A" * 22, "x-owner": {"team": "people"}, "iat": "long ago"},
                {"kty": "EC", "kid": "hr", "crv": "P-256"},
            ],
            "x-note": [1, None, "two"],
        }
        decoded = Keystore.decode(json.dumps(text).encode())
        assert decoded.keys[0].created is None
        grown = decoded.with_keys([HR.renamed("more")])
        again = json.loads(grown.encode())
        assert [again["keys"][0], again["keys"][2]] == text["keys"]
        assert again["x-note"] == text["x-note"]
        assert Keystore.decode(grown.encode()) == grown

    @pytest.mark.parametrize("length", [16, 24, 32])
    def test_generated_key_has_its_length_and_time(self, length: int) -> None:
        key = MasterKey.generate("hr", CREATED, length)
        assert len(key.key) == length
        assert key.created == CREATED
        assert key.key != MasterKey.generate("hr", CREATED, length).key

    @pytest.mark.parametrize("length", [0, 15, 33])
    def test_other_lengths_are_refused(self, length: int) -> None:
        with pytest.raises(ConfigError, match=str(length)):
            MasterKey.generate("hr", CREATED, length)

    @pytest.mark.parametrize("name", ["", " hr", "hr\n", "h\x1br"])
    def test_ids_that_a_terminal_would_hide_are_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match="printable"):
            MasterKey.generate(name, CREATED)

    @pytest.mark.parametrize("seconds", [1e300, -1e300, True, None, []])
    def test_creation_beyond_the_calendar_is_none(self, seconds: object) -> None:
        assert MasterKey("hr", bytes(16), {"iat": seconds}).created is None
