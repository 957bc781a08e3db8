"""The storage settings of a catalog, in PyIceberg's names, as Hadoop's settings for the tasks of Spark.

    s3.endpoint, s3.access-key-id, ...      ──> fs.s3a.*
    gcs.project-id, gcs.service.host, ...   ──> fs.gs.*
    adls.account-key, adls.client-id, ...   ──> fs.azure.*

`HadoopSettings` is what one store needs. Credentials form one group: where the user has set any of the names in
`credential_names` for Hadoop himself, all credentials of the catalog stay out, since half of one pair and half of
another open nothing. A setting that Hadoop has no counterpart for is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sealberg.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

S3A: Final = "org.apache.hadoop.fs.s3a"
GCS: Final = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
AZURE_OAUTH: Final = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"


@dataclass(frozen=True)
class HadoopSettings:
    """Settings of Hadoop for one store; the values are secrets, so they have no repr."""

    prefix: str
    settings: dict[str, str] = field(default_factory=dict, repr=False)
    credentials: dict[str, str] = field(default_factory=dict, repr=False)
    credential_names: tuple[str, ...] = ()


def hadoop_settings(family: str, properties: Mapping[str, Any]) -> HadoopSettings | None:
    """What Hadoop needs to reach a store of this family (`s3`, `gs`, `abfs`); None for other families.

    Args:
        family: as `sealberg.files.confined_io.store` names it.
        properties: of a FileIO: the operator's, and credentials that a REST server vends.
    """
    translate = _FAMILIES.get(family)
    given = {name: str(value) for name, value in properties.items() if value is not None}
    return translate(_Names(given)) if translate is not None else None


class _Names:
    """Properties that remember which of them were looked at."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given
        self._seen: set[str] = set()

    def take(self, *names: str) -> str | None:
        """The first of these that is set; an empty value counts as not set."""
        self._seen.update(names)
        return next((self._given[name] for name in names if self._given.get(name)), None)

    def flag(self, *names: str) -> bool | None:
        text = self.take(*names)
        if text is None:
            return None
        if text.lower() not in ("true", "false", "1", "0"):
            raise ConfigError(f"{names[0]} is true or false, not {text[:20]!r}")
        return text.lower() in ("true", "1")

    def taken(self, prefix: str) -> dict[str, str]:
        """All that begin with this, by what follows."""
        found = {name.removeprefix(prefix): value for name, value in self._given.items() if name.startswith(prefix)}
        self._seen.update(prefix + name for name in found)
        return found

    def refuse_others(self, prefix: str) -> None:
        """Refuse what was given and not looked at."""
        others = sorted(name for name in self._given if name.startswith(prefix) and name not in self._seen)
        if others:
            raise UnsupportedError(
                f"{', '.join(others)}: Hadoop, by which Spark's tasks reach the storage, has no such setting; remove "
                "it from the configuration of the catalog that Spark uses"
            )


def _only(**settings: str | None) -> dict[str, str]:
    """The settings that have a value; `_` in a name stands for a dot."""
    return {name.replace("_", "."): value for name, value in settings.items() if value is not None}


# -- Amazon S3, and what speaks its protocol ------------------------------------------------------


def _s3(names: _Names) -> HadoopSettings:
    _refuse_signer(names)
    endpoint = names.take("s3.endpoint")
    settings = _only(
        fs_s3a_endpoint=endpoint,
        fs_s3a_endpoint_region=names.take("s3.region", "client.region"),
        fs_s3a_connection_establish_timeout=_milliseconds(names, "s3.connect-timeout"),
        fs_s3a_connection_timeout=_milliseconds(names, "s3.request-timeout"),
    )
    if endpoint is not None and "://" in endpoint:
        settings["fs.s3a.connection.ssl.enabled"] = str(endpoint.lower().startswith("https://")).lower()
    if _path_style(names, endpoint):
        settings["fs.s3a.path.style.access"] = "true"
    settings |= _s3_proxy(names) | _s3_encryption(names)
    names.take("s3.resolve-region")  # S3A follows a bucket to its region by itself
    names.take("s3.session-token-expires-at-ms")  # see sealberg.spark.driver.storage
    credentials = _s3_credentials(names, settings.get("fs.s3a.endpoint.region"))
    names.refuse_others("s3.")
    return HadoopSettings(
        "fs.s3a.",
        settings,
        credentials,
        (
            "fs.s3a.access.key",
            "fs.s3a.secret.key",
            "fs.s3a.session.token",
            "fs.s3a.aws.credentials.provider",
            "fs.s3a.assumed.role.arn",
            "fs.s3a.auth.profile.name",
        ),
    )


def _refuse_signer(names: _Names) -> None:
    signers = [name for name in ("s3.signer", "s3.signer.uri", "s3.signer.endpoint") if names.take(name)]
    if names.flag("s3.remote-signing-enabled") or signers:
        raise UnsupportedError(
            "requests to S3 that the REST server signs (s3.remote-signing-enabled, s3.signer) are not supported on "
            "Spark: have the server vend credentials instead, or give the catalog s3.access-key-id, s3.role-arn or "
            "s3.profile-name"
        )


def _path_style(names: _Names, endpoint: str | None) -> bool:
    """As in pyarrow: a server that is not AWS is asked by path, unless told otherwise."""
    by_path = names.flag("s3.path-style-access")
    virtual = names.flag("s3.force-virtual-addressing")
    if by_path and virtual:
        raise ConfigError("s3.path-style-access and s3.force-virtual-addressing are both true: only one of them can be")
    if by_path is not None:
        return by_path
    return endpoint is not None and not virtual


def _milliseconds(names: _Names, name: str) -> str | None:
    text = names.take(name)
    if text is None:
        return None
    try:
        return f"{round(float(text) * 1000)}ms"
    except ValueError:
        raise ConfigError(f"{name} is a number of seconds, not {text[:20]!r}") from None


def _s3_proxy(names: _Names) -> dict[str, str]:
    text = names.take("s3.proxy-uri")
    if text is None:
        return {}
    try:
        uri = urlsplit(text)
        port = uri.port
    except ValueError:
        uri, port = urlsplit(""), None
    if not uri.hostname:
        raise ConfigError("s3.proxy-uri is a URL such as http://host:3128")
    return _only(
        fs_s3a_proxy_host=uri.hostname,
        fs_s3a_proxy_port=str(port or {"https": 443}.get(uri.scheme, 80)),
        fs_s3a_proxy_username=uri.username,
        fs_s3a_proxy_password=uri.password,
        fs_s3a_proxy_ssl_enabled="true" if uri.scheme == "https" else None,
    )


def _s3_encryption(names: _Names) -> dict[str, str]:
    kind, key = names.take("s3.server-side-encryption"), names.take("s3.sse-kms-key-id")
    if kind is None and key is None:
        return {}
    known = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}
    if kind not in known:
        raise UnsupportedError(f"s3.server-side-encryption: one of {', '.join(known)}, not {kind}")
    return _only(fs_s3a_encryption_algorithm=known[kind], fs_s3a_encryption_key=key)


def _s3_credentials(names: _Names, region: str | None) -> dict[str, str]:
    """As PyIceberg chooses: nobody, keys, a profile; and a role that any but nobody assumes."""
    access = names.take("s3.access-key-id", "client.access-key-id")
    secret = names.take("s3.secret-access-key", "client.secret-access-key")
    token = names.take("s3.session-token", "client.session-token")
    profile = names.take("s3.profile-name", "client.profile-name")
    role = names.take("s3.role-arn", "client.role-arn")
    session = names.take("s3.role-session-name", "client.role-session-name")
    if (access is None) != (secret is None) or (token is not None and access is None):
        raise ConfigError("s3.access-key-id and s3.secret-access-key are given together or not at all")
    if names.flag("s3.anonymous"):
        return {"fs.s3a.aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider"}
    found = _only(
        fs_s3a_access_key=access,
        fs_s3a_secret_key=secret,
        fs_s3a_session_token=token,
        fs_s3a_auth_profile_name=profile if access is None else None,
    )
    provider = None
    if access is not None:
        provider = f"{S3A}.{'Temporary' if token is not None else 'Simple'}AWSCredentialsProvider"
    elif profile is not None:
        provider = f"{S3A}.auth.ProfileAWSCredentialsProvider"
    if role is None:
        return found | _only(fs_s3a_aws_credentials_provider=provider)
    return found | _only(
        fs_s3a_aws_credentials_provider=f"{S3A}.auth.AssumedRoleCredentialProvider",
        fs_s3a_assumed_role_arn=role,
        fs_s3a_assumed_role_session_name=session,
        fs_s3a_assumed_role_credentials_provider=provider,
        # S3A refuses a region without an endpoint, so both or none.
        fs_s3a_assumed_role_sts_endpoint=f"sts.{region}.amazonaws.com" if region else None,
        fs_s3a_assumed_role_sts_endpoint_region=region,
    )


# -- Google Cloud Storage -------------------------------------------------------------------------


def _gcs(names: _Names) -> HadoopSettings:
    if names.take("gcs.oauth2.token") or names.take("gcs.oauth2.token-expires-at"):
        raise UnsupportedError(
            "gcs.oauth2.token is not supported on Spark: Google's connector takes a token only from code of its own; "
            "use a service account, of the machines or by spark.hadoop.fs.gs.auth.service.account.json.keyfile"
        )
    host = names.take("gcs.service.host")
    project = names.take("gcs.project-id")
    # The connector's jar may reach Spark after Hadoop has looked for file systems, so its class is named.
    settings = _only(fs_gs_impl=GCS, fs_gs_project_id=project, fs_gs_storage_root_url=host)
    if names.flag("gcs.requester-pays"):
        settings |= _only(fs_gs_requester_pays_mode="AUTO", fs_gs_requester_pays_project_id=project)
    names.take("gcs.default-bucket-location")  # of buckets that are created: tasks create none
    names.refuse_others("gcs.")
    return HadoopSettings("fs.gs.", settings)


# -- Azure Data Lake Storage ----------------------------------------------------------------------


def _adls(names: _Names) -> HadoopSettings:
    connection = dict(
        part.partition("=")[::2] for part in (names.take("adls.connection-string") or "").split(";") if part
    )
    unknown = sorted(
        set(connection)
        - {"DefaultEndpointsProtocol", "AccountName", "AccountKey", "EndpointSuffix", "SharedAccessSignature"}
    )
    if unknown:
        raise UnsupportedError(f"adls.connection-string: {', '.join(unknown)} is not supported on Spark")
    names.take("adls.account-name")  # part of the location, abfs://container@account.dfs.core.windows.net/...
    names.take("adls.account-host")
    key = names.take("adls.account-key") or connection.get("AccountKey")
    by_account = names.taken("adls.sas-token.")
    sas = names.take("adls.sas-token") or connection.get("SharedAccessSignature")
    sas = sas.removeprefix("?") if sas is not None else None
    names.taken("adls.sas-token-expires-at-ms.")  # see sealberg.spark.driver.storage
    tenant, client = names.take("adls.tenant-id"), names.take("adls.client-id")
    secret = names.take("adls.client-secret")
    settings = _adls_endpoint(names)
    names.refuse_others("adls.")
    credentials: dict[str, str] = {}
    if key is not None:
        credentials = {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": key}
    elif sas is not None or by_account:
        credentials = {"fs.azure.account.auth.type": "SAS"} | _only(fs_azure_sas_fixed_token=sas)
        credentials |= {
            f"fs.azure.sas.fixed.token.{account}": token.removeprefix("?") for account, token in by_account.items()
        }
    elif client is not None or secret is not None:
        if not (tenant and client and secret):
            raise ConfigError("adls.tenant-id, adls.client-id and adls.client-secret are given together or not at all")
        credentials = {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": AZURE_OAUTH,
            "fs.azure.account.oauth2.client.endpoint": f"https://login.microsoftonline.com/{tenant}/oauth2/token",
            "fs.azure.account.oauth2.client.id": client,
            "fs.azure.account.oauth2.client.secret": secret,
        }
    return HadoopSettings(
        "fs.azure.",
        settings,
        credentials,
        ("fs.azure.account.auth.type", "fs.azure.account.key", "fs.azure.account.oauth.provider.type"),
    )


def _adls_endpoint(names: _Names) -> dict[str, str]:
    """A server that is not Azure has one address; at Azure, the domain is part of the location."""
    authorities = {names.take(f"adls.{kind}-storage-authority") for kind in ("blob", "dfs")} - {None}
    schemes = {names.take(f"adls.{kind}-storage-scheme") for kind in ("blob", "dfs")} - {None}
    servers = {authority for authority in authorities if authority and not authority.startswith(".")}
    if len(servers) > 1 or len(schemes) > 1:
        raise UnsupportedError(
            "adls.blob-storage-authority and adls.dfs-storage-authority (or the two schemes) differ: Hadoop, by which "
            "Spark's tasks reach the storage, takes one server for both"
        )
    return _only(
        fs_azure_abfs_endpoint=next(iter(servers), None),
        fs_azure_always_use_https="false" if schemes == {"http"} else None,
    )


_FAMILIES: Final[dict[str, Callable[[_Names], HadoopSettings]]] = {"s3": _s3, "gs": _gcs, "abfs": _adls}
