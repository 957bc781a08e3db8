"""Azure Key Vault, with the requests of Iceberg Java, and with the key version, which Java does not store.

    wrap      POST /keys/{name}/{version or nothing}/wrapkey     {alg, value}  -> value, kid
    unwrap    POST /keys/{name}/{version or nothing}/unwrapkey   {alg, value}  -> value
    describe  GET  /keys/{name}/{version or nothing}
    delete    DELETE /keys/{name}; the vault keeps a deleted key for its own retention time

    azure.keyvault.url                   the https URL of the vault
    azure.keyvault.key-wrap-algorithm    RSA-OAEP-256 unless set
    encryption.kms.azure.ca-file         trusted CA certificates, instead of the default ones

The key id is the name of a key, or name/version. A wrapped key is plain RSA and does not name the version that
wrapped it, and a request without a version uses the newest version: after one rotation, Java can no longer unwrap
the keys that it wrapped before. So sealberg stores the version from the response's `kid` with the wrapped bytes
(`WrappedKey.properties`). For keys without a stored version (wrapped by Java) it tries the versions from the newest
to the oldest, which needs the permission keys/list.

The SDK's CryptographyClient is not used. It wraps RSA locally, with a public key that may be disabled or outdated,
and for the AES keys of a managed HSM it can wrap with a key that it generated itself, which nobody can unwrap.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from azure.core import exceptions as sdk
from azure.core.rest import HttpRequest
from azure.keyvault.keys import KeyClient

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
from sealberg.keys.kms.client import WrappedKey
from sealberg.keys.kms.remote import RemoteKms, is_loopback
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure.core.credentials import TokenCredential

VAULT_URL: Final = "azure.keyvault.url"
ALGORITHM: Final = "azure.keyvault.key-wrap-algorithm"
CA_FILE: Final = "encryption.kms.azure.ca-file"
VERSION: Final = "azure.key-version"  # in the properties of a wrapped key

API_VERSION: Final = "7.4"
MAX_VERSIONS: Final = 50  # tried for a wrapped key without a stored version
ALGORITHMS: Final = (
    "RSA-OAEP-256",
    "RSA-OAEP",
    "RSA1_5",
    "A128KW",
    "A192KW",
    "A256KW",
    "CKM_AES_KEY_WRAP",
    "CKM_AES_KEY_WRAP_PAD",
)
KEY_ID: Final = re.compile(r"(?P<name>[0-9A-Za-z-]{1,127})(?:/(?P<version>[0-9A-Za-z]{1,64}))?")
KID: Final = re.compile(r"/keys/[^/]+/(?P<version>[0-9A-Za-z]{1,64})$")
DISABLED_CODES: Final = frozenset({"KeyDisabled", "KeyExpired", "KeyNotYetValid"})


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """The URL of the vault and the wrapping algorithm."""

    vault_url: str
    algorithm: str = "RSA-OAEP-256"
    ca_file: str | None = None

    def __post_init__(self) -> None:
        url = urlsplit(self.vault_url)
        if url.scheme != "https" or not url.hostname or url.path.strip("/") or url.query or url.username:
            raise ConfigError(f"{VAULT_URL} must be https://HOST, found {self.vault_url!r}")
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(f"{ALGORITHM} must be one of {', '.join(ALGORITHMS)}, found {self.algorithm!r}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        if not properties.get(VAULT_URL):
            raise ConfigError(f"{VAULT_URL} is not set, expected the https URL of an Azure Key Vault")
        return cls(
            vault_url=properties[VAULT_URL],
            algorithm=properties.get(ALGORITHM, "RSA-OAEP-256"),
            ca_file=properties.get(CA_FILE),
        )


class AzureKms(RemoteKms):
    """Master keys in Azure Key Vault. A `credential` that is given is pickled with the client."""

    provider = "azure"
    property_names = (CA_FILE,)

    def __init__(
        self,
        settings: AzureSettings,
        *,
        credential: TokenCredential | None = None,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        super().__init__(retry_policy)
        self.settings = settings
        self._credential = credential

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(AzureSettings.from_properties(properties), retry_policy=RetryPolicy.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def wrap(self, key: bytes, master_key_id: str) -> WrappedKey:
        name, version = self._split(master_key_id)
        answer = self._operate("wrapkey", name, version, key, master_key_id)
        made_by = KID.search(answer["kid"])
        return WrappedKey(answer["value"], {VERSION: made_by["version"]} if made_by else None)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        name, version = self._split(master_key_id)
        # The version that was stored when the key was wrapped comes before the version in the key id.
        stored = getattr(wrapped, "properties", {}).get(VERSION)
        if stored is not None and not KEY_ID.fullmatch(f"{name}/{stored}"):
            raise WrongKeyError(
                f"{VERSION} {stored!r} of the wrapped key is not a key version: the key's entry was altered",
                **self._about(master_key_id),
            )
        try:
            return bytes(self._operate("unwrapkey", name, stored or version, wrapped, master_key_id)["value"])
        except (WrongKeyError, KeyDisabledError) as error:  # without a version, the newest version was used
            if stored or version:
                raise
            return self._unwrap_with_any_version(wrapped, master_key_id, error)

    def newest_version(self, master_key_id: str) -> str | None:
        """Needs the permission keys/get, which tables do not need."""
        name, version = self._split(master_key_id)
        if version is not None:
            return version  # a key id that names a version is never rotated
        found = self.call(master_key_id, lambda: self.connection.get_key(name)).properties.version
        return None if found is None else str(found)

    def version_in(self, wrapped: bytes) -> str | None:
        found: str | None = getattr(wrapped, "properties", {}).get(VERSION)
        return found

    def deletion_days(self, master_key_id: str) -> range:
        """The waiting time is a setting of the vault; needs the permission keys/get."""
        name, _ = self._split(master_key_id)
        days = self.call(master_key_id, lambda: self.connection.get_key(name)).properties.recoverable_days or 0
        return range(days, days + 1)

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:
        """Needs the permission keys/delete, which tables do not need."""
        name, _ = self._split(master_key_id)
        try:
            gone = self.call(master_key_id, lambda: self.connection.begin_delete_key(name).result())
        except KeyNotFoundError:
            return {"id": name, "state": "deleted"}
        facts = {"id": gone.id, "state": "deleted", "days": str(days), "purged": str(gone.scheduled_purge_date or "")}
        return {fact: str(value) for fact, value in facts.items() if value}

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        name, version = self._split(master_key_id)
        key = self.call(master_key_id, lambda: self.connection.get_key(name, version))
        facts = {
            "id": key.id,
            "type": str(getattr(key.key_type, "value", key.key_type)),
            "enabled": str(key.properties.enabled).lower(),
            "created": str(key.properties.created_on or ""),
            "expires": str(key.properties.expires_on or ""),
        }
        return {fact: value for fact, value in facts.items() if value}

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        return "the key is disabled" if facts.get("enabled") == "false" else None

    def _operate(self, act: str, name: str, version: str | None, value: bytes, master_key_id: str) -> dict[str, Any]:
        def once() -> dict[str, Any]:
            request = HttpRequest(
                "POST",
                f"/keys/{name}/{version or ''}/{act}",
                params={"api-version": API_VERSION},
                json={"alg": self.settings.algorithm, "value": _encode(value)},
            )
            response = self.connection.send_request(request)
            if response.status_code == 400 and act == "unwrapkey":
                raise self._wrong_key(sdk.HttpResponseError(response=response), master_key_id)
            if response.status_code != 200:
                raise sdk.HttpResponseError(response=response)
            try:
                answer = response.json()
                return {"kid": str(answer["kid"]), "value": _decode(answer["value"])}
            except (ValueError, KeyError, TypeError, AttributeError):
                # No cause: the exception may quote the response, which holds a key.
                raise KmsUnavailableError(
                    f"the response to {act} is malformed, expected JSON with kid and value",
                    **self._about(master_key_id),
                ) from None

        return self.call(master_key_id, once)

    def _wrong_key(self, error: sdk.HttpResponseError, master_key_id: str) -> WrongKeyError:
        return WrongKeyError(
            "the wrapped key was altered, or was wrapped by another key or version, or with another algorithm than "
            f"{self.settings.algorithm}; {_server_message(error)}",
            **self._about(master_key_id, error),
        )

    def _unwrap_with_any_version(
        self, wrapped: bytes, master_key_id: str, refused: WrongKeyError | KeyDisabledError
    ) -> bytes:
        """Try the versions of the key from the newest to the oldest; Java does not do this."""
        name, _ = self._split(master_key_id)
        try:
            found = self.call(master_key_id, lambda: list(self.connection.list_properties_of_key_versions(name)))
        except AccessDeniedError as error:
            raise type(refused)(
                "the newest version of the key does not unwrap the KEK, and older versions could not be tried: "
                f"listing them needs the permission keys/list; {refused.reason}",
                **refused.context,
            ) from error
        found.sort(key=lambda version: version.created_on.timestamp() if version.created_on else 0, reverse=True)
        tried = found[:MAX_VERSIONS]
        for version in tried:
            try:
                return bytes(self._operate("unwrapkey", name, version.version, wrapped, master_key_id)["value"])
            except (WrongKeyError, KeyDisabledError, KeyNotFoundError):
                continue
        off = [version.version for version in tried if not version.enabled]
        raise type(refused)(
            f"the key has {len(found)} versions; the newest {len(tried)} were tried and none unwraps the KEK"
            + (f" (disabled versions: {', '.join(off)})" if off else "")
            + f"; {refused.reason}",
            **refused.context,
        )

    def connect(self) -> KeyClient:
        host = urlsplit(self.settings.vault_url).hostname or ""
        if self.settings.ca_file is not None and not Path(self.settings.ca_file).is_file():
            raise ConfigError(f"{CA_FILE} {self.settings.ca_file!r} is not a file")
        return KeyClient(
            self.settings.vault_url,
            self._credential or _default_credential(),
            api_version=API_VERSION,
            # The challenge must name the vault's domain, so that no token is sent elsewhere; an emulator has no domain.
            verify_challenge_resource=not is_loopback(host),
            connection_verify=self.settings.ca_file or True,
            connection_timeout=self.retry_policy.connect_timeout_s,
            read_timeout=self.retry_policy.read_timeout_s,
            retry_total=0,
            permit_redirects=False,
            user_agent=f"sealberg/{__version__}",
        )

    def disconnect(self, connection: KeyClient) -> None:
        connection.close()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about = self._about(master_key_id, error)
        if isinstance(error, sdk.HttpResponseError) and error.status_code is not None:
            kind, reason = _classify(error)
            if issubclass(kind, ConfigError):
                return ConfigError(
                    f"{reason}; {_server_message(error)} (provider {self.provider}, key id {master_key_id})"
                )
            return kind(f"{reason}; {_server_message(error)}", **about)
        if isinstance(error, sdk.ClientAuthenticationError):
            return AccessDeniedError(f"could not obtain credentials; {error.message}", **about)
        if isinstance(error, sdk.AzureError) and "header value" in error.message:
            # The exception quotes the header, which is a token: neither shown nor chained.
            raise ConfigError(
                f"{self.provider} credentials hold a character that an HTTP header may not hold"
            ) from None
        if isinstance(error, sdk.AzureError):
            return KmsUnavailableError(f"no response; {type(error).__name__}: {error.message}", **about)
        if isinstance(error, ValueError) and "challenge" in str(error):  # the challenge names another domain
            return ConfigError(f"{self.provider} cannot use the master key {master_key_id!r}: {error}")
        return None

    def _split(self, master_key_id: str) -> tuple[str, str | None]:
        found = KEY_ID.fullmatch(master_key_id)
        if found is None:
            why = f"; set the vault's URL in {VAULT_URL}" if "://" in master_key_id else ""
            raise ConfigError(
                f"{self.provider} key id is {master_key_id!r}, expected the name of a key or name/version{why}"
            )
        return found["name"], found["version"]

    def _about(self, master_key_id: str, error: Exception | None = None) -> dict[str, str | None]:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return {"provider": self.provider, "key_id": master_key_id, "request_id": headers.get("x-ms-request-id")}


def _classify(error: sdk.HttpResponseError) -> tuple[type[KeyAccessError | ConfigError], str]:
    status = error.status_code or 0
    if status == 403 and _inner_code(error) in DISABLED_CODES:
        return KeyDisabledError, "the key is disabled, expired or not yet valid"
    if status in {408, 429} or status >= 500:
        return (KmsThrottledError, "too many requests") if status == 429 else (KmsUnavailableError, "no response")
    known: dict[int, tuple[type[KeyAccessError | ConfigError], str]] = {
        400: (ConfigError, "the request was refused"),
        401: (AccessDeniedError, "the credentials were refused"),
        403: (AccessDeniedError, "permission denied"),
        404: (KeyNotFoundError, "the key or the version does not exist, or was deleted"),
    }
    return known.get(status, (KeyAccessError, "the request was refused"))


def _inner_code(error: sdk.HttpResponseError) -> str | None:
    inner = getattr(error.error, "innererror", None) or {}
    found = inner.get("code") if isinstance(inner, dict) else None
    return str(found) if found else None


def _server_message(error: sdk.HttpResponseError) -> str:
    code = getattr(error.error, "code", None)
    message = getattr(error.error, "message", None)
    return f"Key Vault says {error.status_code} {code or ''}: {message or error.reason}"


def _default_credential() -> TokenCredential:
    try:
        from azure.identity import DefaultAzureCredential
    except ModuleNotFoundError as error:
        raise ConfigError(f"azure needs the package {error.name}: pip install 'sealberg[azure]'") from error
    return DefaultAzureCredential()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError("not base64url") from None
