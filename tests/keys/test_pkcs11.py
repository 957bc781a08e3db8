"""The PKCS#11 client against SoftHSM."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pkcs11
import pytest
from pkcs11 import MechanismFlag, TokenFlag

from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from kit.servers.softhsm import LABEL, PIN, SoftHsm, softhsm
from sealberg.errors import (
    AccessDeniedError,
    AuthenticationError,
    ConfigError,
    KeyNotFoundError,
    KmsUnavailableError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.format import aes_gcm
from sealberg.keys.kms import pkcs11 as ours
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.kms.pkcs11 import PinWithheldError, Pkcs11Kms, Pkcs11Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HURRY = {"encryption.kms.max-attempts": "2", "encryption.kms.backoff-s": "0.01"}
LOCAL = "a library in this process: there is no network between"
IMPORTED = bytes(range(32))


@pytest.fixture(scope="module")
def hsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    with softhsm(tmp_path_factory.mktemp("softhsm")) as hsm:
        for label in ("hr", "other"):
            hsm.make_key(label)
        hsm.make_key("imported", value=IMPORTED)
        hsm.make_key("extractable", extractable=True)
        hsm.make_key("decrypts", capabilities=MechanismFlag.DECRYPT)
        hsm.make_key("encrypts", capabilities=MechanismFlag.ENCRYPT)
        hsm.make_key("twin")
        hsm.make_key("twin")
        with hsm.owner() as session:
            session.generate_keypair(pkcs11.KeyType.RSA, 1024, label="pair", store=True)
            session.create_object(
                {
                    pkcs11.Attribute.CLASS: pkcs11.ObjectClass.DATA,
                    pkcs11.Attribute.TOKEN: True,
                    pkcs11.Attribute.LABEL: "note",
                    pkcs11.Attribute.VALUE: b"not a key",
                }
            )
        yield hsm


@pytest.fixture
def client(hsm: SoftHsm) -> Iterator[Pkcs11Kms]:
    with Pkcs11Kms.from_properties(hsm.properties | HURRY) as client:
        yield client


def with_pin(hsm: SoftHsm, file: Path, pin: str) -> Pkcs11Kms:
    file.write_text(pin)
    return Pkcs11Kms.from_properties(hsm.properties | HURRY | {"encryption.kms.pkcs11.pin-file": str(file)})


class Pkcs11Rig(Rig):
    key_id = "hr"
    impossible = {
        "disabled": "an object of a token has no switch",
        "destroyed": "a destroyed object is simply not found",
        "throttled": "PKCS#11 has no such answer",
        "timeout": "a call into the library cannot be given up",
        "refused": LOCAL,
    }

    def __init__(self, hsm: SoftHsm, client: Pkcs11Kms, folder: Path) -> None:
        self.hsm, self.client, self.folder = hsm, client, folder

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "denied":
            yield Provoked(with_pin(self.hsm, self.folder / "pin", "wrong"), "hr", wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            yield Provoked(self.client, "hr", wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "server_error":
            with self.hsm.removed():
                yield Provoked(self.client, "hr", wrapped)
        elif failure == "misconfigured":
            yield Provoked(self.client, "extractable", wrapped)


class TestPkcs11Kms(KmsConformance):
    @pytest.fixture
    def rig(self, hsm: SoftHsm, client: Pkcs11Kms, tmp_path: Path) -> Pkcs11Rig:
        return Pkcs11Rig(hsm, client, tmp_path)


# The bytes


def test_the_layout_is_that_of_the_local_keystore(client: Pkcs11Kms) -> None:
    assert client.unwrap(aes_gcm.seal(IMPORTED, KEY), "imported") == KEY
    assert aes_gcm.open(IMPORTED, client.wrap(KEY, "imported")) == KEY


@pytest.mark.parametrize("length", [0, 1, 12, 28])
def test_too_short_to_hold_a_key_is_the_wrong_key(client: Pkcs11Kms, length: int) -> None:
    with pytest.raises(WrongKeyError):
        client.unwrap(bytes(length), "hr")


@pytest.mark.parametrize("at", [0, 11, 12, 27, 28, 43])
def test_a_changed_byte_anywhere_does_not_open(client: Pkcs11Kms, at: int) -> None:
    wrapped = bytearray(client.wrap(KEY, "hr"))
    wrapped[at] ^= 0x80
    with pytest.raises(WrongKeyError):
        client.unwrap(bytes(wrapped), "hr")
    assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


class ChoosingToken:
    """Chooses the nonce itself, and may write it where the caller's was."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes

    def encrypt(self, key: bytes, *, mechanism: object, mechanism_param: Any) -> bytes:
        nonce = os.urandom(12)
        if self.writes:
            mechanism_param.nonce = nonce
        return aes_gcm._seal(IMPORTED, key, None, nonce)[12:]

    def decrypt(self, sealed: bytes, *, mechanism: object, mechanism_param: Any) -> bytes:
        return aes_gcm.open(IMPORTED, mechanism_param.nonce + sealed)


def test_a_nonce_that_the_token_chose_is_stored() -> None:
    token = ChoosingToken(writes=True)
    assert ours._open(token, ours._seal(token, KEY)) == KEY
    silent = ChoosingToken(writes=False)
    with pytest.raises(AuthenticationError):
        ours._open(silent, ours._seal(silent, KEY))


def test_a_wrap_that_does_not_open_again_is_never_given_away(
    client: Pkcs11Kms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "_open", lambda *_: b"something else")
    with pytest.raises(UnsupportedError, match="does not decrypt what it encrypted"):
        client.wrap(KEY, "hr")


# Keys


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("twin", "2 objects of the token have this label, expected one"),
        ("pair", "2 objects"),
        ("note", "not a secret AES key"),
        ("decrypts", "not allowed to encrypt and decrypt, expected both"),
        ("encrypts", "not allowed to encrypt and decrypt, expected both"),
        ("extractable", "allow-extractable"),
    ],
)
def test_an_object_that_cannot_serve_is_a_wrong_setting(client: Pkcs11Kms, label: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        client.wrap(KEY, label)
    with pytest.raises(ConfigError, match=words):
        client.unwrap(bytes(44), label)


def test_an_extractable_key_serves_when_that_was_asked_for(hsm: SoftHsm) -> None:
    allowed = {"encryption.kms.pkcs11.allow-extractable": "true"}
    with client_from_properties(hsm.properties | allowed) as client:
        assert client.unwrap(client.wrap(KEY, "extractable"), "extractable") == KEY


def test_a_library_that_hangs_is_given_up(hsm: SoftHsm, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {"encryption.kms.total-timeout-s": "0.3"}
    go_on = threading.Event()
    with client_from_properties(hsm.properties | quick) as client:
        wrapped = client.wrap(KEY, "hr")
        monkeypatch.setattr(Pkcs11Kms, "_find_and_run", lambda *_: go_on.wait(30))
        with pytest.raises(
            KmsUnavailableError, match=r"Pkcs11Kms did not return within 0.3 s \(provider pkcs11, key id hr"
        ):
            client.unwrap(wrapped, "hr")
        monkeypatch.undo()
        go_on.set()
        with pickle.loads(pickle.dumps(client)) as again:
            assert again.unwrap(wrapped, "hr") == KEY


def test_a_deleted_key_is_not_found_by_a_client_that_has_used_it(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    hsm.make_key("short-lived")
    wrapped = client.wrap(KEY, "short-lived")
    hsm.delete("short-lived")
    with pytest.raises(KeyNotFoundError, match=r"has no object with this label; existing keys: (.*, )?hr\b"):
        client.unwrap(wrapped, "short-lived")


def test_describe_tells_what_an_officer_asks(client: Pkcs11Kms) -> None:
    facts = dict(client.describe("hr"))
    assert facts.pop("serial")
    assert facts == {
        "token": LABEL,
        "manufacturer": "SoftHSM project",
        "model": "SoftHSM v2",
        "class": "SECRET_KEY",
        "type": "AES",
        "bits": "256",
        "encrypt": "true",
        "decrypt": "true",
        "extractable": "false",
        "never_extractable": "true",
        "sensitive": "true",
        "generated_in_token": "true",
    }
    assert client.describe("extractable")["extractable"] == "true"
    assert client.describe("imported")["generated_in_token"] == "false"


# The PIN


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
        ours._log_in(Token(), PIN)


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


# Settings


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


# Lost logins, sessions, tokens, and processes


def test_closing_one_client_leaves_the_others_logged_in(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    other = Pkcs11Kms.from_properties(hsm.properties)
    wrapped = other.wrap(KEY, "hr")
    assert client.unwrap(wrapped, "hr") == KEY
    other.close()
    assert client.unwrap(wrapped, "hr") == KEY


def test_the_last_client_that_closes_logs_out(hsm: SoftHsm) -> None:
    clients = [Pkcs11Kms.from_properties(hsm.properties) for _ in range(2)]
    for client in clients:
        client.wrap(KEY, "hr")
    token = clients[0].connection.token
    for client in clients:
        client.close()
    with token.open() as session:
        assert list(session.get_objects({pkcs11.Attribute.LABEL: "hr"})) == []


def test_a_login_ended_by_other_code_is_renewed(client: Pkcs11Kms) -> None:
    wrapped = client.wrap(KEY, "hr")
    client.connection.session.close()  # C_Logout is for the whole process
    assert client.unwrap(wrapped, "hr") == KEY


def test_a_login_made_by_other_code_is_shared(hsm: SoftHsm) -> None:
    with hsm.owner(), Pkcs11Kms.from_properties(hsm.properties) as client:
        assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


def test_a_library_restarted_by_other_code_is_outlived(client: Pkcs11Kms) -> None:
    wrapped = client.wrap(KEY, "hr")
    pkcs11.lib(os.path.realpath(client.settings.module)).reinitialize()
    assert client.unwrap(wrapped, "hr") == KEY


def test_a_removed_token_is_unavailable_and_serves_when_it_is_back(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    with Pkcs11Kms.from_properties(hsm.properties | HURRY) as other:
        wrapped = client.wrap(KEY, "hr")
        assert other.unwrap(wrapped, "hr") == KEY
        with hsm.removed():
            for lost in (client, other):
                with pytest.raises(KmsUnavailableError, match="attempts 2"):
                    lost.unwrap(wrapped, "hr")
        assert client.unwrap(wrapped, "hr") == KEY
        assert other.unwrap(wrapped, "hr") == KEY


def test_a_sick_token_is_not_taken_for_a_wrong_key(client: Pkcs11Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    """SoftHSM says the same of a bad tag and of everything else."""
    wrapped = client.wrap(KEY, "hr")

    def fail(*_: object) -> bytes:
        raise pkcs11.GeneralError

    monkeypatch.setattr(ours, "_open", fail)
    with pytest.raises(KmsUnavailableError, match="GeneralError"):
        client.unwrap(wrapped, "hr")
    monkeypatch.undo()
    assert client.unwrap(wrapped, "hr") == KEY


def test_threads_share_the_token(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    other = Pkcs11Kms.from_properties(hsm.properties)
    failures: list[Exception] = []

    def work(mine: Pkcs11Kms) -> None:
        try:
            for _ in range(20):
                assert mine.unwrap(mine.wrap(KEY, "hr"), "hr") == KEY
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in (client, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert failures == []


def _in_child(client: Pkcs11Kms, wrapped: bytes, parents: Any, answer: Any) -> None:
    try:
        opened, made = client.unwrap(wrapped, "hr"), client.wrap(KEY, "hr")
        with pytest.raises(pkcs11.SessionHandleInvalid):
            parents.generate_random(64)  # else the library was not initialised again
        answer.send((opened, made))
    except BaseException as error:
        answer.send(RuntimeError(repr(error)))
    answer.close()
    os._exit(0)  # the child's copy of the test run must not go on, nor clean up


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("reset_on_fork", [False, True], ids=["unaware library", "library that resets itself"])
def test_a_forked_child_logs_in_by_itself_and_leaves_its_parent_logged_in(tmp_path: Path, reset_on_fork: bool) -> None:
    with softhsm(tmp_path, reset_on_fork=reset_on_fork) as own:
        own.make_key("hr")
        with Pkcs11Kms.from_properties(own.properties) as client:
            wrapped = client.wrap(KEY, "hr")
            with client.connection.module.lock:  # a thread of the parent is inside the library
                here, there = multiprocessing.Pipe()
                given = (client, wrapped, client.connection.session, there)
                child = multiprocessing.get_context("fork").Process(target=_in_child, args=given)
                child.start()
                there.close()
                assert here.poll(20), "the child waits for a lock that nobody will release"
                answer = here.recv()
            child.join(20)
            here.close()
            assert not isinstance(answer, Exception), answer
            assert answer[0] == KEY
            assert client.unwrap(answer[1], "hr") == KEY


def test_a_pickled_client_works_in_a_new_process(client: Pkcs11Kms, tmp_path: Path) -> None:
    wrapped = client.wrap(KEY, "hr")
    (tmp_path / "client").write_bytes(pickle.dumps(client))
    script = (
        "import pickle, pathlib, sys\n"
        "client = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(client.unwrap(bytes.fromhex(sys.argv[2]), 'hr').hex())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "client"), wrapped.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == KEY.hex(), done.stderr
