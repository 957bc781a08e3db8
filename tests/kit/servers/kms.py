"""The conformance suite of KMS clients: every client with every failure.

A test module makes a `Rig` for its client and subclasses `KmsConformance`; a failure that a provider cannot have is
listed in `impossible`, with the reason.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import pwd
import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    SealbergError,
    WrongKeyError,
)
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.keyring import EncryptedKey, Keyring
from sealberg.keys.kms.client import WrappedKey
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sealberg.keys.kms.client import KmsClient

FAILURES: dict[str, type[SealbergError]] = {
    "not_found": KeyNotFoundError,  # no key of this id
    "denied": AccessDeniedError,  # credentials are good, and not for this key
    "disabled": KeyDisabledError,  # switched off, reversible
    "destroyed": KeyDestroyedError,  # destroyed or pending deletion
    "wrong_key": WrongKeyError,  # wrapped by another master key
    "corrupt": WrongKeyError,  # one flipped bit in the wrapped bytes
    "throttled": KmsThrottledError,  # for longer than patience lasts
    "server_error": KmsUnavailableError,  # 5xx, for longer than patience lasts
    "timeout": KmsUnavailableError,  # no answer within the read timeout
    "refused": KmsUnavailableError,  # nobody listens
    "misconfigured": ConfigError,  # e.g. a malformed key id, endpoint or algorithm
}
KEY = bytes(range(0xA0, 0xB0))  # a KEK; none of its bytes may show up in an error
# The servers of tests answer at once, but on a busy machine that may take seconds. So only a server that hangs is met
# with little patience: HASTY. TWICE is for failures that stay, PATIENT for all else.
PATIENT: Final = RetryPolicy(
    connect_timeout_s=60, read_timeout_s=60, total_timeout_s=240, backoff_s=0.001, max_backoff_s=0.02
)
TWICE: Final = replace(PATIENT, max_attempts=2)
HASTY: Final = replace(TWICE, connect_timeout_s=1, read_timeout_s=0.3)


@dataclass
class Provoked:
    """A state in which `client.unwrap(wrapped, key_id)` must fail."""

    client: KmsClient
    key_id: str
    wrapped: bytes


class Rig(ABC):
    """One provider, running, with a client and a usable master key."""

    client: KmsClient
    key_id: str
    impossible: ClassVar[dict[str, str]] = {}  # failure -> why this provider cannot have it

    @abstractmethod
    def provoke(self, failure: str) -> AbstractContextManager[Provoked]:
        """Cause one failure, and undo it afterwards; an error on entry counts as the failure."""


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of the audit log, without time, process and user, which are checked here."""
    lines = []
    for record in caplog.records:
        if record.name == "sealberg.audit":
            line = json.loads(record.getMessage())
            assert datetime.fromisoformat(line.pop("time")).tzinfo is UTC
            assert line.pop("pid") == os.getpid()
            assert line.pop("user") == pwd.getpwuid(os.geteuid()).pw_name
            lines.append(line)
    return lines


class KmsConformance:
    """Inherit this, and define a fixture `rig` (any scope)."""

    @pytest.mark.parametrize("length", [16, 24, 32])
    def test_unwrap_gives_back_what_wrap_took(self, rig: Rig, length: int) -> None:
        key = KEY + bytes(length - 16)
        wrapped = rig.client.wrap(key, rig.key_id)
        assert key not in wrapped
        assert rig.client.unwrap(wrapped, rig.key_id) == key

    def test_plain_bytes_of_the_wrapped_key_are_enough(self, rig: Rig) -> None:
        """A client may add properties to the bytes, but a table written by Java has none."""
        assert rig.client.unwrap(bytes(rig.client.wrap(KEY, rig.key_id)), rig.key_id) == KEY

    def test_two_wraps_of_one_key_differ(self, rig: Rig) -> None:
        assert rig.client.wrap(KEY, rig.key_id) != rig.client.wrap(KEY, rig.key_id)

    def test_generate_gives_a_key_and_its_wrapping(self, rig: Rig) -> None:
        made = rig.client.generate(32, rig.key_id)
        assert len(made.key) == 32
        assert rig.client.unwrap(made.wrapped, rig.key_id) == made.key
        assert made.key.hex() not in repr(made)
        assert repr(made.key) not in repr(made)

    def test_rewrap_keeps_the_key(self, rig: Rig) -> None:
        wrapped = rig.client.wrap(KEY, rig.key_id)
        assert rig.client.unwrap(rig.client.rewrap(wrapped, rig.key_id), rig.key_id) == KEY

    def test_describe_answers_with_strings(self, rig: Rig) -> None:
        facts = rig.client.describe(rig.key_id)
        assert all(isinstance(name, str) and isinstance(value, str) for name, value in facts.items())

    def test_a_pickled_client_works_again(self, rig: Rig) -> None:
        rig.client.wrap(KEY, rig.key_id)  # connected, then pickled
        with pickle.loads(pickle.dumps(rig.client)) as again:
            assert again.unwrap(rig.client.wrap(KEY, rig.key_id), rig.key_id) == KEY

    def test_every_call_leaves_a_line_in_the_audit_log(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        settings = EncryptionSettings("db.t", rig.key_id)
        keys = EncryptionManager(settings, kms=rig.client)
        with caplog.at_level(logging.INFO, "sealberg.audit"):
            ring, key_id = keys.seal_list_key(Keyring(), KeyMetadata(KEY, bytes(16), 36))
            keys.open_list_key(ring, key_id)  # from the cache, by the one that filled it: nothing new to tell
            EncryptionManager(settings, kms=rig.client, cache=keys.cache).open_list_key(ring, key_id)
            EncryptionManager(settings, kms=rig.client, cache=KekCache()).open_list_key(ring, key_id)
        kek = ring.entries[0]
        about = {"table": "db.t", "kek_id": kek.key_id, "master_key_id": rig.key_id, "kms": rig.client.provider}
        assert audit_lines(caplog) == [
            {"event": event, **about, "result": "ok"} for event in ("wrap", "unwrap", "cached", "unwrap")
        ]
        unwrapped = rig.client.unwrap(WrappedKey(kek.encrypted_key_metadata, kek.properties), rig.key_id)
        for secret in (unwrapped, KEY):
            assert secret.hex() not in caplog.text
            assert base64.b64encode(secret).decode() not in caplog.text

    @pytest.mark.parametrize("failure", FAILURES)
    def test_failure_has_its_type_and_tells_no_secret(
        self, rig: Rig, failure: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Calls the manager, as a table does, so that the audit log is checked too."""
        if failure in rig.impossible:
            # Not a skip: the reason is part of the table.
            assert rig.impossible[failure]
            return
        met: Provoked | None = None
        with pytest.raises(SealbergError) as caught, rig.provoke(failure) as world:
            met = world
            stamped = {"KEY_TIMESTAMP": "1750000000000", **getattr(world.wrapped, "properties", {})}
            kek = EncryptedKey("kek", bytes(world.wrapped), world.key_id, stamped)
            keys = EncryptionManager(EncryptionSettings("db.t", world.key_id), kms=world.client)
            with caplog.at_level(logging.INFO, "sealberg.audit"):
                keys._unwrap(kek)
        assert type(caught.value) is FAILURES[failure], repr(caught.value)
        said = str(caught.value)
        if met is not None:  # a bad configuration may fail before there is a client
            assert met.client.provider in said
            assert met.key_id in said
            assert audit_lines(caplog) == [
                {
                    "event": "unwrap",
                    "table": "db.t",
                    "kek_id": "kek",
                    "master_key_id": met.key_id,
                    "kms": met.client.provider,
                    "result": "error",
                    "error": FAILURES[failure].__name__,
                }
            ]
        everything = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caplog.text
        for secret in (KEY.hex(), base64.b64encode(KEY).decode(), repr(KEY), KEY.decode("latin-1")):
            assert secret not in everything
        assert str(pickle.loads(pickle.dumps(caught.value))) == said
