"""Every file in vectors/ through our own readers.

A folder has one function that runs its vectors, and one set of header fields that it
understands; a file or a field that nobody looks at fails the tests at the end.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vectors.generate import FOLDERS, KEPT, every_vector
from vectors.generate.recipe import Plain, build
from vectors.generate.text import Vector

from sealberg import errors
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import MemoryKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    Way = Callable[[Ags1Reader, Callable[[bytes], None]], None]

VECTORS = Path(__file__).parent.parent / "vectors"
ALL = {v.name: v for folder in FOLDERS for v in map(Vector.read, sorted(VECTORS.glob(f"{folder}/*.txt")))}
FIELDS = {
    "ags1": "about source expect key aad-prefix length allow-missing-length plaintext plaintext-sha256 released "
    "payload sha256",
    "key_metadata": "about source expect encryption-key aad-prefix file-length canonical payload",
    "keys": "about source expect table-key-id master-keys snapshot-key-id key-metadata payload",
}
LARGE = "ags1/257_blocks"  # about the index, so read in one way only


def optional_hex(header: dict[str, str], field: str) -> bytes | None:
    return bytes.fromhex(header[field]) if field in header else None


def optional_int(header: dict[str, str], field: str) -> int | None:
    return int(header[field]) if field in header else None


def of_folder(folder: str) -> list[str]:
    return [name for name in ALL if name.startswith(f"{folder}/")]


# -- ags1 ---------------------------------------------------------------------------------------


def stored(vector: Vector, folder: Path) -> bytes | Path:
    """The stream: hex in memory, a recipe followed into a file."""
    if vector.header["payload"] == "hex":
        return bytes.fromhex(vector.payload)
    path, digest = folder / "stream", hashlib.sha256()
    aad_prefix = bytes.fromhex(vector.header.get("aad-prefix", ""))
    with path.open("wb") as file:
        for piece in build(vector.payload, bytes.fromhex(vector.header["key"]), aad_prefix):
            digest.update(piece)
            file.write(piece)
    assert digest.hexdigest() == vector.header["sha256"], "the recipe does not give the bytes of the vector"
    return path


def by_blocks(reader: Ags1Reader, take: Callable[[bytes], None]) -> None:
    while True:
        piece = reader.read(BLOCK_SIZE)
        take(piece)
        if not piece:
            return


def by_windows(reader: Ags1Reader, take: Callable[[bytes], None]) -> None:
    for window in reader.windows():
        take(bytes(window))


def by_odd_pieces(reader: Ags1Reader, take: Callable[[bytes], None]) -> None:
    while True:
        piece = reader.read(700_001)
        take(piece)
        if not piece:
            return


def at_once(reader: Ags1Reader, take: Callable[[bytes], None]) -> None:
    take(reader.read())


class Unsized:
    """A source that does not know its length before it is read, as an object in a bucket does not."""

    size = None

    def __init__(self, stream: bytes) -> None:
        self.stream = stream

    def read_at(self, offset: int, length: int, scratch: memoryview) -> bytes:
        return self.stream[offset : offset + length]

    def close(self) -> None:
        pass


class Plaintext:
    """Takes what a reader hands out and compares it as it comes: 257 blocks need not be in memory."""

    def __init__(self, expected: Plain) -> None:
        self.expected = expected
        self.taken = 0
        self.digest = hashlib.sha256()

    def take(self, piece: bytes) -> None:
        self.digest.update(piece)
        assert piece == self.expected.part(self.taken, self.taken + len(piece)), "other bytes than were sealed"
        self.taken += len(piece)


class AnyPlaintext(Plaintext):
    """For streams of other hands, of which we know the hash."""

    def __init__(self) -> None:
        super().__init__(Plain(0, 0))

    def take(self, piece: bytes) -> None:
        self.digest.update(piece)


@pytest.mark.parametrize("name", of_folder("ags1"))
def test_stream(name: str, tmp_path: Path) -> None:
    stream = stored(ALL[name], tmp_path)
    for way in (by_windows,) if name == LARGE else (at_once, by_blocks, by_windows, by_odd_pieces):
        for threads in (2,) if name == LARGE else (1, 2):
            run_stream(dict(ALL[name].header), stream, way, threads)


@pytest.mark.parametrize("name", [n for n in of_folder("ags1") if n != LARGE and "length" in ALL[n].header])
def test_stream_from_a_source_of_unknown_size(name: str, tmp_path: Path) -> None:
    """Only reading shows then whether the stream has its trusted length."""
    stream = stored(ALL[name], tmp_path)
    source = Unsized(stream if isinstance(stream, bytes) else stream.read_bytes())
    for way in (at_once, by_blocks, by_windows, by_odd_pieces):
        run_stream(dict(ALL[name].header), source, way, threads=2)


def run_stream(header: dict[str, str], stream: bytes | Path | Unsized, way: Way, threads: int) -> None:
    key_metadata = KeyMetadata(
        bytes.fromhex(header["key"]), optional_hex(header, "aad-prefix"), optional_int(header, "length")
    )
    allow = header.get("allow-missing-length") == "yes"

    def read(plaintext: Plaintext) -> None:
        with Ags1Reader(stream, key_metadata, threads=threads, allow_missing_length=allow) as reader:
            way(reader, plaintext.take)

    if header["expect"] == "success":
        plaintext = Plaintext(Plain.parse(header["plaintext"])) if "plaintext" in header else AnyPlaintext()
        read(plaintext)
        if "plaintext" in header:
            assert plaintext.taken == len(plaintext.expected), "the reader stopped early"
        else:
            assert plaintext.digest.hexdigest() == header["plaintext-sha256"]
        return
    # What comes out before the failure must be the beginning of what may come out.
    plaintext = Plaintext(Plain.parse(header.get("released", "")))
    with pytest.raises(errors.SealbergError) as caught:
        read(plaintext)
    assert_expected(caught.value, header["expect"], secret=key_metadata.encryption_key)


# -- key metadata -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", of_folder("key_metadata"))
def test_key_metadata(name: str) -> None:
    vector = ALL[name]
    header, blob = dict(vector.header), bytes.fromhex(vector.payload)
    if header["expect"] == "success":
        expected = KeyMetadata(
            bytes.fromhex(header["encryption-key"]),
            optional_hex(header, "aad-prefix"),
            optional_int(header, "file-length"),
        )
        assert KeyMetadata.decode(blob) == expected
        assert (expected.encode() == blob) is (header["canonical"] == "yes")
        return
    with pytest.raises(errors.SealbergError) as caught:
        KeyMetadata.decode(blob)
    assert_expected(caught.value, header["expect"], secret=b"0123456789012345")


# -- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", of_folder("keys"))
def test_key_chain(name: str) -> None:
    header, payload = ALL[name].header, ALL[name].payload
    masters = dict(pair.split("=") for pair in header["master-keys"].split())
    kms = MemoryKms({key_id: bytes.fromhex(key) for key_id, key in masters.items()})
    manager = EncryptionManager(EncryptionSettings("db.table", header["table-key-id"]), kms=kms)

    def find() -> KeyMetadata:
        return manager.open_list_key(Keyring.from_json(json.loads(payload)), header["snapshot-key-id"])

    if header["expect"] == "success":
        assert find().encode().hex() == header["key-metadata"]
        return
    with pytest.raises(errors.SealbergError) as caught:
        find()
    for secret in (*masters.values(), bytes(range(0x10, 0x20)).hex()):
        assert_expected(caught.value, header["expect"], secret=bytes.fromhex(secret))


# -- all of them --------------------------------------------------------------------------------


def assert_expected(error: errors.SealbergError, expect: str, *, secret: bytes) -> None:
    assert type(error).__name__ == expect, repr(error)
    for shown in (secret.hex(), repr(secret)[2:-1]):
        assert shown not in str(error)
        assert shown not in repr(error)


@pytest.mark.parametrize("name", ALL)
def test_vector_has_only_fields_that_its_folder_knows(name: str) -> None:
    header, folder = ALL[name].header, name.partition("/")[0]
    assert set(header) <= set(FIELDS[folder].split())
    assert {"about", "source", "expect", "payload"} <= set(header)
    expect = header["expect"]
    assert expect == "success" or issubclass(getattr(errors, expect), errors.SealbergError)
    assert ("plaintext" in header or "plaintext-sha256" in header) == (folder == "ags1" and expect == "success")
    assert ("sha256" in header) == (header["payload"] == "recipe")


def test_no_file_in_vectors_is_without_a_runner() -> None:
    runners = {"ags1": test_stream, "key_metadata": test_key_metadata, "keys": test_key_chain}
    assert set(runners) == set(FIELDS) == {name.partition("/")[0] for name in ALL}
    files = {path.relative_to(VECTORS).as_posix() for path in VECTORS.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    # Whole tables and what reads them are run by tests/corpus; vectors of other hands have tests of their own.
    tables = ("generate/", "java/", "rust/", "twins/", "tables.", "reader.py", "spelling.py")
    others = ("README.md", *tables, "wycheproof/", "cctv_age/", "conflicts/", "statements/", "protocol/")
    assert {name for name in files if not name.startswith(others)} == {f"{name}.txt" for name in ALL}


def test_generators_give_the_committed_bytes() -> None:
    made = {name: vector.to_text() for name, vector in every_vector().items()}
    kept = {name: (VECTORS / f"{name}.txt").read_text() for name in ALL if name not in KEPT}
    assert made == kept
    assert set(ALL) - set(made) == KEPT


def test_generators_use_no_code_of_ours() -> None:
    for path in (*VECTORS.glob("*.py"), *VECTORS.rglob("generate/**/*.py")):
        source = path.read_text()
        assert "import sealberg" not in source, path
        assert "from sealberg" not in source, path
