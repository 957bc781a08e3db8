"""Writes the modules of one Parquet file one after the other, sealed with its key, or in the clear without one.

    put(place, plain) -> stored length         finish(footer)
    with a key:     PARE | modules ... | FileCryptoMetaData, footer module | length | PARE
    without a key:  PAR1 | parts ...   | footer                            | length | PAR1

Modules are sealed into a buffer of a few MiB, which is written when it is full. A file without `finish` has no footer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealberg.errors import PoisonedError
from sealberg.files.parquet.modules import MODULE_OVERHEAD, ModuleCipher, ModuleKind, Place
from sealberg.files.parquet.reader import MAGIC, PLAIN_MAGIC

if TYPE_CHECKING:
    from sealberg.files.ags1_writer import Sink
    from sealberg.format.aes_gcm import Bytes
    from sealberg.format.key_metadata import KeyMetadata

BUFFER: Final = 4 << 20
FILE_UNIQUE_LENGTH: Final = 8


class ModuleSink:
    """The bytes of one new file.

    Args:
        sink: accepts the bytes in order; stays open.
        key: a new key with its AAD prefix; None writes plaintext.
    """

    def __init__(self, sink: Sink, key: KeyMetadata | None) -> None:
        self._sink = sink
        self._buffer = memoryview(bytearray(BUFFER))
        self._held = 0
        self.count = 0
        self._cipher: ModuleCipher | None = None
        if key is not None:
            unique = os.urandom(FILE_UNIQUE_LENGTH)
            self._cipher = ModuleCipher(key.encryption_key, key.aad_prefix or b"", unique)
            # AES_GCM_V1 with the file's unique bytes, and the mark that readers must supply the AAD prefix.
            self._crypto = b"\x1c\x1c\x28\x08" + unique + b"\x11\x00\x00\x00"
        self._append(MAGIC if self.encrypted else PLAIN_MAGIC)

    @property
    def encrypted(self) -> bool:
        return self._cipher is not None

    @property
    def overhead(self) -> int:
        """The bytes that a stored module has beyond its plain bytes."""
        return MODULE_OVERHEAD if self.encrypted else 0

    def put(self, place: Place, plain: Bytes) -> int:
        """Write one module; returns its stored length."""
        if self._cipher is None:
            self._append(plain)
            return len(plain)
        stored = len(plain) + MODULE_OVERHEAD
        self._cipher.seal_into(place, plain, self._room(stored))
        return stored

    def finish(self, footer: bytes) -> None:
        """Write the footer and everything that is still in the buffer."""
        start = self.count
        if self._cipher is not None:
            self._append(self._crypto)
        self.put(Place(ModuleKind.FOOTER), footer)
        self._append((self.count - start).to_bytes(4, "little"))
        self._append(MAGIC if self.encrypted else PLAIN_MAGIC)
        self._flush()

    def _append(self, plain: Bytes) -> None:
        self._room(len(plain))[:] = plain

    def _room(self, length: int) -> memoryview:
        """The next bytes of the buffer, to be filled at once."""
        if self._held + length > len(self._buffer):
            self._flush()
            if length > len(self._buffer):
                self._buffer = memoryview(bytearray(length))
        room = self._buffer[self._held : self._held + length]
        self._held += length
        self.count += length
        return room

    def _flush(self) -> None:
        view = self._buffer[: self._held]
        while len(view):
            count = self._sink.write(view)
            if count is None:  # a sink that returns None accepted all bytes
                count = len(view)
            if not 0 < count <= len(view):
                raise PoisonedError(f"write failed: the sink accepted {count} of {len(view)} bytes")
            view = view[count:]
        self._held = 0
