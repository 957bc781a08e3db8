"""Errors of Google Cloud KMS: which are retried, and which error of sealberg each becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from kit.servers.gcp_kms import HR, client_of
from kit.servers.kms import HASTY, KEY
from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)

if TYPE_CHECKING:
    from kit.servers.fake_gcp import FakeGcp


@pytest.mark.parametrize(
    "code",
    ["RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED"],
)
def test_passing_trouble_is_outwaited(fake: FakeGcp, code: str) -> None:
    fake.fail(grpc.StatusCode[code], 2)
    assert client_of(fake).wrap(KEY, HR)
    assert len(fake.seen) == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("NOT_FOUND", KeyNotFoundError),
        ("PERMISSION_DENIED", AccessDeniedError),
        ("UNAUTHENTICATED", AccessDeniedError),
        ("FAILED_PRECONDITION", KeyDisabledError),
        ("INVALID_ARGUMENT", WrongKeyError),
        ("UNIMPLEMENTED", ConfigError),
        ("OUT_OF_RANGE", KeyAccessError),
    ],
)
def test_what_will_not_pass_is_tried_once(fake: FakeGcp, code: str, kind: type[Exception]) -> None:
    fake.fail(grpc.StatusCode[code], 99)
    with pytest.raises(kind, match="because") as caught:
        client_of(fake).unwrap(bytes(50), HR)
    assert type(caught.value) is kind
    assert len(fake.seen) == 1


def test_invalid_argument_of_wrap_is_a_configuration_error(fake: FakeGcp) -> None:
    fake.fail(grpc.StatusCode.INVALID_ARGUMENT, 1)
    with pytest.raises(ConfigError, match=f"{HR}.*because"):
        client_of(fake).wrap(KEY, HR)


def test_denial_says_that_the_key_may_not_exist(fake: FakeGcp) -> None:
    fake.denied.add("Encrypt")
    with pytest.raises(AccessDeniedError, match="denied, or no such key") as caught:
        client_of(fake).wrap(KEY, HR)
    assert caught.value.context == {"provider": "gcp", "key_id": HR, "request_id": "4711-request"}


def test_patience_ends_after_its_attempts_and_says_so(fake: FakeGcp) -> None:
    fake.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, 99)
    with pytest.raises(KmsThrottledError, match="attempts 5"):
        client_of(fake).wrap(KEY, HR)
    assert len(fake.seen) == 5  # the SDK adds none of its own


def test_silent_server_is_asked_as_often_as_patience_allows(fake: FakeGcp) -> None:
    fake.hang.set()
    try:
        with pytest.raises(KmsUnavailableError, match="DeadlineExceeded"):
            client_of(fake, HASTY).wrap(KEY, HR)
    finally:
        fake.hang.clear()
    assert len(fake.seen) == HASTY.max_attempts
