"""What the vectors say: the fields of each file as values, one class for each folder.

    for case in streams(): ...         ags1/            a stored stream, what a reader may trust, what comes out
    for case in blobs(): ...           key_metadata/    a blob, and what it holds
    for case in chains(): ...          keys/            a list of keys, and the key that one snapshot leads to

A field that a folder does not know is an error, so that none is passed over by those who run the vectors.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vectors.recipe import Plain, build
from vectors.text import Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOME: Final = Path(__file__).parent
SUCCESS: Final = "success"
FIELDS: Final = {
    "ags1": "key aad-prefix length allow-missing-length plaintext plaintext-sha256 released sha256",
    "key_metadata": "encryption-key aad-prefix file-length canonical",
    "keys": "table-key-id master-keys snapshot-key-id key-metadata",
}


class DifferenceError(Exception):
    """A reader handed out other bytes than it may."""


@dataclass(frozen=True)
class Case:
    """What the vectors of all folders have."""

    vector: Vector

    @property
    def name(self) -> str:
        return self.vector.name

    @property
    def about(self) -> str:
        return self.vector.header["about"]

    @property
    def expect(self) -> str:
        """`success`, or the error of sealberg that says why it is refused."""
        return self.vector.header["expect"]

    @property
    def good(self) -> bool:
        return self.expect == SUCCESS

    def _hex(self, field: str) -> bytes | None:
        return bytes.fromhex(self.vector.header[field]) if field in self.vector.header else None

    def _number(self, field: str) -> int | None:
        return int(self.vector.header[field]) if field in self.vector.header else None


class StreamCase(Case):
    """An AGS1 stream."""

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.vector.header["key"])

    @property
    def aad_prefix(self) -> bytes | None:
        return self._hex("aad-prefix")

    @property
    def length(self) -> int | None:
        """The stored length that a reader may trust."""
        return self._number("length")

    @property
    def allow_missing_length(self) -> bool:
        return self.vector.header.get("allow-missing-length") == "yes"

    @property
    def plaintext(self) -> Plain | None:
        """What a good stream holds, if that is known and not only its hash."""
        words = self.vector.header.get("plaintext")
        return None if words is None else Plain.parse(words)

    def stored(self) -> Iterator[bytes]:
        """The stream, piece by piece."""
        if self.vector.header["payload"] == "hex":
            yield bytes.fromhex(self.vector.payload)
            return
        digest = hashlib.sha256()
        for piece in build(self.vector.payload, self.key, self.aad_prefix or b""):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != self.vector.header["sha256"]:
            raise ValueError(f"the recipe of {self.name} does not give the bytes of the vector")

    def taken(self) -> Taken:
        return Taken(self)


class Taken:
    """Compares what a reader hands out as it comes, so that 257 blocks need not be in memory."""

    def __init__(self, case: StreamCase) -> None:
        self._sha256 = case.vector.header.get("plaintext-sha256")
        self._may = case.plaintext if case.good else Plain.parse(case.vector.header.get("released", ""))
        self._count = 0
        self._digest = hashlib.sha256()

    def take(self, piece: bytes) -> None:
        """The next bytes: of the plaintext, or of what may come out before a failure."""
        self._digest.update(piece)
        if self._may is not None and piece != self._may.part(self._count, self._count + len(piece)):
            raise DifferenceError(f"other bytes than were sealed, or more of them, from byte {self._count} on")
        self._count += len(piece)

    def whole(self) -> None:
        """No more bytes come, and the reader found no fault."""
        if self._may is not None and self._count != len(self._may):
            raise DifferenceError(f"the plaintext ends after {self._count} of {len(self._may)} bytes")
        if self._sha256 is not None and self._digest.hexdigest() != self._sha256:
            raise DifferenceError(f"{self._count} bytes with another SHA-256 than the plaintext's")


class BlobCase(Case):
    """The key metadata of a file."""

    @property
    def blob(self) -> bytes:
        return bytes.fromhex(self.vector.payload)

    @property
    def encryption_key(self) -> bytes:
        return bytes.fromhex(self.vector.header["encryption-key"])

    @property
    def aad_prefix(self) -> bytes | None:
        return self._hex("aad-prefix")

    @property
    def file_length(self) -> int | None:
        return self._number("file-length")

    @property
    def canonical(self) -> bool:
        """Whether a writer must produce these bytes."""
        return self.vector.header["canonical"] == "yes"


class ChainCase(Case):
    """The `encryption-keys` of a table, as JSON."""

    @property
    def entries(self) -> str:
        return self.vector.payload

    @property
    def master_keys(self) -> Mapping[str, bytes]:
        pairs = (pair.split("=") for pair in self.vector.header["master-keys"].split())
        return {key_id: bytes.fromhex(key) for key_id, key in pairs}

    @property
    def table_key_id(self) -> str:
        return self.vector.header["table-key-id"]

    @property
    def snapshot_key_id(self) -> str:
        return self.vector.header["snapshot-key-id"]

    @property
    def key_metadata(self) -> bytes:
        """What the snapshot's key leads to."""
        return bytes.fromhex(self.vector.header["key-metadata"])


def streams() -> list[StreamCase]:
    return [StreamCase(vector) for vector in _read("ags1")]


def blobs() -> list[BlobCase]:
    return [BlobCase(vector) for vector in _read("key_metadata")]


def chains() -> list[ChainCase]:
    return [ChainCase(vector) for vector in _read("keys")]


def _read(folder: str) -> Iterator[Vector]:
    for path in sorted(HOME.glob(f"{folder}/*.txt")):
        vector = Vector.read(path)
        common = {"about", "source", "expect", "payload"}
        if missing := common - set(vector.header):
            raise ValueError(f"{vector.name} has no {', '.join(sorted(missing))}")
        if unknown := set(vector.header) - common - set(FIELDS[folder].split()):
            raise ValueError(f"{vector.name} has fields that {folder}/ does not know: {', '.join(sorted(unknown))}")
        yield vector
