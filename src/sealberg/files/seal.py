"""Whole files and buffers, sealed and opened in one call.

    seal_file(plain path, sealed path) -> KeyMetadata      open_file(sealed path, plain path, key metadata)
    seal_bytes(plain) -> sealed, KeyMetadata               open_bytes(sealed, key metadata) -> plain

A target appears whole or not at all: it is written beside its place and renamed into it.
"""

from __future__ import annotations

import contextlib
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
    """Seal a buffer under a fresh key, or under the one given."""
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
    """Seal a file into another; returns what opens it. `progress` is told of plain bytes done."""
    with Path(source).open("rb", buffering=0) as plain, replacing(target) as sink:
        writer = Ags1Writer(sink, key_metadata or new_file_key(), threads=threads, close_sink=False)
        with writer:
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
    """Open a sealed file into another; returns the plain length."""
    with Ags1Reader(source, key_metadata, threads=threads) as reader, replacing(target) as sink:
        for window in reader.windows():
            sink.write(window)
            if progress:
                progress(len(window))
        return reader.plain_length


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that takes the place of `target` when the block succeeds, and vanishes when it fails.

    Only its owner may read it (mode 0600): it may hold what was sealed for a reason.
    """
    target = Path(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
