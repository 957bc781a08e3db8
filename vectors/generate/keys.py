"""Vectors of the key chain: an `encryption-keys` list, and the key of one snapshot to find in it.

    master key ──wraps──> KEK ──seals, with its KEY_TIMESTAMP as AAD──> key metadata of a manifest list

The master keys belong to Java's test KMS: AES-GCM without AAD. The payload is the list as it
stands in table metadata; a good vector names the key metadata that the snapshot gets.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from vectors.generate.key_metadata import AAD_PREFIX, KEYS, avro
from vectors.recipe import gcm
from vectors.text import Vector

if TYPE_CHECKING:
    from collections.abc import Callable

Entry = dict[str, object]

MASTER_KEYS = {"keyA": b"0123456789012345", "keyB": b"1123456789012345"}
KEK = bytes(range(0x10, 0x20))
TIMESTAMP = "1750000000000"
LIST_KEY = avro(KEYS[16], AAD_PREFIX, 4321)

KNOWN_KEK = "AAECAwQFBgcICQoLsOUOyy8P+L6l57ZE4oPEyYRa3kej5osMjhiFklvxu0k="
KNOWN_LIST_KEY = "DA0ODxAREhMUFRYXj6NsqaudaBEPW57u0uxxiZaRfC6StGgvASHo8M/wBStJNNo1zuNkgU8PsvSSjdob4C4HKOB+8w=="

_makers: list[Callable[[], Vector]] = []


def every_vector() -> list[Vector]:
    return [make() for make in _makers]


def b64(raw: bytes | bytearray) -> str:
    return base64.b64encode(raw).decode()


def key_id(number: int) -> str:
    return b64(bytes([number]) * 16)


KEK_ID, LIST_ID = key_id(0xEE), key_id(0x11)


def kek(entry_id: str = KEK_ID, master: str = "keyA", timestamp: str | None = TIMESTAMP, key: bytes = KEK) -> Entry:
    wrapped = gcm(MASTER_KEYS[master], bytes(range(12)), key, b"")
    entry: Entry = {"key-id": entry_id, "encrypted-key-metadata": b64(wrapped), "encrypted-by-id": master}
    return entry if timestamp is None else entry | {"properties": {"KEY_TIMESTAMP": timestamp}}


def list_key(entry_id: str = LIST_ID, by: str = KEK_ID, aad: str = TIMESTAMP, key: bytes = KEK) -> Entry:
    sealed = gcm(key, bytes(range(12, 24)), LIST_KEY, aad.encode())
    return {"key-id": entry_id, "encrypted-key-metadata": b64(sealed), "encrypted-by-id": by}


def chain(
    *entries: Entry, expect: str = "success", snapshot: str = LIST_ID, source: str = "vectors/generate"
) -> Callable[[str, str], Vector]:
    def vector(name: str, about: str) -> Vector:
        header = {
            "about": about,
            "source": source,
            "expect": expect,
            "table-key-id": "keyA",
            "master-keys": " ".join(f"{name}={key.hex()}" for name, key in MASTER_KEYS.items()),
            "snapshot-key-id": snapshot,
        }
        if expect == "success":
            header["key-metadata"] = LIST_KEY.hex()
        return Vector(f"keys/{name}", header | {"payload": "json"}, json.dumps(entries, indent=1))

    return vector


def case(maker: Callable[[], Callable[[str, str], Vector]]) -> None:
    _makers.append(lambda: maker()(maker.__name__, str(maker.__doc__)))


@case
def chain_good() -> Callable[[str, str], Vector]:
    """a KEK, and a manifest list's key under it"""
    first, second = kek(), list_key()
    if (first["encrypted-key-metadata"], second["encrypted-key-metadata"]) != (KNOWN_KEK, KNOWN_LIST_KEY):
        raise ValueError("the chain is not the known answer")
    return chain(first, second, source="an independent script and the cipher of JDK 17; the same bytes from OpenSSL")


@case
def order_reversed() -> Callable[[str, str], Vector]:
    """the order of the list means nothing: Java writes it out of a hash map"""
    return chain(list_key(), kek())


@case
def padding_missing() -> Callable[[str, str], Vector]:
    """base64 without its padding, which Java's decoder takes"""
    entry = list_key()
    return chain(kek(), entry | {"encrypted-key-metadata": str(entry["encrypted-key-metadata"]).rstrip("=")})


@case
def strangers() -> Callable[[str, str], Vector]:
    """entries that nobody points at, one without `encrypted-by-id`, and fields that we do not know"""
    stranger: Entry = {"key-id": "stranger", "encrypted-key-metadata": "AAAA", "of-tomorrow": {"a": 1}}
    return chain(stranger, kek(), list_key(), list_key(key_id(0x12), by="gone"))


@case
def kek_of_32_bytes() -> Callable[[str, str], Vector]:
    """a KEK may be longer than the keys under it"""
    return chain(kek(key=KEK + KEK), list_key(key=KEK + KEK))


@case
def second_kek() -> Callable[[str, str], Vector]:
    """two KEKs after a rotation: the list's own is taken"""
    return chain(kek(key_id(0xDD), timestamp="1680000000000", key=KEK[::-1]), kek(), list_key())


@case
def kek_timestamp_missing() -> Callable[[str, str], Vector]:
    """the KEK has no timestamp, so no AAD is known"""
    return chain(kek(timestamp=None), list_key(), expect="KeyringError")


@case
def kek_timestamp_of_the_proposal() -> Callable[[str, str], Vector]:
    """the timestamp has the name of the proposal on the developers' list; Java does not find it"""
    return chain(kek(timestamp=None) | {"properties": {"key-timestamp": TIMESTAMP}}, list_key())


@case
def kek_timestamp_twice() -> Callable[[str, str], Vector]:
    """the timestamp has both names, and one value"""
    return chain(kek() | {"properties": {"KEY_TIMESTAMP": TIMESTAMP, "key-timestamp": TIMESTAMP}}, list_key())


@case
def kek_timestamps_differ() -> Callable[[str, str], Vector]:
    """two timestamps: the one that Java reads was added, to make the KEK look younger"""
    forged = {"KEY_TIMESTAMP": "1760000000000", "key-timestamp": TIMESTAMP}
    return chain(kek() | {"properties": forged}, list_key(), expect="KeyringError")


@case
def kek_timestamp_altered() -> Callable[[str, str], Vector]:
    """the KEK was made to look a millisecond younger"""
    return chain(kek(timestamp="1750000000001"), list_key(), expect="AuthenticationError")


@case
def kek_timestamp_padded() -> Callable[[str, str], Vector]:
    """the same number in other characters: the AAD is the text"""
    return chain(kek(timestamp="01750000000000"), list_key(), expect="AuthenticationError")


@case
def kek_unknown() -> Callable[[str, str], Vector]:
    """the list's key is sealed by a KEK that is not there"""
    return chain(kek(), list_key(by=key_id(0x77)), expect="KeyNotFoundError")


@case
def kek_by_other_master_key() -> Callable[[str, str], Vector]:
    """the KEK says keyA and is wrapped by keyB"""
    return chain(kek(master="keyB") | {"encrypted-by-id": "keyA"}, list_key(), expect="WrongKeyError")


@case
def kek_of_foreign_master_key() -> Callable[[str, str], Vector]:
    """keyB really wraps the KEK, but the table's key is keyA: whoever writes metadata could name a key of his own"""
    return chain(kek(master="keyB"), list_key(), expect="IntegrityError")


@case
def kek_of_the_future() -> Callable[[str, str], Vector]:
    """a KEK made in the year 2286 by its timestamp, which is also the AAD below"""
    future = "9999999999999"
    return chain(kek(timestamp=future), list_key(aad=future), expect="KeyringError")


@case
def kek_copied() -> Callable[[str, str], Vector]:
    """the same wrapped bytes again, under a new id and a later timestamp, to be used for longer"""
    return chain(kek(), list_key(), kek(key_id(0xDD), timestamp="1760000000000"), expect="KeyringError")


@case
def kek_altered() -> Callable[[str, str], Vector]:
    """one bit of the wrapped KEK"""
    wrapped = bytearray(base64.b64decode(KNOWN_KEK))
    wrapped[20] ^= 1
    return chain(kek() | {"encrypted-key-metadata": b64(wrapped)}, list_key(), expect="WrongKeyError")


@case
def list_key_altered() -> Callable[[str, str], Vector]:
    """one bit of the sealed key metadata"""
    sealed = bytearray(base64.b64decode(KNOWN_LIST_KEY))
    sealed[20] ^= 1
    return chain(kek(), list_key() | {"encrypted-key-metadata": b64(sealed)}, expect="AuthenticationError")


@case
def list_key_too_short() -> Callable[[str, str], Vector]:
    """less than a nonce and a tag"""
    return chain(kek(), list_key() | {"encrypted-key-metadata": b64(bytes(27))}, expect="AuthenticationError")


@case
def snapshot_key_unknown() -> Callable[[str, str], Vector]:
    """the snapshot names a key that is not there"""
    return chain(kek(), list_key(), snapshot=key_id(0x77), expect="KeyNotFoundError")


@case
def points_at_kek() -> Callable[[str, str], Vector]:
    """the snapshot names the KEK"""
    return chain(kek(), list_key(), snapshot=KEK_ID, expect="KeyringError")


@case
def cycle() -> Callable[[str, str], Vector]:
    """two entries sealed by each other"""
    properties = {"properties": {"KEY_TIMESTAMP": TIMESTAMP}}
    return chain(list_key() | properties, list_key(KEK_ID, by=LIST_ID) | properties, expect="KeyringError")


@case
def cycle_of_one() -> Callable[[str, str], Vector]:
    """an entry sealed by itself"""
    properties = {"properties": {"KEY_TIMESTAMP": TIMESTAMP}}
    return chain(kek(), list_key(by=LIST_ID) | properties, expect="KeyringError")


@case
def id_twice() -> Callable[[str, str], Vector]:
    """two entries of one id; Java cannot load the table either"""
    return chain(kek(), list_key(), list_key(key=KEK[::-1]), expect="KeyringError")


@case
def base64_of_urls() -> Callable[[str, str], Vector]:
    """the alphabet with - and _"""
    altered = {"encrypted-key-metadata": KNOWN_LIST_KEY.replace("/", "_").replace("+", "-")}
    return chain(kek(), list_key() | altered, expect="KeyringError")


@case
def properties_null() -> Callable[[str, str], Vector]:
    """properties are left out when there are none, never null"""
    return chain(kek(), list_key() | {"properties": None}, expect="KeyringError")


@case
def encrypted_key_metadata_missing() -> Callable[[str, str], Vector]:
    """an entry without its bytes"""
    entry = list_key()
    del entry["encrypted-key-metadata"]
    return chain(kek(), entry, expect="KeyringError")
