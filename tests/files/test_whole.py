"""Whole files: the target is there, complete and private, or it is as it was."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from kit.tables.streams import BLOCK, EDGES, KEY, flip, open_by_hand, plain, sealed, trusted
from sealberg.errors import AuthenticationError, IntegrityError, TruncatedError
from sealberg.files.seal import open_bytes, open_file, replacing, seal_bytes, seal_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LENGTH = 7 * BLOCK // 2


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("length", EDGES)
def test_bytes_come_back(length: int) -> None:
    stored, key = seal_bytes(plain(length))
    assert key.file_length == len(stored)
    assert open_bytes(stored, key) == plain(length)
    assert open_by_hand(seal_bytes(plain(length), KEY)[0]) == plain(length)


def test_every_buffer_gets_a_key_of_its_own() -> None:
    one, other = seal_bytes(b"same")[1], seal_bytes(b"same")[1]
    assert one.encryption_key != other.encryption_key
    assert one.aad_prefix != other.aad_prefix
    assert len(one.aad_prefix or b"") == 16


def test_open_bytes_refuses_an_empty_stream_that_is_not() -> None:
    with pytest.raises(AuthenticationError):
        open_bytes(flip(sealed(0), 35), trusted(36))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("length", EDGES)
def test_files_come_back(length: int, threads: int, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(plain(length))
    told: list[int] = []
    key = seal_file(tmp_path / "plain", tmp_path / "sealed", threads=threads, progress=told.append)
    assert key.file_length == (tmp_path / "sealed").stat().st_size
    assert sum(told) == length
    told.clear()
    assert open_file(tmp_path / "sealed", str(tmp_path / "again"), key, threads=threads, progress=told.append) == length
    assert sum(told) == length
    assert (tmp_path / "again").read_bytes() == plain(length)
    assert names(tmp_path) == {"plain", "sealed", "again"}


def test_seal_file_under_a_given_key(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(plain(LENGTH))
    seal_file(tmp_path / "plain", tmp_path / "sealed", KEY)
    assert open_by_hand((tmp_path / "sealed").read_bytes()) == plain(LENGTH)


def test_targets_are_for_their_owner_only(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "sealed").touch(mode=0o644)
    key = seal_file(tmp_path / "plain", tmp_path / "sealed")
    open_file(tmp_path / "sealed", tmp_path / "again", key)
    for name in ("sealed", "again"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


BAD: dict[str, tuple[Callable[[], bytes], type[Exception]]] = {
    "last block altered": (lambda: flip(sealed(LENGTH), -1), AuthenticationError),
    "first block altered": (lambda: flip(sealed(LENGTH), 30), AuthenticationError),
    "cut": (lambda: sealed(LENGTH)[:-1], TruncatedError),
    "plaintext": (lambda: b"PAR1" + sealed(LENGTH)[4:], IntegrityError),
}


@pytest.mark.parametrize("existing", [None, b"was here"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BAD)
def test_failed_open_leaves_no_target_and_no_litter(
    name: str, threads: int, existing: bytes | None, tmp_path: Path
) -> None:
    make, error = BAD[name]
    (tmp_path / "sealed").write_bytes(make())
    target = tmp_path / "target"
    if existing is not None:
        target.write_bytes(existing)
    before = names(tmp_path)
    with pytest.raises(error):
        open_file(tmp_path / "sealed", target, trusted(sealed(LENGTH)), threads=threads)
    assert names(tmp_path) == before
    assert existing is None or target.read_bytes() == existing


def test_failed_open_of_a_false_empty_file_leaves_no_target(tmp_path: Path) -> None:
    (tmp_path / "sealed").write_bytes(flip(sealed(0), 8))
    with pytest.raises(AuthenticationError):
        open_file(tmp_path / "sealed", tmp_path / "target", trusted(36))
    assert names(tmp_path) == {"sealed"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("existing", [None, b"was here"])
def test_interrupted_job_leaves_no_target_and_no_litter(
    existing: bytes | None, error: type[BaseException], tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(plain(LENGTH))
    key = seal_file(tmp_path / "plain", tmp_path / "sealed")
    target = tmp_path / "target"
    if existing is not None:
        target.write_bytes(existing)
    before = names(tmp_path)

    def interrupt(_: int) -> None:
        raise error

    for job in (
        lambda: seal_file(tmp_path / "plain", target, progress=interrupt),
        lambda: open_file(tmp_path / "sealed", target, key, progress=interrupt),
    ):
        with pytest.raises(error):
            job()
        assert names(tmp_path) == before
        assert existing is None or target.read_bytes() == existing


def test_missing_source_or_folder_is_the_usual_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    with pytest.raises(FileNotFoundError):
        seal_file(tmp_path / "nothing", tmp_path / "sealed")
    with pytest.raises(FileNotFoundError):
        seal_file(tmp_path / "plain", tmp_path / "no folder" / "sealed")
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nothing", tmp_path / "target", KEY)
    assert names(tmp_path) == {"plain"}


def test_target_that_is_a_folder_leaves_no_litter(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        seal_file(tmp_path / "plain", tmp_path / "folder")
    assert names(tmp_path) == {"plain", "folder"}


def test_a_file_can_be_sealed_and_opened_in_its_own_place(tmp_path: Path) -> None:
    place = tmp_path / "f"
    place.write_bytes(plain(LENGTH))
    key = seal_file(place, place)
    assert place.read_bytes()[:4] == b"AGS1"
    open_file(place, place, key)
    assert place.read_bytes() == plain(LENGTH)


def test_replacing_shows_nothing_before_the_end(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with replacing(target) as sink:
        sink.write(b"half")
        sink.flush()
        assert not target.exists()
        (half,) = tmp_path.iterdir()
        assert stat.S_IMODE(half.stat().st_mode) == 0o600
    assert target.read_bytes() == b"half"
