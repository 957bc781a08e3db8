"""Properties of the PKCS#11 client: the library, the token, the place of the PIN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pkcs11 import TokenFlag

from kit.servers.kms import KEY
from kit.servers.pkcs11_kms import with_pin
from kit.servers.softhsm import LABEL, SoftHsm
from sealberg.errors import ConfigError
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.pkcs11 import Pkcs11Kms, Pkcs11Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "module is not set"),
        ({"module": "libsofthsm2.so", "token-label": "x"}, "absolute path"),
        ({"module": "/x.so"}, "token-label is not set"),
        ({"module": "/x.so", "token-label": "x", "pin-file": "a", "pin-env": "b"}, "set only one"),
        ({"module": "/x.so", "token-label": "x", "token": "y"}, "unknown property encryption.kms.pkcs11.token"),
        ({"module": "/x.so", "token-label": "x", "allow-extractable": "yes"}, "true or false"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused_at_once(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pkcs11Kms.from_properties({f"encryption.kms.pkcs11.{name}": value for name, value in given.items()})


def test_a_pin_by_value_is_refused_with_the_safe_ways() -> None:
    with pytest.raises(ConfigError, match=r"pin-file.*pin-env") as caught:
        Pkcs11Kms.from_properties({"encryption.kms.pkcs11.pin": "s3cr3t"})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_pin_is_never_tried(hsm: SoftHsm, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match="no PIN"):
        with_pin(hsm, tmp_path / "pin", content.decode()).wrap(KEY, "hr")
    assert not hsm.flags() & TokenFlag.USER_PIN_COUNT_LOW


def test_a_library_that_does_not_load_is_a_wrong_setting(hsm: SoftHsm, tmp_path: Path) -> None:
    (tmp_path / "not.so").write_text("not a library")
    for module in (tmp_path / "nothing.so", tmp_path / "not.so"):
        settings = Pkcs11Settings(str(module), LABEL, pin_file=str(hsm.pin_file))
        with pytest.raises(ConfigError, match=r"module .* cannot be loaded"):
            Pkcs11Kms(settings).wrap(KEY, "hr")


def test_a_token_that_is_not_there_is_a_wrong_setting(hsm: SoftHsm) -> None:
    settings = Pkcs11Settings(str(hsm.module), "nowhere", pin_file=str(hsm.pin_file))
    with pytest.raises(ConfigError, match=r"found 0 tokens of the label 'nowhere'"):
        Pkcs11Kms(settings).wrap(KEY, "hr")


def test_a_library_may_be_named_through_a_link(hsm: SoftHsm, client: Pkcs11Kms, tmp_path: Path) -> None:
    """Two names of one library must not initialise it twice."""
    (tmp_path / "link.so").symlink_to(hsm.module)
    wrapped = client.wrap(KEY, "hr")
    linked = hsm.properties | {"encryption.kms.pkcs11.module": str(tmp_path / "link.so")}
    with client_from_properties(linked) as other:
        assert other.unwrap(wrapped, "hr") == KEY
