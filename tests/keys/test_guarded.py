"""Clients of other hands: their failures typed, retried and bounded in time, whatever they raise."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import threading
import time
import urllib.error
from email.message import Message
from typing import TYPE_CHECKING, Any

import pytest
import requests

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms import guarded as module
from sealberg.keys.kms.client import KmsClient, WrappedKey, client_from_properties
from sealberg.keys.kms.guarded import MAX_ABANDONED, GuardedKms, guarded
from sealberg.keys.kms.memory import MemoryKms
from sealberg.keys.kms.remote import RemoteKms
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = bytes(range(16))
QUICK = RetryPolicy(max_attempts=3, backoff_s=0.001, max_backoff_s=0.002)
HURRY = RetryPolicy(
    connect_timeout_s=0.05,
    read_timeout_s=0.05,
    total_timeout_s=0.5,
    max_attempts=2,
    backoff_s=0.001,
    max_backoff_s=0.002,
)


class ForeignKms(MemoryKms):
    """Fails as often as it was told, and then works."""

    provider = "foreign"
    failures: list[BaseException] = []
    calls = 0
    answer: Any = None
    hold: threading.Event | None = None

    def __init__(self, master_keys: Any = None) -> None:
        super().__init__(master_keys or {"hr": bytes(16)})

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        type(self).calls += 1
        if self.hold is not None:
            self.hold.wait(30)
        if self.failures:
            raise self.failures.pop(0)
        return self.answer if self.answer is not None else super().unwrap(wrapped, master_key_id)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    ForeignKms.failures, ForeignKms.calls, ForeignKms.answer, ForeignKms.hold = [], 0, None, None
    module._ABANDONED.here().clear()
    yield
    if ForeignKms.hold is not None:
        ForeignKms.hold.set()


def answered(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError("no", response=response)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), KmsUnavailableError),
        (TimeoutError(), KmsUnavailableError),
        (OSError(113, "No route to host"), KmsUnavailableError),
        (requests.ConnectionError(), KmsUnavailableError),
        (KmsUnavailableError("later"), KmsUnavailableError),
        (KmsThrottledError("slower"), KmsThrottledError),
        (answered(503), KmsUnavailableError),
        (answered(429), KmsThrottledError),
        (urllib.error.HTTPError("u", 500, "no", Message(), io.BytesIO()), KmsUnavailableError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_what_may_pass_is_retried_as_the_properties_say(raised: Exception, kind: type[KeyAccessError]) -> None:
    kms = GuardedKms(ForeignKms(), QUICK)
    wrapped = kms.wrap(KEY, "hr")
    ForeignKms.failures = [raised, raised]
    assert kms.unwrap(wrapped, "hr") == KEY
    assert ForeignKms.calls == 3
    ForeignKms.failures = [raised] * 3
    with pytest.raises(kind) as caught:
        kms.unwrap(wrapped, "hr")
    assert type(caught.value) is kind
    assert caught.value.context == {"provider": "foreign", "key_id": "hr", "attempts": "3"}
    assert ForeignKms.calls == 6


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ValueError("a key: 000102030405"), KeyAccessError),
        (ZeroDivisionError(), KeyAccessError),
        (PermissionError(13, "Permission denied"), AccessDeniedError),
        (FileNotFoundError(2, "No such file or directory", "/etc/token"), KeyAccessError),
        (answered(403), AccessDeniedError),
        (answered(400), KeyAccessError),
        (AccessDeniedError("not you"), AccessDeniedError),
        (WrongKeyError("not this"), WrongKeyError),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else "",
)
def test_what_will_not_pass_is_typed_and_tried_once(raised: Exception, kind: type[KeyAccessError]) -> None:
    kms = GuardedKms(ForeignKms(), QUICK)
    wrapped = kms.wrap(KEY, "hr")
    ForeignKms.failures = [raised]
    with pytest.raises(KeyAccessError) as caught:
        kms.unwrap(wrapped, "hr")
    assert type(caught.value) is kind
    assert caught.value.context == {"provider": "foreign", "key_id": "hr"}
    assert caught.value.__cause__ is raised
    assert "000102" not in str(caught.value), "the text of an unknown exception may hold a key"
    assert ForeignKms.calls == 1


def test_a_configuration_error_and_an_interrupt_go_through_as_they_are() -> None:
    kms = GuardedKms(ForeignKms(), QUICK)
    wrapped = kms.wrap(KEY, "hr")
    for raised in (ConfigError("wrong"), KeyboardInterrupt()):
        ForeignKms.failures = [raised]
        with pytest.raises(type(raised)) as caught:
            kms.unwrap(wrapped, "hr")
        assert caught.value is raised


@pytest.mark.parametrize("answer", ["text", 7, [1]])
def test_an_answer_that_is_no_bytes_is_refused_without_showing_it(answer: Any) -> None:
    kms = GuardedKms(ForeignKms(), QUICK)
    wrapped = kms.wrap(KEY, "hr")
    ForeignKms.answer = answer
    with pytest.raises(KeyAccessError, match=rf"unwrap of ForeignKms returned {type(answer).__name__}, expected bytes"):
        kms.unwrap(wrapped, "hr")
    ForeignKms.answer = bytearray(KEY)
    assert type(kms.unwrap(wrapped, "hr")) is bytes


def test_properties_beside_wrapped_bytes_get_through_both_ways() -> None:
    seen: list[Any] = []

    class Versioned(ForeignKms):
        def wrap(self, key: bytes, master_key_id: str) -> bytes:
            return WrappedKey(super().wrap(key, master_key_id), {"version": "7"})

        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            seen.append(getattr(wrapped, "properties", None))
            return super().unwrap(wrapped, master_key_id)

    kms = guarded(Versioned())
    assert kms.unwrap(kms.rewrap(kms.wrap(KEY, "hr"), "hr"), "hr") == KEY
    assert [dict(each) for each in seen] == [{"version": "7"}] * 2
    assert kms.unwrap(kms.generate(32, "hr").wrapped, "hr")
    assert kms.describe("hr") == {"length": "16"}


# -- time -------------------------------------------------------------------------------------------


def test_a_call_that_hangs_is_given_up_and_the_threads_it_leaves_are_bounded() -> None:
    kms = GuardedKms(ForeignKms(), HURRY)
    wrapped = ForeignKms().wrap(KEY, "hr")
    ForeignKms.hold = threading.Event()
    began, before = time.monotonic(), threading.active_count()
    with pytest.raises(
        KmsUnavailableError, match=r"ForeignKms did not return within 0.1 s \(provider foreign, key id hr"
    ):
        kms.unwrap(wrapped, "hr")
    assert time.monotonic() - began < 30, "a call hangs for 30 s"
    assert ForeignKms.calls == 2, "an attempt that hung is tried again"
    while module._ABANDONED.here()[ForeignKms].count < MAX_ABANDONED:
        with pytest.raises(KmsUnavailableError):
            # Another guard around another client of the class counts with the first.
            GuardedKms(ForeignKms(), HURRY).unwrap(wrapped, "hr")
    calls = ForeignKms.calls
    with pytest.raises(KmsUnavailableError, match=f"{MAX_ABANDONED} earlier calls to ForeignKms have not returned"):
        kms.unwrap(wrapped, "hr")
    assert ForeignKms.calls == calls
    assert threading.active_count() - before <= MAX_ABANDONED
    ForeignKms.hold.set()  # the server is back
    while module._ABANDONED.here()[ForeignKms].count:
        time.sleep(0.01)
    assert GuardedKms(ForeignKms()).unwrap(wrapped, "hr") == KEY


def test_the_total_time_ends_all_attempts() -> None:
    policy = RetryPolicy(connect_timeout_s=5, read_timeout_s=5, total_timeout_s=0.2, max_attempts=50)
    kms = GuardedKms(ForeignKms(), policy)
    ForeignKms.hold = threading.Event()
    with pytest.raises(KmsUnavailableError, match=r"did not return within 0\.2 s .*attempts 1"):
        kms.unwrap(bytes(44), "hr")
    assert ForeignKms.calls == 1


def test_the_default_time_is_long_enough_for_a_slow_answer() -> None:
    policy = RetryPolicy()
    assert policy.connect_timeout_s + policy.read_timeout_s == 7
    kms = GuardedKms(ForeignKms(), policy)
    wrapped = kms.wrap(KEY, "hr")
    ForeignKms.hold = threading.Event()
    threading.Timer(0.3, ForeignKms.hold.set).start()
    assert kms.unwrap(wrapped, "hr") == KEY


# -- who is guarded, and how often --------------------------------------------------------------------


class RetryingKms(RemoteKms):
    """Written by others on top of RemoteKms, which retries."""

    provider = "retrying"
    calls = 0

    @classmethod
    def from_properties(cls, properties: Any) -> RetryingKms:
        return cls(RetryPolicy.from_properties(properties))

    def connect(self) -> Any:
        return {}

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | None:
        return KmsUnavailableError("no answer", key_id=master_key_id) if isinstance(error, OSError) else None

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        def fail() -> bytes:
            RetryingKms.calls += 1
            raise OSError if master_key_id == "down" else ZeroDivisionError

        return self.call(master_key_id, fail)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        return self.wrap(wrapped, master_key_id)


def test_a_client_that_retries_itself_is_not_retried_again() -> None:
    RetryingKms.calls = 0
    quick = {"encryption.kms.backoff-s": "0.001", "encryption.kms.max-backoff-s": "0.001"}
    kms = client_from_properties({"encryption.kms-impl": f"{__name__}.RetryingKms", **quick})
    with pytest.raises(KmsUnavailableError, match="attempts 5"):
        kms.wrap(KEY, "down")
    assert RetryingKms.calls == 5, "5 attempts, not 5 times 5"
    with pytest.raises(
        KeyAccessError, match=r"RetryingKms failed with ZeroDivisionError \(provider retrying, key id hr"
    ):
        kms.wrap(KEY, "hr")


def test_clients_of_this_package_are_not_wrapped_and_those_of_others_once() -> None:
    memory = client_from_properties({"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16})
    assert type(memory) is MemoryKms
    kms = guarded(ForeignKms())
    assert isinstance(kms, GuardedKms)
    assert guarded(kms) is kms
    settings = EncryptionSettings("db.t", "hr", kms_properties={"encryption.kms.max-attempts": "2"})
    given = EncryptionManager(settings, kms=ForeignKms()).kms
    assert isinstance(given, GuardedKms)
    assert given.retry_policy.max_attempts == 2


def test_a_client_named_by_its_path_obeys_the_retry_properties() -> None:
    properties = {
        "encryption.kms-impl": f"{__name__}.ForeignKms",
        "encryption.kms.memory.key.hr": "00" * 16,
        "encryption.kms.max-attempts": "2",
        "encryption.kms.backoff-s": "0.001",
        "its.own": "setting",
    }
    with client_from_properties(properties) as kms:
        assert kms.provider == "foreign"
        wrapped = kms.wrap(KEY, "hr")
        ForeignKms.failures = [ConnectionResetError(), ConnectionResetError(), ConnectionResetError()]
        with pytest.raises(KmsUnavailableError, match=r"ForeignKms failed with ConnectionResetError .*attempts 2"):
            kms.unwrap(wrapped, "hr")
        again = pickle.loads(pickle.dumps(kms))
        assert again.unwrap(wrapped, "hr") == KEY
        assert again.retry_policy.max_attempts == 2


class BrokenKms(ForeignKms):
    @classmethod
    def from_properties(cls, properties: Any) -> BrokenKms:  # noqa: ARG003
        raise KeyError("secret-in-a-property")


def test_a_client_that_cannot_be_built_is_a_configuration_error_that_quotes_no_property() -> None:
    with pytest.raises(ConfigError, match=r"BrokenKms failed with KeyError") as caught:
        client_from_properties({"encryption.kms-impl": f"{__name__}.BrokenKms"})
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"encryption.kms-type": "memory", "encryption.kms.read-timeout": "3"},
            r"unknown property encryption.kms.read-timeout for .* memory \(known: .*read-timeout-s.*memory.key",
        ),
        ({"encryption.kms-type": "keystore", "encryption.kms.keystore.pass": "x"}, "unknown property .*keystore.pass"),
        ({"encryption.kms-type": "aws", "encryption.kms.aws.region": "x"}, "unknown property .*aws.region"),
        ({"encryption.kms-type": "gcp", "encryption.kms.gcp.token": "x"}, "unknown property encryption.kms.gcp.token"),
        (
            {"encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS", "encryption.kms.memory.key.a": "00"},
            "unknown property encryption.kms.memory.key.a",
        ),
    ],
    ids=lambda each: str(each)[:60],
)  # fmt: skip
def test_a_property_that_a_client_of_this_package_does_not_know_is_refused(
    properties: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        client_from_properties(properties)


# -- processes --------------------------------------------------------------------------------------


def _unwrap_in_child(kms: KmsClient, wrapped: bytes, answer: Any) -> None:
    ForeignKms.hold = None
    answer.send((kms.unwrap(wrapped, "hr"), os.getpid()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_inherit_what_its_parent_gave_up() -> None:
    kms = GuardedKms(ForeignKms(), HURRY)
    wrapped = ForeignKms().wrap(KEY, "hr")
    ForeignKms.hold = threading.Event()
    while module._ABANDONED.here().get(ForeignKms, module._Abandoned()).count < MAX_ABANDONED:
        with pytest.raises(KmsUnavailableError):
            kms.unwrap(wrapped, "hr")
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(
        target=_unwrap_in_child, args=(GuardedKms(ForeignKms()), wrapped, theirs)
    )
    with module._ABANDONED.here()[ForeignKms]._lock:
        child.start()
        theirs.close()
        assert ours.poll(60)
        key, pid = ours.recv()
    child.join(60)
    ours.close()
    assert key == KEY
    assert pid == child.pid
