"""The PIN: tried once, never shown, never tried when that could lock the token."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from pkcs11 import TokenFlag

from kit.servers.kms import KEY
from kit.servers.pkcs11_kms import with_pin
from kit.servers.softhsm import PIN, SoftHsm
from sealberg.errors import AccessDeniedError, ConfigError
from sealberg.keys.kms.pkcs11 import Pkcs11Kms
from sealberg.keys.kms.pkcs11_module import PinWithheldError, log_in

if TYPE_CHECKING:
    from pathlib import Path


def test_a_wrong_pin_is_tried_once_and_never_again_by_the_same_client(hsm: SoftHsm, tmp_path: Path) -> None:
    file = tmp_path / "pin"
    client = with_pin(hsm, file, "wrong")
    with pytest.raises(AccessDeniedError, match="PinIncorrect"):
        client.wrap(KEY, "hr")
    assert hsm.flags() & TokenFlag.USER_PIN_COUNT_LOW, "the token counts"
    with hsm.owner():
        pass
    assert not hsm.flags() & TokenFlag.USER_PIN_COUNT_LOW, "a right PIN ends the count"
    for again in (client, pickle.loads(pickle.dumps(client))):
        with pytest.raises(AccessDeniedError, match="not tried again"):
            again.wrap(KEY, "hr")
    assert not hsm.flags() & TokenFlag.USER_PIN_COUNT_LOW, "nobody has tried"
    with with_pin(hsm, file, PIN) as rebuilt:
        rebuilt.wrap(KEY, "hr")


def test_a_wrong_pin_is_not_forgiven_when_the_process_is_logged_in_already(
    hsm: SoftHsm, client: Pkcs11Kms, tmp_path: Path
) -> None:
    """The token itself would let it pass."""
    wrapped = client.wrap(KEY, "hr")
    with pytest.raises(AccessDeniedError, match="differs"):
        with_pin(hsm, tmp_path / "pin", "wrong").unwrap(wrapped, "hr")
    assert client.unwrap(wrapped, "hr") == KEY


def test_a_pin_that_was_changed_underneath_is_tried_once(hsm: SoftHsm, tmp_path: Path) -> None:
    file = tmp_path / "pin"
    client = with_pin(hsm, file, PIN)
    client.wrap(KEY, "hr")
    file.write_text("changed")
    client.connection.session.close()  # logs the process out
    with pytest.raises(AccessDeniedError, match="PinIncorrect"):
        client.wrap(KEY, "hr")
    with pytest.raises(AccessDeniedError, match="not tried again"):
        client.wrap(KEY, "hr")


@pytest.mark.parametrize(
    ("flag", "words"), [(TokenFlag.USER_PIN_FINAL_TRY, "no PIN is tried"), (TokenFlag.USER_PIN_LOCKED, "locked")]
)
def test_no_pin_is_tried_on_a_token_about_to_lock(flag: TokenFlag, words: str) -> None:
    class Token:
        flags = TokenFlag.LOGIN_REQUIRED | flag

        def open(self, **_: str) -> None:
            raise AssertionError("tried")

    with pytest.raises(PinWithheldError, match=words):
        log_in(Token(), PIN)


@pytest.mark.parametrize("name", ["SEALBERG_PKCS11_PIN", "ANOTHER_NAME"])
def test_the_pin_may_come_from_the_environment(hsm: SoftHsm, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    properties = dict(hsm.properties)
    del properties["encryption.kms.pkcs11.pin-file"]
    if name != "SEALBERG_PKCS11_PIN":
        properties["encryption.kms.pkcs11.pin-env"] = name
    monkeypatch.delenv("SEALBERG_PKCS11_PIN", raising=False)
    with pytest.raises(ConfigError, match=name):
        Pkcs11Kms.from_properties(properties).wrap(KEY, "hr")
    monkeypatch.setenv(name, PIN)
    with Pkcs11Kms.from_properties(properties) as client:
        assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


def test_no_pin_in_repr_pickle_or_settings(client: Pkcs11Kms) -> None:
    client.wrap(KEY, "hr")
    shown = repr(client) + repr(client.settings) + repr(client.connection)
    assert PIN not in shown
    assert PIN.encode() not in pickle.dumps(client)
