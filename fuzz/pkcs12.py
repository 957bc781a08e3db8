"""Arbitrary and altered PKCS12 stores, and what lies behind their MAC and their password.

    python fuzz/pkcs12.py -max_total_time=300

Only errors of this library may come out. Bytes that a MAC covers would never be reached by altered stores,
so the target also seals what it made up: the safes under a right MAC, and the key under a right password.
A store names its own number of iterations; only small ones are derived here.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import FormatError, UnsupportedError, WrongKeyError
    from sealberg.keys.keystore import der, pkcs12
    from sealberg.keys.keystore.jwk import MasterKey

PASSWORD: Final = "open sesame"  # noqa: S105 (of stores made here)
CHEAP: Final = 3
KEYS: Final = tuple(MasterKey.made(f"k{n}", bytes(range(n)), datetime(2026, 1, 2, tzinfo=UTC)) for n in (16, 32))
STORE: Final = pkcs12.seal(KEYS, PASSWORD, iterations=CHEAP)
pkcs12.MAX_ITERATIONS = CHEAP  # type: ignore[misc]


def _safes(store: bytes) -> bytes:
    pfx = der.Reader(store).enter()
    pfx.take_integer()
    return pkcs12._data(pfx.enter())  # noqa: SLF001


SAFES: Final = _safes(STORE)


def read(data: bytes) -> None:
    plan = atheris.FuzzedDataProvider(data)
    way = plan.ConsumeIntInRange(0, 3)
    if way == 0:
        store = plan.ConsumeBytes(4096)
    elif way == 1:
        store = altered(plan, STORE)
    elif way == 2:
        store = vouched(altered(plan, SAFES) if plan.ConsumeBool() else plan.ConsumeBytes(4096))
    else:
        store = vouched(der.encode(der.SEQUENCE, pkcs12._content(der.encode(der.SEQUENCE, bag(plan)))))  # noqa: SLF001
    try:
        keys = pkcs12.open(store, PASSWORD)
    except (FormatError, UnsupportedError, WrongKeyError) as error:
        said = str(error)
        assert store != STORE, f"a store that nobody altered was refused: {said}"
        assert not any(key.key.hex() in said for key in KEYS)
        return
    if way < 2:
        assert keys == KEYS, "an altered store opened to other keys"
    for key in keys:
        assert len(key.key) in {16, 24, 32}
        assert key.id == key.id.lower() != ""
        assert key.key.hex() not in repr(key)


def vouched(safes: bytes) -> bytes:
    """A store with these safes and a MAC that is right."""
    mac = pkcs12._mac_data(safes, PASSWORD, CHEAP)  # noqa: SLF001
    return der.encode(der.SEQUENCE, der.integer(3), pkcs12._content(safes), mac)  # noqa: SLF001


def bag(plan: Any) -> bytes:
    """A secret bag whose inside was made up, under a password that is right."""
    recipe = pkcs12.Pbes2(bytes(20), CHEAP, "sha256", 32, bytes(16))
    algorithm = der.encode(der.SEQUENCE, der.oid(pkcs12.AES))
    key = plan.ConsumeBytes(plan.PickValueInList([16, 24, 32, 0, 7]))
    pkcs8 = der.encode(der.SEQUENCE, der.integer(0), algorithm, der.encode(der.OCTETS, key))
    inside = altered(plan, pkcs8)
    sealed = recipe.encrypt(inside, PASSWORD) if plan.ConsumeBool() else plan.ConsumeBytes(64)
    shrouded = der.encode(der.SEQUENCE, altered(plan, recipe.encode()), der.encode(der.OCTETS, sealed))
    secret = der.encode(
        der.SEQUENCE, der.oid(pkcs12.SHROUDED_KEY), der.encode(der.CONTEXT_0, der.encode(der.OCTETS, shrouded))
    )
    name = plan.ConsumeBytes(8) if plan.ConsumeBool() else "k".encode("utf-16-be")
    made = plan.ConsumeBytes(20) if plan.ConsumeBool() else b"Time 1767323045000"
    attributes = der.encode(
        der.SET,
        pkcs12._attribute(pkcs12.FRIENDLY_NAME, der.encode(der.BMP_STRING, name)),  # noqa: SLF001
        pkcs12._attribute(pkcs12.LOCAL_KEY_ID, der.encode(der.OCTETS, made)),  # noqa: SLF001
    )
    return der.encode(der.SEQUENCE, der.oid(pkcs12.SECRET_BAG), der.encode(der.CONTEXT_0, secret), attributes)


def altered(plan: Any, value: bytes) -> bytes:
    file = bytearray(value)
    for _ in range(plan.ConsumeIntInRange(0, 4)):
        at = plan.ConsumeIntInRange(0, len(file))
        act = plan.ConsumeIntInRange(0, 3)
        if act == 0:
            file[at : at + 1] = plan.ConsumeBytes(1)
        elif act == 1:
            file[at:at] = plan.ConsumeBytes(plan.ConsumeIntInRange(1, 20))
        elif act == 2:
            del file[at : at + plan.ConsumeIntInRange(1, 40)]
        else:
            del file[at:]
    return bytes(file)


def main() -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate((STORE, SAFES, bytes([3]) + bytes(200))):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        atheris.Setup([*sys.argv, corpus], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
