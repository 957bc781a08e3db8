"""Streams that go between us and a program of the JDK's cipher (tests/java/Ags1Check.java), both ways.

One JVM opens what we wrote and seals what we then open, for every key size and every edge of a
block; it also goes through the vectors, so that those rest on a third pair of hands.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from vectors import cases
from vectors.recipe import Plain

from kit.programs.commands import compile_java, jdk
from sealberg.errors import IntegrityError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.format.ags1 import BLOCK_SIZE, Layout
from sealberg.format.key_metadata import KeyMetadata

pytestmark = pytest.mark.slow  # Java is started

TESTS = Path(__file__).parent.parent
KEYS = {size: bytes(range(size)) for size in (16, 24, 32)}
AAD_PREFIXES = {"aad": bytes(range(0x80, 0x90)), "no_aad": None}
LENGTHS = (0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 3 * BLOCK_SIZE + BLOCK_SIZE // 2)


@dataclass(frozen=True)
class Case:
    key_metadata: KeyMetadata
    plain: Plain
    name: str

    def line(self, verb: str, *more: object) -> str:
        aad_prefix = self.key_metadata.aad_prefix
        words = (verb, self.key_metadata.encryption_key.hex(), "-" if aad_prefix is None else aad_prefix.hex(), *more)
        return "\t".join(map(str, words))


CASES = [
    Case(KeyMetadata(key, aad_prefix), Plain(0, length), f"key_{size}-{aad}-{length}")
    for size, key in KEYS.items()
    for aad, aad_prefix in AAD_PREFIXES.items()
    for length in LENGTHS
]


def run_java(manifest: Path, lines: list[str]) -> list[str]:
    manifest.write_text("\n".join(lines), encoding="utf-8")
    command = [str(jdk().java), "-Xshare:auto", "-cp", str(classes()), "Ags1Check", str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines)
    return answers


def classes() -> Path:
    return compile_java(TESTS / "java" / "Ags1Check.java")


def test_java_opens_what_we_write(tmp_path: Path) -> None:
    lines = []
    for case in CASES:
        path = tmp_path / case.name
        with Ags1Writer(path.open("wb"), case.key_metadata) as writer:
            writer.write(case.plain.part(0, len(case.plain)))
        lines.append(case.line("open", writer.stored_length, path))
    answers = run_java(tmp_path / "manifest", lines)
    for case, answer in zip(CASES, answers, strict=True):
        expected = hashlib.sha256(case.plain.part(0, len(case.plain))).hexdigest()
        assert answer == f"ok {expected}", case.name


def test_we_open_what_java_writes(tmp_path: Path) -> None:
    lines = []
    for case in CASES:
        plain = tmp_path / str(len(case.plain))
        plain.write_bytes(case.plain.part(0, len(case.plain)))
        lines.append(case.line("seal", plain, tmp_path / case.name))
    answers = run_java(tmp_path / "manifest", lines)
    for case, answer in zip(CASES, answers, strict=True):
        stored = Layout.of_plain(len(case.plain)).stored_length
        assert answer == f"ok {stored}", case.name
        with Ags1Reader(tmp_path / case.name, case.key_metadata.with_length(stored)) as reader:
            assert reader.read() == case.plain.part(0, len(case.plain)), case.name


def test_java_comes_to_the_same_end_with_every_vector(tmp_path: Path) -> None:
    """Which error it is differs between readers; whether a stream opens, and to what, must not."""
    streams = [case for case in cases.streams() if comparable(case)]
    lines = []
    for number, case in enumerate(streams):
        path = tmp_path / str(number)
        path.write_bytes(b"".join(case.stored()))
        length = path.stat().st_size if case.length is None else case.length
        aad_prefix = case.aad_prefix.hex() if case.aad_prefix else "-"
        lines.append(f"open\t{case.key.hex()}\t{aad_prefix}\t{length}\t{path}")
    answers = run_java(tmp_path / "manifest", lines)
    for case, answer in zip(streams, answers, strict=True):
        if case.good:
            assert answer == f"ok {sha256_of(case)}", case.name
        else:
            assert answer.startswith("refused "), case.name
    assert len(streams) > 50


def comparable(case: cases.StreamCase) -> bool:
    # The program takes the file's own length where there is no other, which our readers do only when told to;
    # 257 blocks at once are too much for its memory and ours.
    return case.expect != "MissingLengthError" and case.name != "ags1/257_blocks"


def sha256_of(case: cases.StreamCase) -> str:
    if (plain := case.plaintext) is None:
        return case.vector.header["plaintext-sha256"]
    return hashlib.sha256(plain.part(0, len(plain))).hexdigest()


def test_one_changed_byte_anywhere_is_refused_by_both(tmp_path: Path) -> None:
    """Header, nonce, ciphertext, tag, of the first and of the last block."""
    case = next(case for case in CASES if len(case.plain) == BLOCK_SIZE + 1)
    path = tmp_path / "stream"
    with Ags1Writer(path.open("wb"), case.key_metadata) as writer:
        writer.write(case.plain.part(0, len(case.plain)))
    stream, length = path.read_bytes(), writer.stored_length
    lines = []
    for at in (0, 4, 8, 19, 20, 1048595, 1048596, 1048611, 1048612, 1048624, 1048625, length - 1):
        altered = bytearray(stream)
        altered[at] ^= 0x40
        (tmp_path / str(at)).write_bytes(altered)
        lines.append(case.line("open", length, tmp_path / str(at)))
        for threads in (1, 4):
            with (
                Ags1Reader(tmp_path / str(at), writer.key_metadata, threads=threads) as reader,
                pytest.raises(IntegrityError),
            ):
                reader.read()
    answers = run_java(tmp_path / "manifest", lines)
    assert all(answer.startswith("refused ") for answer in answers), answers
