"""Errors of AWS KMS: which are retried, and which error of sealberg each becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.aws_kms import client_of
from kit.servers.kms import HASTY, KEY, TWICE
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from kit.servers.fake_aws import FakeAws


@pytest.mark.parametrize(
    "code",
    [
        "ThrottlingException",
        "LimitExceededException",
        "KMSInternalException",
        "KeyUnavailableException",
        "DependencyTimeoutException",
    ],
)
def test_passing_trouble_is_outwaited(fake: FakeAws, code: str) -> None:
    key = fake.create()
    fake.fail(code, 2)
    assert len(client_of(fake).wrap(KEY, key.arn)) > 32
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDeniedException", 400, AccessDeniedError),
        ("ExpiredTokenException", 400, AccessDeniedError),
        ("UnrecognizedClientException", 400, AccessDeniedError),
        ("SomethingNewException", 403, AccessDeniedError),
        ("NotFoundException", 400, KeyNotFoundError),
        ("DisabledException", 400, KeyDisabledError),
        ("IncorrectKeyException", 400, WrongKeyError),
        ("InvalidCiphertextException", 400, WrongKeyError),
        ("InvalidKeyUsageException", 400, ConfigError),
        ("ValidationException", 400, ConfigError),
        ("SomethingNewException", 400, KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeAws, code: str, status: int, kind: type[Exception]) -> None:
    fake.fail(code, 99, "because", status)
    with pytest.raises(kind, match=f"{code}: because") as caught:
        client_of(fake).unwrap(bytes(80), "alias/any")
    assert type(caught.value) is kind
    # Where there is no such key, it asks once which ones there are.
    assert len(fake.seen) == (2 if kind is KeyNotFoundError else 1)


def test_a_key_that_is_not_there_is_told_with_those_that_are_if_that_may_be_asked(fake: FakeAws) -> None:
    fake.create(alias="alias/hr")
    fake.create(alias="alias/finance")
    with pytest.raises(KeyNotFoundError, match=r"does not exist.*; existing keys: .*alias/finance, alias/hr"):
        client_of(fake).wrap(KEY, "alias/pay")
    fake.denied = {"ListAliases"}
    with pytest.raises(KeyNotFoundError, match="does not exist") as caught:
        client_of(fake).wrap(KEY, "alias/pay")
    assert "existing keys" not in str(caught.value)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("pending deletion", KeyDestroyedError),
        ("pending replica deletion", KeyDestroyedError),
        ("pending import", KeyDisabledError),  # its material expired, and can be imported again
        ("unavailable", KeyDisabledError),  # its custom key store is disconnected
    ],
)
def test_invalid_state_is_told_apart_by_the_state(fake: FakeAws, state: str, kind: type[Exception]) -> None:
    key = fake.create()
    key.state = state
    with pytest.raises(kind, match=state):
        client_of(fake).wrap(KEY, key.arn)
    assert len(fake.seen) == 1


@pytest.mark.parametrize(("status", "kind"), [(503, KmsUnavailableError), (429, KmsThrottledError)])
def test_unknown_code_is_judged_by_its_http_status(fake: FakeAws, status: int, kind: type[Exception]) -> None:
    fake.fail("SomethingNewException", 99, status=status)
    with pytest.raises(kind) as caught:
        client_of(fake, TWICE).wrap(KEY, "alias/any")
    assert type(caught.value) is kind
    assert len(fake.seen) == TWICE.max_attempts


def test_patience_ends_after_its_attempts_and_says_so(fake: FakeAws) -> None:
    fake.fail("ThrottlingException", 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, "alias/any")
    assert len(fake.seen) == 5  # the SDK adds none of its own


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeAws) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="Read timeout"):
            client_of(fake, HASTY).wrap(KEY, "alias/any")
    finally:
        fake.hang.clear()
    assert len(fake.seen) == HASTY.max_attempts


def test_answer_without_a_key_is_no_answer(fake: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "answer", lambda _: {"hello": "from a proxy"})
    with pytest.raises(KmsUnavailableError, match="no CiphertextBlob"):
        client_of(fake, TWICE).wrap(KEY, "alias/any")
