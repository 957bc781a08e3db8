"""A small file that only its owner may read, and that is replaced atomically.

    keystore.age                0600
    keystore.age.previous       0600, the content before the last change
    keystore.age.previous.2     0600, the content before that, up to .previous.10
    keystore.age.lock           0600, empty: locked during a change

A change writes and syncs a temporary file in the same folder, gives the former contents their next
names, links the old file to its `.previous` name and renames the temporary file: at any moment there
is a complete file.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from sealberg.errors import AccessDeniedError, ConfigError, FormatError, NothingThereError

if TYPE_CHECKING:
    from collections.abc import Iterator

GENERATIONS: Final = 10  # former contents that are kept
MAX_LENGTH: Final = 16 * 1024 * 1024  # far above any keystore; a wrong path must not fill the memory
Stamp: TypeAlias = tuple[int, int, int]


def read(path: Path, *, private: bool = True) -> tuple[bytes, Stamp]:
    """The file's bytes and a stamp that changes when the file is replaced; refused if other users may read the file."""
    with _typed_errors(path, "read"):
        # Non-blocking: opening a named pipe would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(descriptor)
            _check(path, facts, private=private)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_LENGTH + 1)
        finally:
            os.close(descriptor)
    if len(content) > MAX_LENGTH:
        raise FormatError(f"{path} has more than {MAX_LENGTH} bytes, the limit for a keystore")
    return content, _stamp(facts)


def stamp(path: Path) -> Stamp | None:
    """A value that changes when the file is replaced; None if there is no file."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def create(path: Path, content: bytes) -> None:
    """Write a new file; an existing file is never overwritten."""
    path = path.resolve()
    with _typed_errors(path, "write"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = _write_temporary(path, content)
        try:
            os.link(temporary, path)  # unlike a rename, a link never overwrites
        except FileExistsError:
            raise ConfigError(f"cannot create {path}: the file exists already and is not overwritten") from None
        finally:
            temporary.unlink()
        _sync_folder(path.parent)


def replace(path: Path, content: bytes) -> Path:
    """Replace the file's content; returns the path of the previous content."""
    path = path.resolve()  # a symbolic link is kept and its target replaced
    kept = previous(path)
    with _typed_errors(path, "write"):
        temporary = _write_temporary(path, content)
        second_name = temporary.with_suffix(".old")
        try:
            os.link(path, second_name)
            _make_room(path)
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
    """The path under which `replace` keeps the previous content."""
    return _names(path)[0]


def generations(path: Path) -> tuple[Path, ...]:
    """The former contents that are there, newest first."""
    return tuple(each for each in _names(path) if each.exists())


def rewrite(path: Path, content: bytes) -> None:
    """Replace a former content in its place, without keeping it."""
    with _typed_errors(path, "write"):
        _write_temporary(path, content).replace(path)
        _sync_folder(path.parent)


def _names(path: Path) -> list[Path]:
    path = path.resolve()
    name = f"{path.name}.previous"
    return [path.with_name(name), *(path.with_name(f"{name}.{number}") for number in range(2, GENERATIONS + 1))]


def _make_room(path: Path) -> None:
    """Move former contents to their next names, the oldest first, up to the first name that is free."""
    names = _names(path)
    taken = next((at for at, each in enumerate(names) if not each.exists()), GENERATIONS - 1)
    for at in range(taken, 0, -1):
        names[at - 1].replace(names[at])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One change at a time, among all processes of this machine."""
    path = path.resolve()
    with _typed_errors(path, "lock"):
        # A separate file: the keystore is replaced, and a lock on it would stay with the old inode.
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _check(path: Path, facts: os.stat_result, *, private: bool) -> None:
    # The stat of the open file, because the path may name another file by now.
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{path} is not a file, expected a regular file")
    mode = stat.S_IMODE(facts.st_mode)
    if private and mode & 0o077:
        raise AccessDeniedError(
            f"{path} has mode {mode:04o}, so other users may access it, expected 0600: chmod 600 {path}"
        )


def _write_temporary(path: Path, content: bytes) -> Path:
    """Write and sync a temporary file in the same folder; mkstemp creates it with mode 0600."""
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
def _typed_errors(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NothingThereError(f"cannot {verb} {path}: there is no such file") from None
    except PermissionError as error:
        raise AccessDeniedError(f"cannot {verb} {path}: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"cannot {verb} {path}: {error.strerror}") from None
