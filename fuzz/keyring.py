"""Arbitrary `encryption-keys` into the keyring, and a real list altered before a table is opened with it.

    python fuzz/keyring.py -max_total_time=300

Only errors of this library may come out. A list that parses is written as it was read. A list key that
opens in an altered list is the one that was sealed. The payloads of vectors/keys are the first corpus.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import KeyNotFoundError, KeyringError, SealbergError
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.key_tree import key_tree
    from sealberg.keys.keyring import Keyring
    from sealberg.keys.kms.memory import MemoryKms
    from sealberg.keys.manager import EncryptionManager, EncryptionSettings

VECTORS = Path(__file__).parent.parent / "vectors" / "keys"
NOW = 1_760_000_000_000
KMS = MemoryKms({"hr": bytes(16), "other": b"o" * 32})
MANAGER = EncryptionManager(EncryptionSettings("db.t", "hr", cache_ttl_s=0), kms=KMS, now_ms=lambda: NOW)
LIST_KEY = KeyMetadata(bytes(range(16)), bytes(16), 36)
RING, LIST_ID = MANAGER.seal_list_key(Keyring(), LIST_KEY)
TEXTS = [RING.entries[0].key_id, LIST_ID, "hr", "other", str(NOW), str(NOW + 10**9), "", "KEY_TIMESTAMP", "a"]
MEMBERS = ["key-id", "encrypted-key-metadata", "encrypted-by-id", "properties", "unknown"]


def parse(data: bytes) -> None:
    """Bytes that may be JSON of any shape."""
    try:
        keys = json.loads(data)
    except (ValueError, RecursionError):
        return
    check(keys)


def check(keys: Any) -> Keyring | None:
    try:
        ring = Keyring.from_json(keys)
    except KeyringError:
        return None
    assert Keyring.from_json(ring.to_json()) == ring, "a ring is not read as it was written"
    for entry in ring:
        assert len(entry.encrypted_key_metadata) < 4 or entry.encrypted_key_metadata.hex() not in repr(entry)
        with contextlib.suppress(KeyringError, KeyNotFoundError):
            ring.list_key(entry.key_id)
    try:
        active = ring.active_kek(NOW, master_key_id="hr")
    except KeyringError:
        active = None
    assert active is None or (active.timestamp_ms is not None and active.timestamp_ms <= NOW + 86_400_000)
    key_tree(ring, [{"snapshot-id": 1, "key-id": entry.key_id} for entry in ring] + [{"snapshot-id": 2}])
    return ring


def alter(data: bytes) -> None:
    """A list that was sealed here, with some members replaced, entries moved, copied and removed."""
    plan = atheris.FuzzedDataProvider(data)
    keys = [dict(entry) for entry in RING.to_json()]
    for _ in range(plan.ConsumeIntInRange(0, 6)):
        at = plan.ConsumeIntInRange(0, max(len(keys) - 1, 0))
        act = plan.ConsumeIntInRange(0, 4)
        if act == 0 or not keys:
            keys.insert(at, {} if not keys else dict(keys[at]))
        elif act == 1:
            keys.append(keys.pop(at))
        elif act == 2:
            del keys[at]
        else:
            keys[at][plan.PickValueInList(MEMBERS)] = value(plan)
    ring = check(keys)
    if ring is None:
        return
    for key_id in [entry.key_id for entry in ring] + [LIST_ID]:
        try:
            assert MANAGER.open_list_key(ring, key_id) == LIST_KEY, "another key opened than was sealed"
        except SealbergError as error:
            said = str(error)
            assert keys != RING.to_json() or key_id != LIST_ID, f"a list that nobody altered was refused: {said}"
    try:
        grown, key_id = MANAGER.seal_list_key(ring, LIST_KEY)
    except SealbergError:
        return
    assert MANAGER.open_list_key(grown, key_id) == LIST_KEY
    assert all(entry in grown.entries for entry in ring), "sealing lost a key"


def value(plan: Any) -> Any:
    kind = plan.ConsumeIntInRange(0, 5)
    if kind == 0:
        return plan.PickValueInList([*TEXTS, *(str(key["encrypted-key-metadata"]) for key in RING.to_json())])
    if kind == 1:
        return plan.ConsumeUnicode(12)
    if kind == 2:
        stamp = plan.PickValueInList(TEXTS) if plan.ConsumeBool() else plan.ConsumeUnicode(22)
        return {"KEY_TIMESTAMP": stamp}
    if kind == 3:
        return {plan.ConsumeUnicode(4): plan.PickValueInList([None, 1, "x", []])}
    return plan.PickValueInList([None, 7, [], {}, True, "AAAA", "A", "A=", "===="])


def either(data: bytes) -> None:
    if data[:1] == b"\0":
        alter(data[1:])
    else:
        parse(data)


def main() -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for vector in VECTORS.glob("*.txt"):
            (Path(corpus) / vector.stem).write_text(vector.read_text().partition("\n\n")[2])
        (Path(corpus) / "altered").write_bytes(bytes(64))
        atheris.Setup([*sys.argv, corpus], either)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
