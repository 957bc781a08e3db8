"""A vector file: header lines, an empty line, the payload.

    about: an empty stream is one empty block, 36 bytes in all
    expect: success
    payload: hex

    4147533100001000000102030405060708090a0b6c9a081dbea0030cb8410d4b
    b5d2b422

`payload` says how to read what follows the empty line: `hex`, a `recipe` (see recipe.py), or
`json`. The name of a vector is its place: folder/file without the ending.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COLUMNS = 64


@dataclass(frozen=True)
class Vector:
    """One case: a name, the header fields in their order, and the payload as text."""

    name: str
    header: Mapping[str, str]
    payload: str

    def to_text(self) -> str:
        lines = [f"{field}: {value}".rstrip() for field, value in self.header.items()]
        return "\n".join([*lines, "", self.payload]).rstrip("\n") + "\n"

    @classmethod
    def read(cls, path: Path) -> Vector:
        head, _, payload = path.read_text(encoding="utf-8").partition("\n\n")
        header: dict[str, str] = {}
        for line in head.splitlines():
            field, colon, value = line.partition(":")
            if not colon or field in header:
                raise ValueError(f"{path.name}: a header line is `field: value`, each field once, found {line!r}")
            header[field] = value.strip()
        return cls(f"{path.parent.name}/{path.stem}", header, payload)


def wrap_hex(payload: bytes) -> str:
    digits = payload.hex()
    return "\n".join(digits[at : at + COLUMNS] for at in range(0, len(digits), COLUMNS))
