"""Key versions: noted at wrap, and searched for where Java noted none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.servers.azure_kms import client_of, rotated
from kit.servers.kms import KEY
from sealberg.errors import KeyDisabledError, KeyNotFoundError, WrongKeyError
from sealberg.keys.kms.client import WrappedKey

if TYPE_CHECKING:
    from kit.servers.fake_azure import FakeAzure


def test_version_that_wrapped_is_noted_and_asked_again_after_rotation(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = client.wrap(KEY, "hr")
    assert wrapped.properties == {"azure.key-version": key.versions[0].name}
    rotated(key)
    assert client.unwrap(wrapped, "hr") == KEY
    assert fake.seen[-1].path == f"/keys/hr/{key.versions[0].name}/unwrapkey"
    assert len(fake.seen) == 2
    newer = client.rewrap(wrapped, "hr")
    assert isinstance(newer, WrappedKey)
    assert newer.properties == {"azure.key-version": key.versions[1].name}


def test_key_of_java_is_rescued_after_rotation_from_the_newest_version_on(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=4)
    fake.seen.clear()
    assert client.unwrap(wrapped, "hr") == KEY
    tries = [seen.path.split("/")[3] for seen in fake.seen if seen.method == "POST"]
    assert tries == ["", *(version.name for version in reversed(key.versions))]
    assert sum(seen.method == "GET" for seen in fake.seen) == 3  # pages of two


def test_rescue_passes_over_disabled_versions(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=2)
    key.versions[1].enabled = key.versions[2].enabled = False  # the newest one too
    assert client.unwrap(wrapped, "hr") == KEY


def test_rescue_gives_up_after_fifty_versions(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key, times=50)
    with pytest.raises(
        WrongKeyError, match="the key has 51 versions; the newest 50 were tried and none unwraps the KEK"
    ):
        client.unwrap(wrapped, "hr")
    del key.versions[-1]
    assert client.unwrap(wrapped, "hr") == KEY


def test_failed_rescue_names_the_versions_that_are_switched_off(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key)
    key.versions[0].enabled = False
    with pytest.raises(WrongKeyError, match=f"disabled versions: {key.versions[0].name}"):
        client.unwrap(wrapped, "hr")


@pytest.mark.parametrize(("newest_enabled", "kind"), [(True, WrongKeyError), (False, KeyDisabledError)])
def test_without_the_permission_to_list_the_error_names_it(
    fake: FakeAzure, newest_enabled: bool, kind: type[Exception]
) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = bytes(client.wrap(KEY, "hr"))
    rotated(key)
    key.versions[1].enabled = newest_enabled
    fake.denied.add("list")
    with pytest.raises(kind, match="needs the permission keys/list"):
        client.unwrap(wrapped, "hr")


def test_noted_version_spares_the_rescue_and_its_permission(fake: FakeAzure) -> None:
    client = client_of(fake)
    wrapped = client.wrap(KEY, "hr")
    altered = WrappedKey(wrapped[:-1] + bytes([wrapped[-1] ^ 1]), wrapped.properties)
    with pytest.raises(WrongKeyError):
        client.unwrap(altered, "hr")
    assert [seen.method for seen in fake.seen] == ["POST", "POST"]


@pytest.mark.parametrize("noted", ["../other", "a/b", "", "x?y", "é"])
def test_noted_version_that_is_none_never_reaches_the_service(fake: FakeAzure, noted: str) -> None:
    """It comes from table metadata, which lie in storage."""
    with pytest.raises(WrongKeyError, match="is not a key version"):
        client_of(fake).unwrap(WrappedKey(bytes(256), {"azure.key-version": noted}), "hr")
    assert fake.seen == []


def test_the_stored_version_tells_whether_the_newest_version_wrapped_a_key(fake: FakeAzure) -> None:
    client, key = client_of(fake), fake.keys["hr"]
    wrapped = client.wrap(KEY, "hr")
    rotated(key)
    newest = client.newest_version("hr")
    assert newest == key.versions[1].name
    assert client.newest_version(f"hr/{key.versions[0].name}") == key.versions[0].name
    assert client.unwrap_by(wrapped, "hr", newest) == (KEY, False)
    assert client.unwrap_by(client.rewrap(wrapped, "hr"), "hr", newest) == (KEY, True)
    assert client.version_in(bytes(wrapped)) is None  # as Java stores it


def test_a_deleted_key_is_kept_for_the_time_of_the_vault(fake: FakeAzure) -> None:
    client = client_of(fake)
    fake.create("gone")
    assert client.deletion_days("gone") == range(90, 91)
    assert client.schedule_deletion("gone", 90)["state"] == "deleted"
    assert client.schedule_deletion("gone", 90)["state"] == "deleted"  # again, by a job that was killed
    with pytest.raises(KeyNotFoundError):
        client.wrap(KEY, "gone")
