"""AWS KMS, with the requests of Iceberg Java.

    wrap      Encrypt   {KeyId, EncryptionAlgorithm, Plaintext}
    unwrap    Decrypt   {KeyId, EncryptionAlgorithm, CiphertextBlob}
    generate  GenerateDataKey
    rewrap    ReEncrypt; the key does not leave KMS
    describe  DescribeKey
    version   CurrentKeyMaterialId of DescribeKey, KeyMaterialId of Decrypt; wrapped bytes do not show theirs
    delete    ScheduleKeyDeletion

    kms.endpoint                   another endpoint; http only on loopback addresses
    kms.encryption-algorithm-spec  SYMMETRIC_DEFAULT unless set; must match the type of the key
    client.region, client.profile-name, client.access-key-id, client.secret-access-key,
    client.session-token, client.role-arn, client.role-session-name      as in PyIceberg

Settings that are not given come from boto3's own chain (environment, profile, container, instance). The
master key id is any key id that KMS accepts; every Decrypt request names it, as in Java. There is no
encryption context: Java sends none, and could not unwrap a key that was wrapped with a context.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore import exceptions as sdk
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials
from botocore.parsers import ResponseParserError

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
from sealberg.format.aes_gcm import check_key_length
from sealberg.keys.kms.client import UNVERSIONED, GeneratedKey
from sealberg.keys.kms.remote import RemoteKms, Withhold, is_loopback
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHMS: Final = ("SYMMETRIC_DEFAULT", "RSAES_OAEP_SHA_1", "RSAES_OAEP_SHA_256", "SM2PKE")

# Error codes that the HTTP status does not distinguish; KMS answers 400 to nearly all of them.
CODES: Final[Mapping[str, type[KeyAccessError | ConfigError]]] = {
    "NotFoundException": KeyNotFoundError,
    "AccessDeniedException": AccessDeniedError,
    "AccessDenied": AccessDeniedError,  # STS
    "ExpiredTokenException": AccessDeniedError,
    "InvalidClientTokenId": AccessDeniedError,
    "InvalidSignatureException": AccessDeniedError,
    "MissingAuthenticationTokenException": AccessDeniedError,
    "UnrecognizedClientException": AccessDeniedError,
    "DisabledException": KeyDisabledError,
    "KMSInvalidStateException": KeyDisabledError,  # or destroyed, depending on the message
    "IncorrectKeyException": WrongKeyError,
    "InvalidCiphertextException": WrongKeyError,
    "InvalidArnException": ConfigError,
    "InvalidKeyUsageException": ConfigError,
    "UnsupportedOperationException": ConfigError,
    "ValidationException": ConfigError,
    "LimitExceededException": KmsThrottledError,
    "Throttling": KmsThrottledError,
    "ThrottlingException": KmsThrottledError,
    "TooManyRequestsException": KmsThrottledError,
    "DependencyTimeoutException": KmsUnavailableError,
    "KeyUnavailableException": KmsUnavailableError,
    "KMSInternalException": KmsUnavailableError,
}
EXPLANATIONS: Final[Mapping[str, str]] = {
    "IncorrectKeyException": "another master key wrapped this key; if the key id is an alias, the alias probably "
    "points at another key now (use the ARN of the old key as key id, or point the alias back)",
    "InvalidCiphertextException": "the wrapped key was altered, or another master key or account wrapped it",
    "InvalidKeyUsageException": "the algorithm in kms.encryption-algorithm-spec does not match this master key",
}
CONNECTION_ERRORS: Final = (sdk.ConnectionError, sdk.HTTPClientError, ResponseParserError)
CREDENTIAL_ERRORS: Final = (sdk.CredentialRetrievalError, sdk.SSOError, sdk.TokenRetrievalError)

for _name in ("botocore.endpoint", "botocore.parsers"):
    logging.getLogger(_name).addFilter(Withhold("Plaintext"))


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """The endpoint of KMS and the credentials; None leaves a setting to boto3."""

    endpoint: str | None = None
    algorithm: str = "SYMMETRIC_DEFAULT"
    region: str | None = None
    profile_name: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    role_arn: str | None = None
    role_session_name: str | None = None

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(
                f"kms.encryption-algorithm-spec must be one of {', '.join(ALGORITHMS)}, found {self.algorithm!r}"
            )
        if bool(self.access_key_id) != bool(self.secret_access_key):
            raise ConfigError("only one of client.access-key-id and client.secret-access-key is set, expected both")
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(
            endpoint=properties.get("kms.endpoint"),
            algorithm=properties.get("kms.encryption-algorithm-spec", "SYMMETRIC_DEFAULT"),
            region=properties.get("client.region"),
            profile_name=properties.get("client.profile-name"),
            access_key_id=properties.get("client.access-key-id"),
            secret_access_key=properties.get("client.secret-access-key"),
            session_token=properties.get("client.session-token"),
            role_arn=properties.get("client.role-arn"),
            role_session_name=properties.get("client.role-session-name"),
        )


def _check_endpoint(endpoint: str) -> None:
    url = urlsplit(endpoint)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(f"kms.endpoint must be an https URL, found {endpoint!r}")
    if url.scheme == "http" and not is_loopback(url.hostname):
        # The signature protects a request against change but not against reading, and the request carries a key.
        raise ConfigError(f"kms.endpoint must be https unless it is a loopback address, found {endpoint!r}")


class AwsKms(RemoteKms):
    """Master keys in AWS KMS."""

    provider = "aws"

    def __init__(self, settings: AwsSettings | None = None, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(retry_policy)
        self.settings = settings or AwsSettings()
        self.generates = self.settings.algorithm == "SYMMETRIC_DEFAULT"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(AwsSettings.from_properties(properties), RetryPolicy.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        names = self._key_arguments(master_key_id)
        return bytes(self._request("encrypt", "CiphertextBlob", master_key_id, Plaintext=bytes(key), **names))

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        names = self._key_arguments(master_key_id)
        return bytes(self._request("decrypt", "Plaintext", master_key_id, CiphertextBlob=bytes(wrapped), **names))

    def generate(self, length: int, master_key_id: str) -> GeneratedKey:
        """Needs kms:GenerateDataKey, and a symmetric master key: with another, the key is made here."""
        if not self.generates:
            return super().generate(length, master_key_id)
        check_key_length(length)
        made = self._answer("generate_data_key", "Plaintext", master_key_id, KeyId=master_key_id, NumberOfBytes=length)
        return GeneratedKey(bytes(made["Plaintext"]), bytes(made["CiphertextBlob"]))

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        """The key never leaves KMS; needs kms:ReEncryptFrom and kms:ReEncryptTo."""
        names = self._key_arguments(master_key_id)
        both = {side + name: value for side in ("Source", "Destination") for name, value in names.items()}
        answer = self._answer("re_encrypt", "CiphertextBlob", master_key_id, CiphertextBlob=bytes(wrapped), **both)
        before, after = (answer.get(f"{side}KeyMaterialId") for side in ("Source", "Destination"))
        return wrapped if before is not None and before == after else bytes(answer["CiphertextBlob"])

    def newest_version(self, master_key_id: str) -> str | None:
        """Needs kms:DescribeKey, which tables do not need."""
        facts = self._request("describe_key", "KeyMetadata", master_key_id, KeyId=master_key_id)
        if facts.get("KeySpec", "SYMMETRIC_DEFAULT") != "SYMMETRIC_DEFAULT":
            return UNVERSIONED  # asymmetric keys are never rotated
        current = facts.get("CurrentKeyMaterialId")
        return None if current is None else str(current)

    def unwrap_by(self, wrapped: bytes, master_key_id: str, newest: str | None) -> tuple[bytes, bool | None]:
        names = self._key_arguments(master_key_id)
        answer = self._answer("decrypt", "Plaintext", master_key_id, CiphertextBlob=bytes(wrapped), **names)
        used = UNVERSIONED if newest == UNVERSIONED else answer.get("KeyMaterialId")
        return bytes(answer["Plaintext"]), None if newest is None or used is None else used == newest

    def deletion_days(self, master_key_id: str) -> range:  # noqa: ARG002 (the same for every key)
        return range(7, 31)

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:
        """Needs kms:DescribeKey and kms:ScheduleKeyDeletion, which tables do not need."""
        facts = self._request("describe_key", "KeyMetadata", master_key_id, KeyId=master_key_id)
        if facts.get("KeyState") != "PendingDeletion":
            arn = facts["Arn"]  # an alias is not accepted
            self._request("schedule_key_deletion", "KeyId", master_key_id, KeyId=arn, PendingWindowInDays=days)
        return self.describe(master_key_id)

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        facts = self._request("describe_key", "KeyMetadata", master_key_id, KeyId=master_key_id)
        names = ("Arn", "KeyState", "KeySpec", "KeyUsage", "Origin", "KeyManager", "CreationDate", "DeletionDate")
        return {name: str(facts[name]) for name in names if name in facts}

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        state, date = facts.get("KeyState", "Enabled"), facts.get("DeletionDate")
        if state == "Enabled":
            return None
        return f"the key is in the state {state}" + (f", it will be deleted at {date}" if date else "")

    def key_ids(self, most: int) -> tuple[str, ...]:
        """The aliases of the account; needs kms:ListAliases, which tables do not need."""
        answer = self.connection.list_aliases(Limit=100)
        names = (str(each["AliasName"]) for each in answer["Aliases"] if "TargetKeyId" in each)
        return tuple(sorted(name for name in names if not name.startswith("alias/aws/")))[:most]

    def _key_arguments(self, master_key_id: str) -> dict[str, str]:
        return {"KeyId": master_key_id, "EncryptionAlgorithm": self.settings.algorithm}

    def _request(self, operation: str, wanted: str, master_key_id: str, **request: Any) -> Any:
        return self._answer(operation, wanted, master_key_id, **request)[wanted]

    def _answer(self, operation: str, wanted: str, master_key_id: str, **request: Any) -> Any:
        def once() -> Any:
            answer = getattr(self.connection, operation)(**request)
            if wanted not in answer:  # a proxy answered instead of KMS
                raise KmsUnavailableError(
                    f"the response to {operation} has no {wanted}; a proxy may have answered instead of KMS",
                    provider=self.provider,
                    key_id=master_key_id,
                )
            return answer

        return self.call(master_key_id, once)

    def connect(self) -> Any:
        config = Config(
            connect_timeout=self.retry_policy.connect_timeout_s,
            read_timeout=self.retry_policy.read_timeout_s,
            retries={"total_max_attempts": 1, "mode": "standard"},
            user_agent_extra=f"sealberg/{__version__}",
        )
        core = botocore.session.Session(profile=self.settings.profile_name)
        if self.settings.access_key_id and self.settings.secret_access_key:
            core.set_credentials(
                self.settings.access_key_id, self.settings.secret_access_key, self.settings.session_token
            )
        if self.settings.role_arn:
            core = self._assume_role(core, config)
        session = boto3.Session(botocore_session=core, region_name=self.settings.region)
        return session.client("kms", endpoint_url=self.settings.endpoint, config=config)

    def _assume_role(self, source: botocore.session.Session, config: Config) -> botocore.session.Session:
        """A session with the credentials of the role, which are fetched again before they expire."""
        asking = source.get_credentials()
        if asking is None:
            raise sdk.NoCredentialsError
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=partial(source.create_client, region_name=self.settings.region, config=config),
            source_credentials=asking,
            role_arn=self.settings.role_arn or "",
            extra_args={"RoleSessionName": self.settings.role_session_name or "sealberg"},
        )
        session = botocore.session.Session(profile=self.settings.profile_name)
        session.get_component("credential_provider").insert_before("env", _Role(fetcher))
        return session

    def disconnect(self, connection: Any) -> None:
        connection.close()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about = {"provider": self.provider, "key_id": master_key_id}
        if isinstance(error, sdk.ClientError):
            return _from_response(error, about)
        if isinstance(error, CONNECTION_ERRORS) and "header value" in str(error):
            # The exception quotes the header, which is a credential: neither shown nor chained.
            raise ConfigError(
                f"{self.provider} credentials hold a character that an HTTP header may not hold"
            ) from None
        if isinstance(error, CONNECTION_ERRORS):
            return KmsUnavailableError(f"no response from KMS: {error}", **about)
        if isinstance(error, CREDENTIAL_ERRORS):
            return AccessDeniedError(f"could not obtain credentials: {error}", **about)
        if isinstance(error, sdk.BotoCoreError):
            return ConfigError(f"{self.provider} cannot use the master key {master_key_id!r}: {error}")
        return None


class _Role(CredentialProvider):
    """A credential provider for an assumed role, first in boto3's chain."""

    METHOD = "sealberg-assume-role"

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        super().__init__()
        self._fetcher = fetcher

    def load(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(refresh_using=self._fetcher.fetch_credentials, method=self.METHOD)


def _from_response(error: sdk.ClientError, about: dict[str, str]) -> KeyAccessError | ConfigError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", ""))
    meta = error.response.get("ResponseMetadata", {})
    kind = CODES.get(code) or _by_status(int(meta.get("HTTPStatusCode", 0)))
    if code == "KMSInvalidStateException" and "pending" in message.lower() and "deletion" in message.lower():
        kind = KeyDestroyedError
    reason = "; ".join(part for part in (EXPLANATIONS.get(code), f"KMS says {code}: {message}") if part)
    if issubclass(kind, ConfigError):
        return ConfigError(f"{reason} (provider {about['provider']}, key id {about['key_id']})")
    return kind(reason, request_id=meta.get("RequestId"), **about)


def _by_status(status: int) -> type[KeyAccessError]:
    if status >= 500:
        return KmsUnavailableError
    return {401: AccessDeniedError, 403: AccessDeniedError, 429: KmsThrottledError}.get(status, KeyAccessError)
