"""What the AWS client sends, and how it follows rotation and aliases."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from kit.servers.aws_kms import client_of
from kit.servers.kms import KEY
from sealberg.errors import WrongKeyError

if TYPE_CHECKING:
    from kit.servers.fake_aws import FakeAws


def test_sends_what_java_sends_and_nothing_else(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    wrapped = client.wrap(KEY, key.arn)
    client.unwrap(wrapped, key.arn)
    same = {"KeyId": key.arn, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}
    assert [(seen.operation, seen.body) for seen in fake.seen] == [
        ("Encrypt", {**same, "Plaintext": base64.b64encode(KEY).decode()}),
        ("Decrypt", {**same, "CiphertextBlob": base64.b64encode(wrapped).decode()}),
    ]
    assert "sealberg/" in fake.seen[0].agent
    assert fake.seen[0].region == "eu-central-1"


def test_key_id_goes_as_it_is_written(fake: FakeAws) -> None:
    key = fake.create(alias="alias/as-written")
    client = client_of(fake)
    for key_id in (key.id, key.arn, "alias/as-written", key.arn.replace(f"key/{key.id}", "alias/as-written")):
        client.unwrap(client.wrap(KEY, key_id), key_id)
        assert {seen.body["KeyId"] for seen in fake.seen[-2:]} == {key_id}


def test_generate_has_the_server_make_the_key(fake: FakeAws) -> None:
    client, arn = client_of(fake), fake.create().arn
    assert client.generates
    made = client.generate(16, arn)
    assert [(seen.operation, seen.body) for seen in fake.seen] == [
        ("GenerateDataKey", {"KeyId": arn, "NumberOfBytes": 16})
    ]
    assert client.unwrap(made.wrapped, arn) == made.key


def test_under_an_asymmetric_key_the_key_is_made_here(fake: FakeAws) -> None:
    arn = fake.create(asymmetric=True).arn
    client = client_of(fake, more={"kms.encryption-algorithm-spec": "RSAES_OAEP_SHA_256"})
    assert not client.generates
    assert len(client.generate(16, arn).key) == 16
    assert [seen.operation for seen in fake.seen] == ["Encrypt"]


def test_rewrap_asks_the_server_and_never_sees_the_key(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    old = client.wrap(KEY, key.arn)
    key.rotate()
    fake.denied |= {"Encrypt", "Decrypt"}
    new = client.rewrap(old, key.arn)
    assert fake.seen[-1].operation == "ReEncrypt"
    fake.denied.clear()
    assert (old[36], new[36]) == (0, 1)  # the material that wrapped it
    assert client.unwrap(new, key.arn) == KEY


def test_rsa_key_wraps_with_the_algorithm_that_was_configured(fake: FakeAws) -> None:
    key = fake.create(asymmetric=True)
    client = client_of(fake, more={"kms.encryption-algorithm-spec": "RSAES_OAEP_SHA_256"})
    wrapped = client.wrap(KEY, key.arn)
    assert len(wrapped) == 256
    assert client.unwrap(wrapped, key.arn) == KEY


def test_describe_tells_the_state_of_the_key(fake: FakeAws) -> None:
    key = fake.create(alias="alias/described")
    key.state = "Disabled"
    facts = client_of(fake).describe("alias/described")
    assert (facts["Arn"], facts["KeyState"]) == (key.arn, "Disabled")


# -- rotation


def test_old_blobs_open_after_rotation(fake: FakeAws) -> None:
    key = fake.create()
    client = client_of(fake)
    old = client.wrap(KEY, key.arn)
    key.rotate()
    assert client.unwrap(old, key.arn) == KEY
    assert client.wrap(KEY, key.arn)[36] == 1


def test_retargeted_alias_is_told_as_what_it_probably_is(fake: FakeAws) -> None:
    fake.create(alias="alias/moved")
    client = client_of(fake)
    wrapped = client.wrap(KEY, "alias/moved")
    fake.create(alias="alias/moved")
    with pytest.raises(WrongKeyError, match="alias probably points at another key now") as caught:
        client.unwrap(wrapped, "alias/moved")
    assert caught.value.context == {
        "provider": "aws",
        "key_id": "alias/moved",
        "request_id": "7c2a0b6e-request",
    }


def test_aws_tells_which_material_unwraps_and_rewrap_leaves_the_newest_alone(fake: FakeAws) -> None:
    key, client = fake.create(), client_of(fake)
    old = client.wrap(KEY, key.arn)
    newest = client.newest_version(key.arn)
    assert client.unwrap_by(old, key.arn, newest) == (KEY, True)
    assert client.rewrap(old, key.arn) is old
    key.rotate()
    newest = client.newest_version(key.arn)
    assert client.unwrap_by(old, key.arn, newest) == (KEY, False)
    assert client.unwrap_by(client.rewrap(old, key.arn), key.arn, newest) == (KEY, True)
    assert client.version_in(old) is None


def test_deletion_is_scheduled_once_by_the_arn_behind_an_alias(fake: FakeAws) -> None:
    key, client = fake.create(alias="alias/gone"), client_of(fake)
    assert client.deletion_days("alias/gone") == range(7, 31)
    for _ in range(2):  # the second time by a job that was killed after the first
        assert client.schedule_deletion("alias/gone", 7)["KeyState"] == "PendingDeletion"
    assert [seen.body for seen in fake.seen if seen.operation == "ScheduleKeyDeletion"] == [
        {"KeyId": key.arn, "PendingWindowInDays": 7}
    ]
