"""AES-GCM against the vectors of Project Wycheproof: every length of key, nonce and tag, and every known trap."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sealberg.errors import AuthenticationError, IntegrityError
from sealberg.format import aes_gcm

SUITE = json.loads((Path(__file__).parents[2] / "vectors" / "wycheproof" / "aes_gcm_test.json").read_text())
CASES = [
    pytest.param(group, case, id=f"{case['tcId']}-{case['result']}")
    for group in SUITE["testGroups"]
    for case in group["tests"]
]


def parts(case: dict[str, Any]) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    key, nonce, aad, plain, sealed, tag = (
        bytes.fromhex(case[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
    )
    return key, nonce, aad, plain, sealed, tag


def test_all_of_them_are_here_and_every_length_of_key() -> None:
    assert len(CASES) == SUITE["numberOfTests"] == 316
    usable = Counter(
        group["keySize"]
        for group in SUITE["testGroups"]
        for case in group["tests"]
        if (group["ivSize"], group["tagSize"]) == (96, 128)
    )
    assert set(usable) == {128, 192, 256}


@pytest.mark.parametrize(("group", "case"), CASES)
def test_a_message_opens_only_where_it_should(group: dict[str, Any], case: dict[str, Any]) -> None:
    key, nonce, aad, plain, sealed, tag = parts(case)
    stored = nonce + sealed + tag
    if (group["ivSize"], group["tagSize"]) != (96, 128):
        # Iceberg has nonces of 12 and tags of 16 bytes. Bytes made with others must not open.
        with pytest.raises(IntegrityError):
            aes_gcm.open(key, stored, aad)
    elif case["result"] == "valid":
        assert aes_gcm.open(key, stored, aad) == plain
        assert aes_gcm._seal(key, plain, aad, nonce) == stored
        if not aad:
            assert aes_gcm.open(key, stored, None) == plain
    else:
        with pytest.raises(AuthenticationError):
            aes_gcm.open(key, stored, aad)
