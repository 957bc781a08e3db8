"""Every file in vectors/ through our own readers; `vectors.cases` says what the files mean.

A folder has one function that runs its vectors; a file that nobody looks at fails the tests at the end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vectors import cases
from vectors.generate import FOLDERS, KEPT, every_vector

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
STREAMS = {case.name: case for case in cases.streams()}
BLOBS = {case.name: case for case in cases.blobs()}
CHAINS = {case.name: case for case in cases.chains()}
ALL: dict[str, cases.Case] = {**STREAMS, **BLOBS, **CHAINS}
LARGE = "ags1/257_blocks"  # about the index, so read in one way only


# -- ags1 ---------------------------------------------------------------------------------------


def stored(case: cases.StreamCase, folder: Path) -> bytes | Path:
    """The stream: hex in memory, a recipe followed into a file."""
    if case.vector.header["payload"] == "hex":
        return b"".join(case.stored())
    path = folder / "stream"
    with path.open("wb") as file:
        file.writelines(case.stored())
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


@pytest.mark.parametrize("name", STREAMS)
def test_stream(name: str, tmp_path: Path) -> None:
    stream = stored(STREAMS[name], tmp_path)
    for way in (by_windows,) if name == LARGE else (at_once, by_blocks, by_windows, by_odd_pieces):
        for threads in (2,) if name == LARGE else (1, 2):
            run_stream(STREAMS[name], stream, way, threads)


@pytest.mark.parametrize("name", [n for n in STREAMS if n != LARGE and STREAMS[n].length is not None])
def test_stream_from_a_source_of_unknown_size(name: str, tmp_path: Path) -> None:
    """Only reading shows then whether the stream has its trusted length."""
    stream = stored(STREAMS[name], tmp_path)
    source = Unsized(stream if isinstance(stream, bytes) else stream.read_bytes())
    for way in (at_once, by_blocks, by_windows, by_odd_pieces):
        run_stream(STREAMS[name], source, way, threads=2)


def run_stream(case: cases.StreamCase, stream: bytes | Path | Unsized, way: Way, threads: int) -> None:
    key_metadata = KeyMetadata(case.key, case.aad_prefix, case.length)
    taken = case.taken()

    def read() -> None:
        allow = case.allow_missing_length
        with Ags1Reader(stream, key_metadata, threads=threads, allow_missing_length=allow) as reader:
            way(reader, taken.take)

    if case.good:
        read()
        taken.whole()
        return
    with pytest.raises(errors.SealbergError) as caught:
        read()
    assert_expected(caught.value, case.expect, secret=case.key)


# -- key metadata -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOBS)
def test_key_metadata(name: str) -> None:
    case = BLOBS[name]
    if case.good:
        expected = KeyMetadata(case.encryption_key, case.aad_prefix, case.file_length)
        assert KeyMetadata.decode(case.blob) == expected
        assert (expected.encode() == case.blob) is case.canonical
        return
    with pytest.raises(errors.SealbergError) as caught:
        KeyMetadata.decode(case.blob)
    assert_expected(caught.value, case.expect, secret=b"0123456789012345")


# -- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHAINS)
def test_key_chain(name: str) -> None:
    case = CHAINS[name]
    kms = MemoryKms(dict(case.master_keys))
    manager = EncryptionManager(EncryptionSettings("db.table", case.table_key_id), kms=kms)

    def find() -> KeyMetadata:
        return manager.open_list_key(Keyring.from_json(json.loads(case.entries)), case.snapshot_key_id)

    if case.good:
        assert find().encode() == case.key_metadata
        return
    with pytest.raises(errors.SealbergError) as caught:
        find()
    for secret in (*case.master_keys.values(), bytes(range(0x10, 0x20))):
        assert_expected(caught.value, case.expect, secret=secret)


# -- all of them --------------------------------------------------------------------------------


def assert_expected(error: errors.SealbergError, expect: str, *, secret: bytes) -> None:
    assert type(error).__name__ == expect, repr(error)
    for shown in (secret.hex(), repr(secret)[2:-1]):
        assert shown not in str(error)
        assert shown not in repr(error)


@pytest.mark.parametrize("name", ALL)
def test_vector_says_what_to_expect(name: str) -> None:
    case = ALL[name]
    header = case.vector.header
    assert case.good or issubclass(getattr(errors, case.expect), errors.SealbergError)
    if isinstance(case, cases.StreamCase):
        assert ("plaintext" in header or "plaintext-sha256" in header) == case.good
    assert ("sha256" in header) == (header["payload"] == "recipe")


def test_a_field_that_nobody_knows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "HOME", tmp_path)
    (tmp_path / "keys").mkdir()
    text = (VECTORS / "keys/cycle.txt").read_text()
    (tmp_path / "keys" / "cycle.txt").write_text(text)
    assert len(cases.chains()) == 1
    (tmp_path / "keys" / "cycle.txt").write_text(f"colour: blue\n{text}")
    with pytest.raises(ValueError, match=r"keys/cycle has fields that keys/ does not know: colour"):
        cases.chains()
    (tmp_path / "keys" / "cycle.txt").write_text(text.replace("expect: KeyringError\n", ""))
    with pytest.raises(ValueError, match="keys/cycle has no expect"):
        cases.chains()


def test_bytes_that_no_reader_may_hand_out_are_found() -> None:
    taken = STREAMS["ags1/hello"].taken()
    taken.take(b"hel")
    with pytest.raises(cases.DifferenceError, match="ends after 3 of 5 bytes"):
        taken.whole()
    with pytest.raises(cases.DifferenceError, match="from byte 3 on"):
        taken.take(b"p")
    with pytest.raises(cases.DifferenceError, match="from byte 0 on"):
        STREAMS["ags1/tag_flipped"].taken().take(b"h")
    with pytest.raises(cases.DifferenceError, match="another SHA-256"):
        STREAMS["ags1/java_avro"].taken().whole()


def test_no_file_in_vectors_is_without_a_runner() -> None:
    runners = {"ags1": test_stream, "key_metadata": test_key_metadata, "keys": test_key_chain}
    assert set(runners) == set(FOLDERS) == {name.partition("/")[0] for name in ALL}
    files = {path.relative_to(VECTORS).as_posix() for path in VECTORS.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    # Whole tables and what reads them are run by tests/corpus; vectors of other hands have tests of their own.
    tables = ("java/", "rust/", "twins/", "tables.", "reader.py", "spelling.py")
    others = (
        "README.md",
        "generate/",
        "cases.py",
        "recipe.py",
        "text.py",
        *tables,
        "wycheproof/",
        "cctv_age/",
        "conflicts/",
        "statements/",
        "protocol/",
    )
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
