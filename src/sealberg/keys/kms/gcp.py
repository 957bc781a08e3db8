"""Google Cloud KMS, with the requests of Iceberg Java and checksums around them.

    wrap      Encrypt {name, plaintext, plaintext_crc32c}    -> ciphertext, ciphertext_crc32c, verified_plaintext_crc32c
    unwrap    Decrypt {name, ciphertext, ciphertext_crc32c}  -> plaintext, plaintext_crc32c
    describe  GetCryptoKey
    version   the primary version of GetCryptoKey, `used_primary` of Decrypt; wrapped bytes do not show theirs
    delete    DestroyCryptoKeyVersion for every version

    gcs.oauth2.token                       a token, as in Java; its scope may be storage only
    encryption.kms.gcp.credentials-file    a service account for KMS alone; preferred to the token
    encryption.kms.gcp.endpoint            another host[:port]
    encryption.kms.gcp.insecure-channel    true: no TLS, for an emulator on a loopback address

Without token and file: application default credentials. The key id is the full name of a CryptoKey. A wrapped key
names its key version, so keys wrapped before a rotation still unwrap. Checksums do not change the stored bytes.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import grpc
from google.api_core import exceptions as sdk
from google.api_core.gapic_v1.client_info import ClientInfo
from google.auth import exceptions as auth
from google.cloud import kms_v1
from google.cloud.kms_v1.services.key_management_service.transports import KeyManagementServiceGrpcTransport
from google.oauth2 import credentials as tokens
from google.oauth2 import service_account

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms.remote import RemoteKms, Withhold, is_loopback
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN: Final = "gcs.oauth2.token"  # noqa: S105 (a property's name)
CREDENTIALS_FILE: Final = "encryption.kms.gcp.credentials-file"
ENDPOINT: Final = "encryption.kms.gcp.endpoint"
INSECURE: Final = "encryption.kms.gcp.insecure-channel"

CRYPTO_KEY: Final = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+")
SCOPE: Final = "https://www.googleapis.com/auth/cloudkms"

REASONS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[KeyAccessError], str], ...]] = (
    (sdk.NotFound, KeyNotFoundError, "no such key"),
    (sdk.PermissionDenied, AccessDeniedError, "permission denied, or no such key: Cloud KMS does not distinguish them"),
    (sdk.Unauthenticated, AccessDeniedError, "the credentials were refused"),
    (sdk.ResourceExhausted, KmsThrottledError, "the quota is exhausted"),
    ((sdk.ServerError, sdk.Aborted, sdk.Cancelled), KmsUnavailableError, "no response"),
    (sdk.GoogleAPICallError, KeyAccessError, "the request was refused"),
    (auth.TransportError, KmsUnavailableError, "no response from the token server"),
    (auth.GoogleAuthError, AccessDeniedError, "could not obtain credentials"),
)

logging.getLogger("google.cloud.kms_v1.services.key_management_service.transports.grpc").addFilter(Withhold())


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum, bit by bit: the longest input here is a few hundred bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class GcpSettings:
    """The endpoint of Cloud KMS and the credentials; None leaves a setting to Google's defaults."""

    token: str | None = field(default=None, repr=False)
    credentials_file: str | None = None
    endpoint: str | None = None
    insecure_channel: bool = False

    def __post_init__(self) -> None:
        host = None
        if self.endpoint is not None:
            host = urlsplit(f"//{self.endpoint}").hostname
            if not host or "/" in self.endpoint:
                raise ConfigError(f"{ENDPOINT} must be host or host:port, found {self.endpoint!r}")
        if self.insecure_channel and not is_loopback(host or ""):
            raise ConfigError(
                f"{INSECURE}=true is allowed for loopback addresses only, found {ENDPOINT}={self.endpoint!r}"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        insecure = properties.get(INSECURE, "false").lower()
        if insecure not in {"true", "false"}:
            raise ConfigError(f"{INSECURE} must be true or false, found {insecure!r}")
        return cls(
            token=properties.get(TOKEN),
            credentials_file=properties.get(CREDENTIALS_FILE),
            endpoint=properties.get(ENDPOINT),
            insecure_channel=insecure == "true",
        )

    def credentials(self) -> Any:
        """The configured credentials; None for application default credentials."""
        if self.credentials_file is not None:
            try:
                return service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
                    self.credentials_file, scopes=[SCOPE]
                )
            except (OSError, ValueError, KeyError, auth.GoogleAuthError) as error:
                # No cause: the bytes that were read may be a private key.
                why = error.strerror if isinstance(error, OSError) else "the file holds no service account key"
                raise ConfigError(f"cannot read {CREDENTIALS_FILE} {self.credentials_file!r}: {why}") from None
        if self.token is not None:
            return tokens.Credentials(token=self.token)  # type: ignore[no-untyped-call]
        return None


class GcpKms(RemoteKms):
    """Master keys in Google Cloud KMS."""

    provider = "gcp"
    property_names = (CREDENTIALS_FILE, ENDPOINT, INSECURE)

    def __init__(self, settings: GcpSettings | None = None, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(retry_policy)
        self.settings = settings or GcpSettings()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(GcpSettings.from_properties(properties), RetryPolicy.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        name = self._check_key_id(master_key_id)
        request = {"name": name, "plaintext": bytes(key), "plaintext_crc32c": crc32c(key)}

        def once() -> bytes:
            answer = self.connection.encrypt(request=request, **self._call_options())
            ciphertext = bytes(answer.ciphertext)
            if not answer.verified_plaintext_crc32c or answer.ciphertext_crc32c != crc32c(ciphertext):
                raise self._checksum_error(name)
            return ciphertext

        return self.call(name, once)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        name = self._check_key_id(master_key_id)
        return self._decrypt(wrapped, name)[0]

    def _decrypt(self, wrapped: bytes, name: str) -> tuple[bytes, bool]:
        """The key, and whether the primary version of the master key unwrapped it."""
        request = {"name": name, "ciphertext": bytes(wrapped), "ciphertext_crc32c": crc32c(wrapped)}

        def once() -> tuple[bytes, bool]:
            try:
                answer = self.connection.decrypt(request=request, **self._call_options())
            except sdk.InvalidArgument as error:
                if _is_checksum_error(error):
                    raise
                raise WrongKeyError(
                    f"the wrapped key was altered, or another master key wrapped it; {_server_message(error)}",
                    **self._about(name, error),
                ) from error
            key = bytes(answer.plaintext)
            if answer.plaintext_crc32c != crc32c(key):
                raise self._checksum_error(name)
            return key, bool(answer.used_primary)

        return self.call(name, once)

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        key, by_newest = self._decrypt(wrapped, self._check_key_id(master_key_id))
        return wrapped if by_newest else self.wrap(key, master_key_id)

    def newest_version(self, master_key_id: str) -> str | None:
        """Needs cloudkms.cryptoKeys.get, which tables do not need."""
        return self.describe(master_key_id).get("primary version")

    def unwrap_by(self, wrapped: bytes, master_key_id: str, newest: str | None) -> tuple[bytes, bool | None]:
        key, by_newest = self._decrypt(wrapped, self._check_key_id(master_key_id))
        return key, None if newest is None else by_newest

    def deletion_days(self, master_key_id: str) -> range:
        """The waiting time is a setting of the key, made when the key was made."""
        key = self._key(master_key_id)
        days = int(key.destroy_scheduled_duration.total_seconds() // 86400) if key.destroy_scheduled_duration else 30
        return range(days, days + 1)

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:  # noqa: ARG002 (the key's own)
        """Needs cloudkms.cryptoKeyVersions.list and .destroy, which tables do not need."""
        name = self._check_key_id(master_key_id)

        def once() -> dict[str, str]:
            options = self._call_options()
            found = {}
            for version in self.connection.list_crypto_key_versions(request={"parent": name}, **options):
                if not version.state.name.startswith("DESTROY"):
                    request = {"name": version.name}
                    version = self.connection.destroy_crypto_key_version(request=request, **options)  # noqa: PLW2901
                at = version.destroy_time or version.destroy_event_time
                found[f"version {version.name.rpartition('/')[2]}"] = f"{version.state.name} {at or ''}".strip()
            return found

        return self.call(name, once)

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        key = self._key(master_key_id)
        facts = {
            "name": key.name,
            "purpose": key.purpose.name,
            "primary version": key.primary.name.rpartition("/")[2],
            "primary state": key.primary.state.name,
            "primary destroy time": str(key.primary.destroy_time or ""),
            "protection level": key.version_template.protection_level.name,
            "next rotation": str(key.next_rotation_time or ""),
        }
        return {fact: value for fact, value in facts.items() if value}

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        state, date = facts.get("primary state", "ENABLED"), facts.get("primary destroy time")
        if state == "ENABLED":
            return None
        words = f"the primary version {facts.get('primary version')} is in the state {state}"
        return words + (f", its time of destruction is {date}" if date else "")

    def _key(self, master_key_id: str) -> Any:
        name = self._check_key_id(master_key_id)
        return self.call(name, lambda: self.connection.get_crypto_key(request={"name": name}, **self._call_options()))

    def connect(self) -> Any:
        settings = self.settings
        agent = ClientInfo(user_agent=f"sealberg/{__version__}")  # type: ignore[no-untyped-call]
        if settings.insecure_channel:
            channel = grpc.insecure_channel(settings.endpoint, options=self._options())
            transport = KeyManagementServiceGrpcTransport(channel=channel, client_info=agent)
            return kms_v1.KeyManagementServiceClient(transport=transport)
        return kms_v1.KeyManagementServiceClient(
            credentials=settings.credentials(),
            transport=partial(KeyManagementServiceGrpcTransport, channel=partial(_channel, self._options())),
            client_options={"api_endpoint": settings.endpoint} if settings.endpoint else None,
            client_info=agent,
        )

    def _options(self) -> list[tuple[str, int]]:
        return [
            # After a failed connection gRPC refuses requests for a second by default, longer than RetryPolicy waits.
            ("grpc.initial_reconnect_backoff_ms", 100),
            # In spite of its name, this option limits the time of one attempt to connect.
            ("grpc.min_reconnect_backoff_ms", int(self.retry_policy.connect_timeout_s * 1000)),
        ]

    def disconnect(self, connection: Any) -> None:
        connection.transport.close()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about = self._about(master_key_id, error)
        if isinstance(error, sdk.InvalidArgument) and _is_checksum_error(error):
            return self._checksum_error(master_key_id)
        if isinstance(error, sdk.FailedPrecondition):
            kind = KeyDestroyedError if "DESTROY" in str(error.message) else KeyDisabledError
            return kind(f"the key version is not enabled; {_server_message(error)}", **about)
        if isinstance(error, sdk.InvalidArgument | sdk.MethodNotImplemented | auth.DefaultCredentialsError):
            return ConfigError(f"{self.provider} cannot use the master key {master_key_id!r}; {_server_message(error)}")
        for theirs, ours, reason in REASONS:
            if isinstance(error, theirs):
                return ours(f"{reason}; {_server_message(error)}", **about)
        return None

    def _check_key_id(self, master_key_id: str) -> str:
        if CRYPTO_KEY.fullmatch(master_key_id):
            return master_key_id
        hint = (
            "; leave out the version, which Decrypt does not accept" if "/cryptoKeyVersions/" in master_key_id else ""
        )
        raise ConfigError(
            f"{self.provider} key id is {master_key_id!r}, "
            f"expected projects/../locations/../keyRings/../cryptoKeys/..{hint}"
        )

    def _call_options(self) -> dict[str, Any]:
        # gRPC has one deadline for connecting and reading the response.
        return {"retry": None, "timeout": self.retry_policy.connect_timeout_s + self.retry_policy.read_timeout_s}

    def _about(self, master_key_id: str, error: Exception) -> dict[str, str | None]:
        details = getattr(error, "details", None) or ()
        request_id = next((found for item in details if (found := getattr(item, "request_id", None))), None)
        return {"provider": self.provider, "key_id": master_key_id, "request_id": request_id}

    def _checksum_error(self, master_key_id: str) -> KmsUnavailableError:
        return KmsUnavailableError(
            "checksum failed: the request or the response was altered in transit",
            provider=self.provider,
            key_id=master_key_id,
        )


def _channel(more: list[tuple[str, int]], host: str, **arguments: Any) -> grpc.Channel:
    """Google's channel with additional options."""
    arguments["options"] = [*arguments.get("options", ()), *more]
    return KeyManagementServiceGrpcTransport.create_channel(host, **arguments)


def _is_checksum_error(error: sdk.InvalidArgument) -> bool:
    """Whether the server reports a checksum mismatch rather than an invalid argument."""
    return "crc32c" in str(error.message)


def _server_message(error: Exception) -> str:
    return f"{type(error).__name__}: {getattr(error, 'message', error)}"
