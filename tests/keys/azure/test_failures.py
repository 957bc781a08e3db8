"""Errors of Azure Key Vault: which are retried, and which error of sealberg each becomes."""

from __future__ import annotations

import pytest

from kit.servers.azure_kms import client_of
from kit.servers.fake_azure import FakeAzure, StaticToken
from kit.servers.kms import HASTY, KEY, TWICE
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
)
from sealberg.keys.kms.azure import AzureKms
from sealberg.keys.kms.client import WrappedKey


@pytest.mark.parametrize(("status", "code"), [(429, "Throttled"), (500, "InternalError"), (503, "Busy"), (408, "Slow")])
def test_passing_trouble_is_outwaited(fake: FakeAzure, status: int, code: str) -> None:
    fake.fail(status, code, 2)
    assert client_of(fake).wrap(KEY, "hr")
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "Forbidden", AccessDeniedError),
        (404, "KeyNotFound", KeyNotFoundError),
        (400, "BadParameter", ConfigError),
        (409, "Conflict", KeyAccessError),
        (302, "Elsewhere", KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeAzure, status: int, code: str, kind: type[Exception]) -> None:
    fake.fail(status, code, 99)
    with pytest.raises(kind, match=f"{status} {code}: because") as caught:
        client_of(fake).wrap(KEY, "hr")
    assert type(caught.value) is kind
    assert len(fake.seen) == 1


def test_disabled_version_is_tried_once_and_named_with_the_request(fake: FakeAzure) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, "hr")
    fake.keys["hr"].versions[0].enabled = False
    with pytest.raises(KeyDisabledError, match="disabled key") as caught:
        client.unwrap(wrapped, "hr")
    assert caught.value.context == {"provider": "azure", "key_id": "hr", "request_id": "b1946ac9-request"}
    assert len(fake.seen) == 2


def test_patience_ends_after_its_attempts_whatever_retry_after_says(fake: FakeAzure) -> None:
    fake.fail(429, "Throttled", 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, "hr")
    assert len(fake.seen) == 5  # the SDK adds none of its own, and does not sleep the 60 s asked for


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeAzure) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="Timeout"):
            client_of(fake, HASTY).wrap(KEY, "hr")
    finally:
        fake.hang.clear()
    assert len(fake.seen) == HASTY.max_attempts


def test_refused_token_is_access_denied(fake: FakeAzure) -> None:
    settings = client_of(fake).settings
    with pytest.raises(AccessDeniedError, match="the credentials were refused"):
        AzureKms(settings, credential=StaticToken("stale"), retry_policy=TWICE).wrap(KEY, "hr")


@pytest.mark.parametrize("answer", [{"value": "AAAA"}, {"kid": "x", "value": "oKGio6Slpqeoqaqr!"}, {"kid": "x"}, []])
def test_answer_that_makes_no_sense_is_no_answer_and_is_not_quoted(
    fake: FakeAzure, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(fake, "answer", lambda _: answer)
    with pytest.raises(KmsUnavailableError, match="the response to unwrapkey is malformed") as caught:
        client_of(fake, TWICE).unwrap(WrappedKey(bytes(256), {"azure.key-version": "a1"}), "hr")
    assert "oKGio" not in str(caught.value)
