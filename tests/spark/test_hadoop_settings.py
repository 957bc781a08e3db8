"""The storage settings of a catalog become Hadoop's; what has no counterpart is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from sealberg.errors import ConfigError, UnsupportedError
from sealberg.spark.driver.hadoop_settings import hadoop_settings

PROVIDER = "fs.s3a.aws.credentials.provider"
KEYS = {"s3.access-key-id": "AK", "s3.secret-access-key": "SK"}


def translated(family: str, **properties: Any) -> dict[str, str]:
    found = hadoop_settings(family, {name.replace("__", "."): value for name, value in properties.items()})
    assert found is not None
    return {**found.settings, **found.credentials}


def s3(properties: dict[str, str]) -> dict[str, str]:
    return translated("s3", **properties)


def test_a_server_of_s3_with_keys() -> None:
    assert s3({"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "eu-1", **KEYS}) == {
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "eu-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "AK",
        "fs.s3a.secret.key": "SK",
        PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"client.region": "eu-1"}, {"fs.s3a.endpoint.region": "eu-1"}),
        (
            {"s3.endpoint": "https://s3.example", "s3.force-virtual-addressing": "true"},
            {"fs.s3a.endpoint": "https://s3.example", "fs.s3a.connection.ssl.enabled": "true"},
        ),
        ({"s3.path-style-access": "true"}, {"fs.s3a.path.style.access": "true"}),
        (
            {"s3.connect-timeout": "1.5", "s3.request-timeout": 60},
            {"fs.s3a.connection.establish.timeout": "1500ms", "fs.s3a.connection.timeout": "60000ms"},
        ),
        (
            {**KEYS, "s3.session-token": "ST"},
            {
                "fs.s3a.access.key": "AK",
                "fs.s3a.secret.key": "SK",
                "fs.s3a.session.token": "ST",
                PROVIDER: "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            },
        ),
        (
            {"s3.profile-name": "lake"},
            {
                "fs.s3a.auth.profile.name": "lake",
                PROVIDER: "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider",
            },
        ),
        ({"s3.anonymous": "true"}, {PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}),
        (
            {"s3.role-arn": "arn:aws:iam::1:role/lake", "s3.role-session-name": "me"},
            {
                PROVIDER: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
                "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/lake",
                "fs.s3a.assumed.role.session.name": "me",
            },
        ),
        (
            {"s3.proxy-uri": "https://me:word@proxy:3128"},
            {
                "fs.s3a.proxy.host": "proxy",
                "fs.s3a.proxy.port": "3128",
                "fs.s3a.proxy.username": "me",
                "fs.s3a.proxy.password": "word",
                "fs.s3a.proxy.ssl.enabled": "true",
            },
        ),
        (
            {"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": "k"},
            {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.encryption.key": "k"},
        ),
    ],
)
def test_settings_of_s3(given: dict[str, str], expected: dict[str, str]) -> None:
    assert s3(given) == expected


@pytest.mark.parametrize(
    ("family", "given", "name"),
    [
        ("s3", {"s3.retry-strategy-impl": "x.Y"}, "s3.retry-strategy-impl"),
        ("s3", {"s3.future-setting": "1"}, "s3.future-setting"),
        ("s3", {"s3.signer": "S3V4RestSigner"}, "s3.signer"),
        ("s3", {"s3.remote-signing-enabled": "true"}, "s3.remote-signing-enabled"),
        ("gs", {"gcs.oauth2.token": "ya29.x"}, "gcs.oauth2.token"),
        ("gs", {"gcs.session-kwargs": "{}"}, "gcs.session-kwargs"),
        ("abfs", {"adls.token": "x"}, "adls.token"),
        ("abfs", {"adls.connection-string": "AccountName=a;BlobEndpoint=http://x"}, "BlobEndpoint"),
    ],
)
def test_a_setting_without_a_counterpart_is_refused_by_name(family: str, given: dict[str, str], name: str) -> None:
    with pytest.raises(UnsupportedError, match=name) as caught:
        hadoop_settings(family, given)
    assert not [value for value in given.values() if len(value) > 3 and value in str(caught.value)]


@pytest.mark.parametrize(
    ("family", "given"),
    [
        ("s3", {"s3.access-key-id": "AK"}),
        ("s3", {"s3.session-token": "ST"}),
        ("s3", {"s3.anonymous": "maybe"}),
        ("s3", {"s3.connect-timeout": "soon"}),
        ("s3", {"s3.proxy-uri": "nowhere"}),
        ("s3", {"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"}),
        ("abfs", {"adls.client-id": "c"}),
    ],
)
def test_half_a_setting_is_refused(family: str, given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        hadoop_settings(family, given)


def test_google_and_azure() -> None:
    gcs = {"gcs.project-id": "p", "gcs.service.host": "http://127.0.0.1:1", "gcs.default-bucket-location": "EU"}
    assert translated("gs", **gcs) == {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.project.id": "p",
        "fs.gs.storage.root.url": "http://127.0.0.1:1",
    }
    assert translated("abfs", **{"adls.account-name": "a", "adls.account-key": "K"}) == {
        "fs.azure.account.auth.type": "SharedKey",
        "fs.azure.account.key": "K",
    }
    assert translated("abfs", **{"adls.sas-token.a.dfs.core.windows.net": "?S"}) == {
        "fs.azure.account.auth.type": "SAS",
        "fs.azure.sas.fixed.token.a.dfs.core.windows.net": "S",
    }
    oauth = translated("abfs", **{"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"})
    assert oauth["fs.azure.account.oauth2.client.endpoint"] == "https://login.microsoftonline.com/t/oauth2/token"
    assert oauth["fs.azure.account.auth.type"] == "OAuth"


def test_a_server_that_is_not_azure_is_one_server_for_hadoop() -> None:
    local = {"adls.blob-storage-authority": "127.0.0.1:1", "adls.dfs-storage-authority": "127.0.0.1:1"}
    plain = {"adls.blob-storage-scheme": "http", "adls.dfs-storage-scheme": "http"}
    assert translated("abfs", **local, **plain) == {
        "fs.azure.abfs.endpoint": "127.0.0.1:1",
        "fs.azure.always.use.https": "false",
    }
    domain = {"adls.blob-storage-authority": ".blob.core.usgovcloudapi.net", "adls.blob-storage-scheme": "https"}
    assert translated("abfs", **domain) == {}, "the domain is part of the location"
    with pytest.raises(UnsupportedError, match="takes one server for both"):
        translated("abfs", **local | {"adls.dfs-storage-authority": "127.0.0.1:2"})


def test_local_files_and_hdfs_need_nothing() -> None:
    assert hadoop_settings("file", KEYS) is None
    assert hadoop_settings("hdfs", KEYS) is None


def test_credentials_are_not_in_the_repr() -> None:
    found = hadoop_settings("s3", {**KEYS, "s3.session-token": "ST", "s3.session-token-expires-at-ms": "1700000000000"})
    assert found is not None
    assert found.credentials["fs.s3a.session.token"] == "ST"
    assert "SK" not in repr(found)
    assert "ST" not in repr(found)
