"""Azure Key Vault, with the requests of Iceberg Java, and the key version that Java forgets.

    wrap      POST /keys/{name}/{version or nothing}/wrapkey     {alg, value}  -> value, kid
    unwrap    POST /keys/{name}/{version or nothing}/unwrapkey   {alg, value}  -> value
    describe  GET  /keys/{name}/{version or nothing}

    azure.keyvault.url                   https, the vault
    azure.keyvault.key-wrap-algorithm    RSA-OAEP-256 unless set
    encryption.kms.azure.ca-file         certificates to trust instead of the usual ones

The key id is the name of a key, or name/version. A wrapped key is plain RSA and does not say which version made it,
and a request without a version uses the newest: one rotation, and everything that Java wrapped before is refused.
So the version that the service names in `kid` is kept beside the wrapped bytes (`WrappedKey.properties`), and where
there is none (Java's), older versions are tried from the newest on; that needs the permission keys/list.

The SDK's CryptographyClient is not used. It wraps RSA locally, with a public key that may be disabled or outdated,
and for the AES keys of a managed HSM it can wrap with a key that it made up itself, so that nobody can unwrap.
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
MOST_VERSIONS: Final = 50  # that a rescue tries
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
SWITCHED_OFF: Final = frozenset({"KeyDisabled", "KeyExpired", "KeyNotYetValid"})


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """Which vault, and how to wrap."""

    vault_url: str
    algorithm: str = "RSA-OAEP-256"
    ca_file: str | None = None

    def __post_init__(self) -> None:
        url = urlsplit(self.vault_url)
        if url.scheme != "https" or not url.hostname or url.path.strip("/") or url.query or url.username:
            raise ConfigError(f"{VAULT_URL} must be https:// and a host, found {self.vault_url!r}")
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(f"{ALGORITHM} must be one of {', '.join(ALGORITHMS)}, found {self.algorithm!r}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        if not properties.get(VAULT_URL):
            raise ConfigError(f"{VAULT_URL} must be set for Azure Key Vault")
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
        # What wrapped it is known best by what was noted then.
        noted = getattr(wrapped, "properties", {}).get(VERSION)
        if noted is not None and not KEY_ID.fullmatch(f"{name}/{noted}"):
            raise WrongKeyError(f"{VERSION} {noted!r} is not a key version", **self._about(master_key_id))
        try:
            return bytes(self._operate("unwrapkey", name, noted or version, wrapped, master_key_id)["value"])
        except (WrongKeyError, KeyDisabledError) as error:  # of the newest version, if none was asked for
            if noted or version:
                raise
            return self._rescue(wrapped, master_key_id, error)

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
                raise self._unopened(sdk.HttpResponseError(response=response), master_key_id)
            if response.status_code != 200:
                raise sdk.HttpResponseError(response=response)
            try:
                answer = response.json()
                return {"kid": str(answer["kid"]), "value": _decode(answer["value"])}
            except (ValueError, KeyError, TypeError, AttributeError):
                # No cause: it may quote what it could not read, and that is a key.
                raise KmsUnavailableError(f"the answer to {act} is no answer", **self._about(master_key_id)) from None

        return self.call(master_key_id, once)

    def _unopened(self, error: sdk.HttpResponseError, master_key_id: str) -> WrongKeyError:
        return WrongKeyError(
            "the wrapped key was altered, or belongs to another key or version or algorithm than "
            f"{self.settings.algorithm}; {_quoted(error)}",
            **self._about(master_key_id, error),
        )

    def _rescue(self, wrapped: bytes, master_key_id: str, refused: WrongKeyError | KeyDisabledError) -> bytes:
        """Try the older versions of the key, which Java cannot."""
        name, _ = self._split(master_key_id)
        try:
            found = self.call(master_key_id, lambda: list(self.connection.list_properties_of_key_versions(name)))
        except AccessDeniedError as error:
            raise type(refused)(
                "the newest version of the key does not open it, and older ones could not be tried: "
                f"finding them needs the permission keys/list; {refused.reason}",
                **refused.context,
            ) from error
        found.sort(key=lambda version: version.created_on.timestamp() if version.created_on else 0, reverse=True)
        tried = found[:MOST_VERSIONS]
        for version in tried:
            try:
                return bytes(self._operate("unwrapkey", name, version.version, wrapped, master_key_id)["value"])
            except (WrongKeyError, KeyDisabledError, KeyNotFoundError):
                continue
        off = [version.version for version in tried if not version.enabled]
        raise type(refused)(
            f"of {len(found)} versions of the key, the newest {len(tried)} were tried and none opens it"
            + (f" (disabled are {', '.join(off)})" if off else "")
            + f"; {refused.reason}",
            **refused.context,
        )

    def connect(self) -> KeyClient:
        host = urlsplit(self.settings.vault_url).hostname or ""
        if self.settings.ca_file is not None and not Path(self.settings.ca_file).is_file():
            raise ConfigError(f"{CA_FILE} {self.settings.ca_file!r} is no file")
        return KeyClient(
            self.settings.vault_url,
            self._credential or _default_credential(),
            api_version=API_VERSION,
            # A vault's name is checked against the challenge, lest a token go to somebody else; an emulator has none.
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
            kind, reason = _judged(error)
            if issubclass(kind, ConfigError):
                return ConfigError(f"{reason}; {_quoted(error)} (provider {self.provider}, key id {master_key_id})")
            return kind(f"{reason}; {_quoted(error)}", **about)
        if isinstance(error, sdk.ClientAuthenticationError):
            return AccessDeniedError(f"the credentials could not be had; {error.message}", **about)
        if isinstance(error, sdk.AzureError) and "header value" in error.message:
            # It quotes the header, and that is a token: neither shown nor chained.
            raise ConfigError(f"{self.provider} credentials have a character that no header may have") from None
        if isinstance(error, sdk.AzureError):
            return KmsUnavailableError(f"no answer; {type(error).__name__}: {error.message}", **about)
        if isinstance(error, ValueError) and "challenge" in str(error):  # the vault is not who it should be
            return ConfigError(f"{self.provider} cannot use the master key {master_key_id!r}: {error}")
        return None

    def _split(self, master_key_id: str) -> tuple[str, str | None]:
        found = KEY_ID.fullmatch(master_key_id)
        if found is None:
            why = f"; the vault belongs in {VAULT_URL}" if "://" in master_key_id else ""
            raise ConfigError(
                f"an {self.provider} key id is the name of a key or name/version, found {master_key_id!r}{why}"
            )
        return found["name"], found["version"]

    def _about(self, master_key_id: str, error: Exception | None = None) -> dict[str, str | None]:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        return {"provider": self.provider, "key_id": master_key_id, "request_id": headers.get("x-ms-request-id")}


def _judged(error: sdk.HttpResponseError) -> tuple[type[KeyAccessError | ConfigError], str]:
    status = error.status_code or 0
    if status == 403 and _inner_code(error) in SWITCHED_OFF:
        return KeyDisabledError, "the key is switched off"
    if status in {408, 429} or status >= 500:
        return (KmsThrottledError, "too many requests") if status == 429 else (KmsUnavailableError, "no answer")
    known: dict[int, tuple[type[KeyAccessError | ConfigError], str]] = {
        400: (ConfigError, "the request was refused"),
        401: (AccessDeniedError, "the credentials were refused"),
        403: (AccessDeniedError, "denied"),
        404: (KeyNotFoundError, "no such key or version, or it was deleted"),
    }
    return known.get(status, (KeyAccessError, "refused"))


def _inner_code(error: sdk.HttpResponseError) -> str | None:
    inner = getattr(error.error, "innererror", None) or {}
    found = inner.get("code") if isinstance(inner, dict) else None
    return str(found) if found else None


def _quoted(error: sdk.HttpResponseError) -> str:
    code = getattr(error.error, "code", None)
    said = getattr(error.error, "message", None)
    return f"Key Vault says {error.status_code} {code or ''}: {said or error.reason}"


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
