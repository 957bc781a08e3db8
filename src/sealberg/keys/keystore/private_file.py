"""A small file that only its owner may read, and that is replaced as a whole or not at all.

    keystore.age             0600
    keystore.age.previous    0600, what stood there before the last change
    keystore.age.lock        0600, empty: who changes the file holds it

A change writes a temporary file beside it, brings it to disk, keeps the old file under its
second name and renames: at no moment is there no file, or half of one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from sealberg.errors import AccessDeniedError, ConfigError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LENGTH: Final = 16 * 1024 * 1024  # beyond any keystore; a mistaken path should not fill the memory
Stamp: TypeAlias = tuple[int, int, int]


def read(path: Path, *, private: bool = True) -> tuple[bytes, Stamp]:
    """The file's bytes and a stamp that changes with them; refused if others may read it too."""
    with _explained(path, "read"):
        # Without blocking: a named pipe in its place would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            _check(path, facts, private=private)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_LENGTH + 1)
        finally:
            os.close(descriptor)
    if len(content) > MAX_LENGTH:
        raise FormatError(f"{path} has more than {MAX_LENGTH} bytes")
    return content, _stamp(facts)


def stamp(path: Path) -> Stamp | None:
    """Changes when the file is replaced; None while there is none."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def create(path: Path, content: bytes) -> None:
    """Write a new file; one that exists is left alone and refused."""
    path = path.resolve()
    with _explained(path, "write"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = _written(path, content)
        try:
            os.link(temporary, path)  # unlike a rename, it never overwrites
        except FileExistsError:
            raise ConfigError(f"{path} exists already, and is not overwritten") from None
        finally:
            temporary.unlink()
        _sync_folder(path.parent)


def replace(path: Path, content: bytes) -> Path:
    """Put new content in place of the file; returns where the previous one is kept."""
    path = path.resolve()  # a link stays a link
    kept = previous(path)
    with _explained(path, "write"):
        temporary = _written(path, content)
        second_name = temporary.with_suffix(".old")
        try:
            os.link(path, second_name)
            second_name.replace(kept)
            temporary.replace(path)
        except OSError:
            for litter in (temporary, second_name):
                litter.unlink(missing_ok=True)
            raise
        kept.chmod(0o600)
        _sync_folder(path.parent)
    return kept


def previous(path: Path) -> Path:
    """Where `replace` keeps what it replaced."""
    path = path.resolve()
    return path.with_name(f"{path.name}.previous")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One change at a time, among all processes of this machine."""
    path = path.resolve()
    with _explained(path, "lock"):
        # Not the file itself: it is replaced, and a lock would stay with the old one.
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _check(path: Path, facts: os.stat_result, *, private: bool) -> None:
    # Facts of the open file: what the path names may have changed since.
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is not a file")
    mode = stat.S_IMODE(facts.st_mode)
    if private and mode & 0o077:
        raise AccessDeniedError(f"{path} has mode {mode:04o}, so others may use it, expected 0600: chmod 600 {path}")


def _written(path: Path, content: bytes) -> Path:
    """A temporary file in the same folder, on disk; mkstemp gives it mode 0600."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except OSError:
        Path(name).unlink()
        raise
    return Path(name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(facts: os.stat_result) -> Stamp:
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


@contextmanager
def _explained(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"cannot {verb} {path}: there is no such file") from None
    except PermissionError as error:
        raise AccessDeniedError(f"cannot {verb} {path}: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"cannot {verb} {path}: {error.strerror}") from None
