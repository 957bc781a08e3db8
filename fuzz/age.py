"""Arbitrary and altered files into the reader of age keystores.

    python fuzz/age.py -max_total_time=300

Only errors of this library may come out. What opens is what was sealed here, in the one spelling that age
has for it, and pyrage (the Rust implementation) opens it to the same bytes. Files name their own scrypt
work factor; only small ones are derived for real here, because a fuzzer has no minute for each file.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import atheris
import pyrage

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import AuthenticationError, FormatError, UnsupportedError, WrongKeyError
    from sealberg.keys.keystore import age

PASSPHRASE: Final = "open sesame"  # noqa: S105 (of files made here)
CHEAP: Final = 4
PLAIN: Final = bytes(range(256)) * 257  # two chunks
_derive = age._wrap_key  # noqa: SLF001


def _cheap_wrap_key(passphrase: str, salt: bytes, work_factor: int) -> bytes:
    return _derive(passphrase, salt, work_factor) if work_factor <= CHEAP else bytes(32)


age._wrap_key = _cheap_wrap_key  # noqa: SLF001
FILES: Final = [
    age._seal(PLAIN[:length], PASSPHRASE, work, salt=bytes(16), file_key=b"f" * 16, nonce=b"n" * 16)  # noqa: SLF001
    # One large file only: a keystore is small, and large files make a fuzzer slow.
    for length, work in ((0, 1), (1, 2), (100, 1), (100, CHEAP), (300, 1), (301, 2), (3000, 1), (len(PLAIN), 1))
]


def armored(sealed: bytes) -> bytes:
    text = base64.b64encode(sealed)
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return b"-----BEGIN AGE ENCRYPTED FILE-----\n" + b"\n".join(lines) + b"\n-----END AGE ENCRYPTED FILE-----\n"


def read(data: bytes) -> None:
    plan = atheris.FuzzedDataProvider(data)
    way = plan.ConsumeIntInRange(0, 3)
    # The large file seldom, and never armored: it takes as long as twenty small ones.
    sealed = FILES[-1] if way == 1 and plan.ConsumeIntInRange(0, 15) == 0 else plan.PickValueInList(FILES[:-1])
    file = plan.ConsumeBytes(4096) if way == 0 else altered(plan, sealed)
    if way == 2:
        file = armored(file)
    if way == 3:
        file = altered(plan, armored(sealed))
    try:
        plain = age.open(file, PASSPHRASE)
        age.work_factor(file)
    except (FormatError, AuthenticationError, UnsupportedError, WrongKeyError) as error:
        said = str(error)
        assert file not in FILES, f"a file that nobody altered was refused: {said}"
        assert PASSPHRASE not in said
        return
    assert PLAIN.startswith(plain), "other plaintext than was sealed here"
    binary = age._dearmor(file) if file.lstrip().startswith(b"-----") else file  # noqa: SLF001
    assert binary in FILES, "an altered file opened"
    assert pyrage.passphrase.decrypt(binary, PASSPHRASE) == plain


def altered(plan: Any, sealed: bytes) -> bytes:
    """Bytes replaced, put in, taken out and cut off, mostly in the header, where there is most to parse."""
    file = bytearray(sealed)
    for _ in range(plan.ConsumeIntInRange(0, 4)):
        at = plan.ConsumeIntInRange(0, len(file) if plan.ConsumeBool() else min(len(file), 220))
        act = plan.ConsumeIntInRange(0, 3)
        if act == 0:
            file[at : at + 1] = plan.ConsumeBytes(1)
        elif act == 1:
            file[at:at] = plan.ConsumeBytes(plan.ConsumeIntInRange(1, 40))
        elif act == 2:
            del file[at : at + plan.ConsumeIntInRange(1, 100)]
        else:
            del file[at:]
    return bytes(file)


def main() -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for number, sealed in enumerate(FILES[:2]):
            (Path(corpus) / f"sealed-{number}").write_bytes(sealed)
            (Path(corpus) / f"armored-{number}").write_bytes(armored(sealed))
        atheris.Setup([*sys.argv, corpus], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
