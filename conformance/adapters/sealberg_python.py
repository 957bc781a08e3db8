"""sealberg: `python -m conformance -- python -m conformance.adapters.sealberg_python`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from conformance.adapters import optional, optional_number, serve
from sealberg.errors import SealbergError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.seal import seal_file
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import MemoryKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from pathlib import Path


def open_(folder: Path) -> None:
    length = optional_number(folder / "length")
    key_metadata = KeyMetadata((folder / "key").read_bytes(), optional(folder / "aad-prefix"), length)
    allow = (folder / "allow-missing-length").exists()
    with (
        (folder / "plaintext").open("wb") as plaintext,
        Ags1Reader(folder / "stream", key_metadata, allow_missing_length=allow) as reader,
    ):
        for window in reader.windows():
            plaintext.write(window)


def seal(folder: Path) -> None:
    key_metadata = KeyMetadata((folder / "key").read_bytes(), optional(folder / "aad-prefix"))
    sealed = seal_file(folder / "plaintext", folder / "stream", key_metadata)
    (folder / "length").write_text(str(sealed.file_length))


def decode(folder: Path) -> None:
    found = KeyMetadata.decode((folder / "blob").read_bytes())
    (folder / "encryption-key").write_bytes(found.encryption_key)
    if found.aad_prefix is not None:
        (folder / "aad-prefix").write_bytes(found.aad_prefix)
    if found.file_length is not None:
        (folder / "file-length").write_text(str(found.file_length))


def encode(folder: Path) -> None:
    key, aad_prefix = (folder / "encryption-key").read_bytes(), optional(folder / "aad-prefix")
    blob = KeyMetadata(key, aad_prefix, optional_number(folder / "file-length")).encode()
    (folder / "blob").write_bytes(blob)


def find(folder: Path) -> None:
    pairs = (line.split() for line in (folder / "master-keys").read_text().splitlines())
    kms = MemoryKms({key_id: bytes.fromhex(key) for key_id, key in pairs})
    ring = Keyring.from_json(json.loads((folder / "encryption-keys").read_text()))
    with EncryptionManager(EncryptionSettings("db.table", (folder / "table-key-id").read_text()), kms=kms) as manager:
        found = manager.open_list_key(ring, (folder / "snapshot-key-id").read_text())
    (folder / "key-metadata").write_bytes(found.encode())


OPERATIONS: Final = {"open": open_, "seal": seal, "decode": decode, "encode": encode, "find": find}

if __name__ == "__main__":
    serve(OPERATIONS, (SealbergError,))
