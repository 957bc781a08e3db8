"""The five operations: the files that a program is given in a folder, and what it must have made of them.

A field that is absent is no file. Numbers are decimal, the rest of the small fields are bare bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from vectors import cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vectors.recipe import Plain

HEADER: Final = b"AGS1\x00\x00\x10\x00"
NONCE: Final = 12
OVERHEAD: Final = 28
PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Open:
    """stream, key, aad-prefix, length, allow-missing-length > plaintext."""

    case: cases.StreamCase

    @property
    def name(self) -> str:
        return f"open {self.case.name}"

    @property
    def good(self) -> bool:
        return self.case.good

    @property
    def why(self) -> str:
        return f"{self.case.about} ({self.case.expect})"

    def give(self, folder: Path) -> None:
        with (folder / "stream").open("wb") as file:
            file.writelines(self.case.stored())
        allow = b"yes" if self.case.allow_missing_length else None
        _give(folder, {"key": self.case.key, "aad-prefix": self.case.aad_prefix, "allow-missing-length": allow})
        _give(folder, {"length": _digits(self.case.length)})

    def check(self, folder: Path, *, done: bool) -> None:
        """What came out, also before a failure, must be what may come out."""
        taken = self.case.taken()
        path = folder / "plaintext"
        if done or path.exists():
            for piece in _pieces(path):
                taken.take(piece)
        if done:
            taken.whole()


@dataclass(frozen=True)
class Seal:
    """plaintext, key, aad-prefix > stream, length."""

    case: cases.StreamCase
    plaintext: Plain
    nonces: set[bytes]  # of all streams of a run

    good = True

    @property
    def name(self) -> str:
        return f"seal {self.case.name}"

    @property
    def why(self) -> str:
        return self.case.about

    def give(self, folder: Path) -> None:
        with (folder / "plaintext").open("wb") as file:
            for start in range(0, len(self.plaintext), PIECE):
                file.write(self.plaintext.part(start, start + PIECE))
        _give(folder, {"key": self.case.key, "aad-prefix": self.case.aad_prefix})

    def check(self, folder: Path, *, done: bool) -> None:
        """Open the stream with another cipher than the program's."""
        if not done:
            return
        path, cipher = folder / "stream", AESGCM(self.case.key)
        length = path.stat().st_size if path.exists() else 0
        if (said := _read_number(folder / "length")) != length:
            raise cases.DifferenceError(f"the stream has {length} bytes, and `length` says {said}")
        blocks = self.plaintext.blocks()
        with path.open("rb") as stream:
            if (header := stream.read(len(HEADER))) != HEADER:
                raise cases.DifferenceError(f"the stream begins with {header.hex()}, not with {HEADER.hex()}")
            for index, plain in enumerate(blocks):
                sealed = stream.read(len(plain) + OVERHEAD)
                self._take_nonce(sealed[:NONCE], index)
                aad = (self.case.aad_prefix or b"") + index.to_bytes(4, "little")
                try:
                    opened = cipher.decrypt(sealed[:NONCE], sealed[NONCE:], aad)
                except (InvalidTag, ValueError) as error:
                    raise cases.DifferenceError(f"block {index} does not open") from error
                if opened != plain:
                    raise cases.DifferenceError(f"block {index} holds other bytes")
            if stream.read(1):
                raise cases.DifferenceError("the stream goes on after its last block")

    def _take_nonce(self, nonce: bytes, index: int) -> None:
        if nonce in self.nonces:
            raise cases.DifferenceError(f"block {index} has a nonce that was there before")
        self.nonces.add(nonce)


@dataclass(frozen=True)
class Decode:
    """blob > encryption-key, aad-prefix, file-length."""

    case: cases.BlobCase

    @property
    def name(self) -> str:
        return f"decode {self.case.name}"

    @property
    def good(self) -> bool:
        return self.case.good

    @property
    def why(self) -> str:
        return f"{self.case.about} ({self.case.expect})"

    def give(self, folder: Path) -> None:
        _give(folder, {"blob": self.case.blob})

    def check(self, folder: Path, *, done: bool) -> None:
        if not done:
            return
        _compare(folder, "encryption-key", self.case.encryption_key)
        _compare(folder, "aad-prefix", self.case.aad_prefix)
        if (found := _read_number(folder / "file-length")) != self.case.file_length:
            raise cases.DifferenceError(f"file-length is {found}, not {self.case.file_length}")


@dataclass(frozen=True)
class Encode:
    """encryption-key, aad-prefix, file-length > blob."""

    case: cases.BlobCase

    good = True

    @property
    def name(self) -> str:
        return f"encode {self.case.name}"

    @property
    def why(self) -> str:
        return self.case.about

    def give(self, folder: Path) -> None:
        length = _digits(self.case.file_length)
        _give(folder, {"encryption-key": self.case.encryption_key, "aad-prefix": self.case.aad_prefix})
        _give(folder, {"file-length": length})

    def check(self, folder: Path, *, done: bool) -> None:
        if done:
            _compare(folder, "blob", self.case.blob)


@dataclass(frozen=True)
class Find:
    """encryption-keys, master-keys, table-key-id, snapshot-key-id > key-metadata."""

    case: cases.ChainCase

    @property
    def name(self) -> str:
        return f"find {self.case.name}"

    @property
    def good(self) -> bool:
        return self.case.good

    @property
    def why(self) -> str:
        return f"{self.case.about} ({self.case.expect})"

    def give(self, folder: Path) -> None:
        masters = "".join(f"{key_id} {key.hex()}\n" for key_id, key in self.case.master_keys.items())
        texts = {"encryption-keys": self.case.entries, "master-keys": masters}
        ids = {"table-key-id": self.case.table_key_id, "snapshot-key-id": self.case.snapshot_key_id}
        _give(folder, {name: text.encode() for name, text in (texts | ids).items()})

    def check(self, folder: Path, *, done: bool) -> None:
        if done:
            _compare(folder, "key-metadata", self.case.key_metadata)


Operation = Open | Seal | Decode | Encode | Find


def every_operation() -> list[Operation]:
    streams, blobs = cases.streams(), cases.blobs()
    nonces: set[bytes] = set()
    # Streams that differ in nothing but in how they were altered are one stream to seal.
    sealed = {(c.key, c.aad_prefix, c.vector.header.get("plaintext")): c for c in reversed(streams) if c.good}
    return [
        *(Open(case) for case in streams),
        *(Seal(c, c.plaintext, nonces) for c in reversed(sealed.values()) if c.plaintext is not None),
        *(Decode(case) for case in blobs),
        *(Encode(case) for case in blobs if case.good and case.canonical),
        *(Find(case) for case in cases.chains()),
    ]


def _give(folder: Path, fields: Mapping[str, bytes | None]) -> None:
    for name, content in fields.items():
        if content is not None:
            (folder / name).write_bytes(content)


def _digits(number: int | None) -> bytes | None:
    return None if number is None else b"%d" % number


def _pieces(path: Path) -> Iterator[bytes]:
    if not path.exists():
        raise cases.DifferenceError(f"no file {path.name} was made")
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _read_number(path: Path) -> int | None:
    if not path.exists():
        return None
    text = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        return int(text)
    except ValueError as error:
        raise cases.DifferenceError(f"{path.name} is no number: {text!r}") from error


def _compare(folder: Path, name: str, expected: bytes | None) -> None:
    path = folder / name
    found = path.read_bytes() if path.exists() else None
    if found != expected:
        shown = ["no file" if each is None else each.hex() or "no bytes" for each in (found, expected)]
        raise cases.DifferenceError(f"{name} is {shown[0]}, not {shown[1]}")
