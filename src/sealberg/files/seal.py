"""Encrypts and decrypts whole files and buffers in one call.

    seal_file(plain path, sealed path) -> KeyMetadata      open_file(sealed path, plain path, key metadata)
    seal_bytes(plain) -> sealed, KeyMetadata               open_bytes(sealed, key metadata) -> plain

A target file appears only when it is complete: it is written to a temporary file, which is then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.format.aes_gcm import Bytes
    from sealberg.format.key_metadata import KeyMetadata


def seal_bytes(plain: Bytes, key_metadata: KeyMetadata | None = None) -> tuple[bytes, KeyMetadata]:
    """Encrypt a buffer with the given key, or with a new key."""
    sealed = io.BytesIO()
    with Ags1Writer(sealed, key_metadata or new_file_key(), close_sink=False) as writer:
        writer.write(plain)
    return sealed.getvalue(), writer.key_metadata


def open_bytes(sealed: Bytes, key_metadata: KeyMetadata) -> bytes:
    """The plaintext of a sealed buffer."""
    with Ags1Reader(sealed, key_metadata) as reader:
        return reader.read()


def seal_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    key_metadata: KeyMetadata | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> KeyMetadata:
    """Encrypt a file into another; returns its key metadata. `progress` receives the number of plain bytes done."""
    with Path(source).open("rb", buffering=0) as plain, replacing(target) as sink:
        return seal_stream(plain, sink, key_metadata or new_file_key(), threads=threads, progress=progress)


def seal_stream(
    plain: io.RawIOBase,
    sink: BinaryIO,
    key_metadata: KeyMetadata,
    *,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> KeyMetadata:
    """Encrypt all that a file or a pipe has, until its end; returns the key metadata with the length."""
    with Ags1Writer(sink, key_metadata, threads=threads, close_sink=False) as writer:
        buffer = memoryview(bytearray(4 * BLOCK_SIZE))
        while count := plain.readinto(buffer):
            writer.write(buffer[:count])
            if progress:
                progress(count)
    return writer.key_metadata


def open_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    key_metadata: KeyMetadata,
    *,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Decrypt a file into another; returns the plain length."""
    with Ags1Reader(source, key_metadata, threads=threads) as reader, replacing(target) as sink:
        for window in reader.windows():
            sink.write(window)
            if progress:
                progress(len(window))
        return reader.plain_length


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str], *, existing: bool = True) -> Iterator[BinaryIO]:
    """A temporary file that becomes `target` if the block succeeds, and is deleted if the block fails.

    Its mode is 0600, because it may hold decrypted data or a key.

    Args:
        existing: whether a file that has the name already is replaced; otherwise it stays, and is an error.
    """
    target = Path(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        if existing:
            Path(name).replace(target)
        else:
            _give_free_name(Path(name), target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _give_free_name(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)  # unlike a rename, this fails if somebody has made the file meanwhile
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        file.replace(target)
    else:
        file.unlink()
