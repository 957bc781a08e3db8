"""A SoftHSM token in a folder of its own.

    with softhsm(folder) as hsm:
        hsm.make_key("hr")
        hsm.properties      # for a client that is logged in as the user

The library reads its configuration when it is initialised, so there is one token at a time.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pkcs11
import pytest
from pkcs11 import Attribute, KeyType, MechanismFlag, TokenFlag

from kit.programs.commands import need

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = "sealberg-test"
PIN = "u53r-p1n-of-tests"
SO_PIN = "s0-p1n-of-tests"
BOTH = MechanismFlag.ENCRYPT | MechanismFlag.DECRYPT


@dataclass(frozen=True)
class SoftHsm:
    """A token, and operations of its owner."""

    module: Path
    folder: Path

    @property
    def pin_file(self) -> Path:
        return self.folder / "pin"

    @property
    def properties(self) -> dict[str, str]:
        return {
            "encryption.kms-type": "pkcs11",
            "encryption.kms.pkcs11.module": str(self.module),
            "encryption.kms.pkcs11.token-label": LABEL,
            "encryption.kms.pkcs11.pin-file": str(self.pin_file),
        }

    def make_key(
        self, label: str, *, capabilities: MechanismFlag = BOTH, value: bytes | None = None, **attributes: bool
    ) -> None:
        """An AES key that cannot leave the token, unless `attributes` (by their names) say otherwise."""
        template: dict[Any, Any] = {Attribute.EXTRACTABLE: False, Attribute.SENSITIVE: True}
        template |= {Attribute[name.upper()]: given for name, given in attributes.items()}
        with self.owner() as session:
            if value is None:
                session.generate_key(
                    KeyType.AES, 256, label=label, store=True, capabilities=capabilities, template=template
                )
            else:
                template |= {
                    Attribute.CLASS: pkcs11.ObjectClass.SECRET_KEY,
                    Attribute.KEY_TYPE: KeyType.AES,
                    Attribute.LABEL: label,
                    Attribute.TOKEN: True,
                    Attribute.ENCRYPT: True,
                    Attribute.DECRYPT: True,
                    Attribute.VALUE: value,
                }
                session.create_object(template)

    def delete(self, label: str) -> None:
        with self.owner() as session:
            for found in list(session.get_objects({Attribute.LABEL: label})):
                found.destroy()

    @contextmanager
    def owner(self) -> Iterator[Any]:
        """A read-write session. Its end logs out the whole process, as PKCS#11 requires."""
        token = pkcs11.lib(os.path.realpath(self.module)).get_token(token_label=LABEL)
        try:
            session = token.open(rw=True, user_pin=PIN)
        except pkcs11.UserAlreadyLoggedIn:
            session = token.open(rw=True)
        with session:
            yield session

    def flags(self) -> TokenFlag:
        return TokenFlag(pkcs11.lib(os.path.realpath(self.module)).get_token(token_label=LABEL).flags)

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Move the token's files away during the block."""
        tokens = self.folder / "tokens"
        tokens.rename(self.folder / "elsewhere")
        try:
            yield
        finally:
            (self.folder / "elsewhere").rename(tokens)


@contextmanager
def softhsm(folder: Path, *, reset_on_fork: bool = False) -> Iterator[SoftHsm]:
    """Make a token, and point the library of this process at it."""
    util = need("softhsm2-util", apt="softhsm2")
    module = _module()
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(
        f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n"
        f"library.reset_on_fork = {str(reset_on_fork).lower()}\n"
    )
    hsm = SoftHsm(module, folder)
    hsm.pin_file.write_text(PIN + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(configuration))
        command = [str(util), "--init-token", "--free", "--label", LABEL, "--so-pin", SO_PIN, "--pin", PIN]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        library = pkcs11.lib(os.path.realpath(module))
        library.reinitialize()
        yield hsm
        with suppress(pkcs11.PKCS11Error):
            library.finalize()


def _module() -> Path:
    for folder in ("/usr/lib", "/usr/local/lib", "/usr/lib64", "/opt/homebrew/lib"):
        for found in (Path(folder) / "softhsm" / "libsofthsm2.so", *Path(folder).glob("*/softhsm/libsofthsm2.so")):
            if found.exists():
                return found
    pytest.skip("libsofthsm2.so is nowhere; apt-get install softhsm2 brings it")
