"""What the Google Cloud client sends and checks: checksums, key ids, versions of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from kit.servers.fake_gcp import FakeGcp, State
from kit.servers.gcp_kms import HR, client_of
from kit.servers.kms import KEY, TWICE
from sealberg.errors import ConfigError, KeyDestroyedError, KeyDisabledError, KmsUnavailableError
from sealberg.keys.kms.gcp import GcpKms, crc32c

if TYPE_CHECKING:
    from collections.abc import Callable


def test_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def test_sends_what_java_sends_and_checksums(fake: FakeGcp) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    client.unwrap(wrapped, HR)
    encrypt, decrypt = fake.seen
    assert (encrypt.method, encrypt.request.name, encrypt.request.plaintext) == ("Encrypt", HR, KEY)
    assert (decrypt.method, decrypt.request.name, decrypt.request.ciphertext) == ("Decrypt", HR, wrapped)
    assert encrypt.request.plaintext_crc32c == crc32c(KEY)
    assert decrypt.request.ciphertext_crc32c == crc32c(wrapped)
    assert "sealberg/" in encrypt.metadata["x-goog-api-client"] + encrypt.metadata["user-agent"]


def _flip_ciphertext(answer: Any) -> None:
    answer.ciphertext = bytes([answer.ciphertext[0] ^ 1]) + answer.ciphertext[1:]


def _flip_plaintext(answer: Any) -> None:
    answer.plaintext = bytes([answer.plaintext[0] ^ 1]) + answer.plaintext[1:]


def _unverified(answer: Any) -> None:
    answer.verified_plaintext_crc32c = False


def _no_checksum(answer: Any) -> None:
    answer.plaintext_crc32c = None


@pytest.mark.parametrize("garble", [_flip_ciphertext, _unverified])
def test_wrapped_key_that_was_altered_on_its_way_is_asked_for_again(
    fake: FakeGcp, garble: Callable[[Any], None]
) -> None:
    fake.garble = [garble] * 2
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    assert len(fake.seen) == 3
    assert client.unwrap(wrapped, HR) == KEY


@pytest.mark.parametrize("garble", [_flip_plaintext, _no_checksum])
def test_key_that_was_altered_on_its_way_is_never_returned(fake: FakeGcp, garble: Callable[[Any], None]) -> None:
    client = client_of(fake, TWICE)
    wrapped = client.wrap(KEY, HR)
    fake.garble = [garble] * 99
    with pytest.raises(KmsUnavailableError, match="checksum failed"):
        client.unwrap(wrapped, HR)
    assert len(fake.seen) == 1 + TWICE.max_attempts


@pytest.mark.parametrize("field", ["plaintext_crc32c", "ciphertext_crc32c"])
def test_request_that_was_altered_on_its_way_is_sent_again(fake: FakeGcp, field: str) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, HR)
    fake.fail(grpc.StatusCode.INVALID_ARGUMENT, 2, f"The checksum in field {field} did not match the data.")
    if field == "ciphertext_crc32c":
        assert client.unwrap(wrapped, HR) == KEY
    else:
        client.wrap(KEY, HR)
    assert len(fake.seen) == 4


def test_describe_tells_the_state_of_the_primary_version(fake: FakeGcp) -> None:
    fake.keys[HR].rotate()
    facts = client_of(fake).describe(HR)
    assert (facts["purpose"], facts["primary version"], facts["primary state"]) == ("ENCRYPT_DECRYPT", "2", "ENABLED")


@pytest.mark.parametrize(
    "key_id",
    [
        "hr",
        "",
        f"{HR}/cryptoKeyVersions/1",
        f"/{HR}",
        f"{HR}/",
        f"//cloudkms.googleapis.com/{HR}",
        f"{HR}\n",
        "projects//locations/x/keyRings/y/cryptoKeys/z",
    ],
)
def test_anything_but_a_full_crypto_key_name_is_refused_unasked(fake: FakeGcp, key_id: str) -> None:
    client = client_of(fake)
    for act in (lambda: client.wrap(KEY, key_id), lambda: client.unwrap(KEY, key_id), lambda: client.describe(key_id)):
        with pytest.raises(ConfigError, match=r"gcp key id is .*, expected projects/"):
            act()
    assert fake.seen == []


def test_version_name_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="leave out the version"):
        GcpKms().wrap(KEY, f"{HR}/cryptoKeyVersions/7")


def test_old_blobs_open_after_rotation_until_their_version_is_gone(fake: FakeGcp) -> None:
    client, key = client_of(fake), fake.keys[HR]
    old = client.wrap(KEY, HR)
    key.rotate()
    new = client.rewrap(old, HR)
    assert (old[0], new[0]) == (1, 2)
    assert client.unwrap(old, HR) == KEY
    key.versions[0].state = State.DISABLED
    with pytest.raises(KeyDisabledError, match="cryptoKeyVersions/1 is not enabled"):
        client.unwrap(old, HR)
    key.versions[0].state = State.DESTROYED
    with pytest.raises(KeyDestroyedError, match="DESTROYED"):
        client.unwrap(old, HR)
    assert client.unwrap(new, HR) == KEY


def test_cloud_kms_tells_whether_the_primary_version_unwraps(fake: FakeGcp) -> None:
    client, key = client_of(fake), fake.keys[HR]
    old = client.wrap(KEY, HR)
    assert client.rewrap(old, HR) is old
    key.rotate()
    newest = client.newest_version(HR)
    assert newest == "2"
    assert client.unwrap_by(old, HR, newest) == (KEY, False)
    assert client.unwrap_by(client.rewrap(old, HR), HR, newest) == (KEY, True)


def test_deletion_destroys_every_version_after_the_waiting_time_of_the_key(fake: FakeGcp) -> None:
    client, key = client_of(fake), fake.keys[HR]
    wrapped = client.wrap(KEY, HR)
    key.rotate()
    assert client.deletion_days(HR) == range(1, 2)
    assert list(client.schedule_deletion(HR, 1)) == ["version 1", "version 2"]
    assert "DESTROY_SCHEDULED" in client.schedule_deletion(HR, 1)["version 2"]
    with pytest.raises(KeyDestroyedError):
        client.unwrap(wrapped, HR)
