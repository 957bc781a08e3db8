"""`sealberg open FILE`: the plaintext, whole or not at all."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sealberg.files.seal import seal_bytes
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.format.key_metadata import KeyMetadata

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = os.urandom(3 * BLOCK_SIZE + 77)
SEALED, KEYS = seal_bytes(PLAIN)


def sealberg(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sealberg.cli.main", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "sealed"
    path.write_bytes(SEALED)
    return path


def test_opens_into_a_file_that_only_its_owner_reads(sealed: Path, tmp_path: Path) -> None:
    done = sealberg("open", sealed, "--key-metadata", KEYS.encode().hex(), "-o", tmp_path / "plain")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "plain").read_bytes() == PLAIN
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o600


def test_opens_into_a_pipe(sealed: Path) -> None:
    assert sealberg("open", sealed, "--key-metadata", KEYS.encode().hex()).stdout == PLAIN


@pytest.mark.parametrize("as_hex", [True, False])
def test_key_metadata_come_from_a_file_or_standard_input(sealed: Path, tmp_path: Path, as_hex: bool) -> None:
    blob = KEYS.encode().hex().encode() + b"\n" if as_hex else KEYS.encode()
    (tmp_path / "keys").write_bytes(blob)
    assert sealberg("open", sealed, "--key-metadata", f"@{tmp_path / 'keys'}").stdout == PLAIN
    assert sealberg("open", sealed, "--key-metadata", "@-", stdin=blob).stdout == PLAIN


def flipped(at: int) -> bytes:
    return SEALED[:at] + bytes([SEALED[at] ^ 1]) + SEALED[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (flipped(-2 % len(SEALED)), b"block 3 failed authentication"),
        (flipped(0), b"not an AGS1 stream"),
        (SEALED[:-1], b"its trusted length is"),
        (SEALED + b"\0", b"its trusted length is"),
    ],
    ids=["last-block", "magic", "cut", "appended"],
)
def test_a_tampered_file_leaves_nothing_in_a_file_or_a_pipe(sealed: Path, content: bytes, words: bytes) -> None:
    sealed.write_bytes(content)
    out = sealed.parent / "plain"
    targets: list[list[str | Path]] = [[], ["-o", out]]
    for target in targets:
        done = sealberg("open", sealed, "--key-metadata", KEYS.encode().hex(), *target)
        assert (done.returncode, done.stdout) == (1, b"")
        assert words in done.stderr.splitlines()[0]
    assert sorted(path.name for path in sealed.parent.iterdir()) == ["sealed"]


def test_an_existing_file_is_replaced_only_by_force_and_only_by_a_whole_one(sealed: Path, tmp_path: Path) -> None:
    out = tmp_path / "plain"
    out.write_text("mine")
    keys = KEYS.encode().hex()
    assert b"--force" in sealberg("open", sealed, "--key-metadata", keys, "-o", out).stderr
    wrong = KeyMetadata(bytes(16), KEYS.aad_prefix, KEYS.file_length).encode().hex()
    assert sealberg("open", sealed, "--key-metadata", wrong, "-o", out, "--force").returncode == 1
    assert out.read_text() == "mine"
    assert sealberg("open", sealed, "--key-metadata", keys, "-o", out, "--force").returncode == 0
    assert out.read_bytes() == PLAIN


def test_a_missing_length_is_refused_unless_the_risk_is_taken(sealed: Path) -> None:
    keys = KeyMetadata(KEYS.encryption_key, KEYS.aad_prefix).encode().hex()
    refused = sealberg("open", sealed, "--key-metadata", keys)
    assert refused.returncode == 1
    assert b"no file length" in refused.stderr
    assert sealberg("open", sealed, "--key-metadata", keys, "--allow-missing-length").stdout == PLAIN


@pytest.mark.parametrize("given", ["zz" * 30, "00" + "ab" * 37, "01"])
def test_bad_key_metadata_are_refused_without_showing_them(sealed: Path, given: str) -> None:
    done = sealberg("open", sealed, "--key-metadata", given)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert given.encode() not in done.stderr or len(given) <= 2


def test_encrypted_parquet_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"PARE" + bytes(40) + b"PARE")
    assert b"encrypted Parquet" in sealberg("open", path, "--key-metadata", KEYS.encode().hex()).stderr


def on_a_terminal(*arguments: str | Path) -> tuple[int, bytes]:
    """Run with standard output and error on a terminal; what it shows there."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sealberg.cli.main", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(), shown


def test_a_terminal_shows_progress_and_gets_no_binary(sealed: Path, tmp_path: Path) -> None:
    keys = KEYS.encode().hex()
    code, shown = on_a_terminal("open", sealed, "--key-metadata", keys, "-o", tmp_path / "plain")
    assert code == 0
    assert b"opening" in shown
    assert b"100%" in shown
    code, shown = on_a_terminal("open", sealed, "--key-metadata", keys)
    assert code == 1
    assert b"standard output is a terminal" in shown
