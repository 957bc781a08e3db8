"""The responses of a Vault server: a dictionary, or one of two exceptions.

Refused     the server answered with an error; only its message distinguishes the causes
Unreached   no response, or a response that is not Vault's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import hvac
import hvac.adapters
import requests

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
from sealberg.keys.kms.vault.config import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_FOUND: Final = "key not found"
TOO_OLD: Final = "(too old)"
DECRYPTION_FAILED: Final = ("message authentication failed", "invalid ciphertext")
RSA: Final = "rsa decrypt"
# The server answers 400 to nearly all errors; only its message distinguishes the causes.
MESSAGES: Final[tuple[tuple[str, type[KeyAccessError | ConfigError], str], ...]] = (
    (NOT_FOUND, KeyNotFoundError, "there is no such transit key"),
    (TOO_OLD, KeyDisabledError, "the key version that wrapped this KEK is below the key's min_decryption_version"),
    ("soft-deleted", KeyDisabledError, "the transit key is soft-deleted"),
    (DECRYPTION_FAILED[0], WrongKeyError, "the wrapped key was altered, or another master key wrapped it"),
    (DECRYPTION_FAILED[1], WrongKeyError, "the wrapped key was altered, or another master key wrapped it"),
    (RSA, WrongKeyError, "the wrapped key was altered, or another master key wrapped it"),
    ("not supported for key type", ConfigError, "the transit key has a type that cannot encrypt"),
    ("key derivation", ConfigError, "the transit key is derived and needs a context; use a key without derivation"),
    ("no handler for route", ConfigError, f"no engine is mounted there; check {PREFIX}mount and {PREFIX}namespace"),
    ("unsupported path", ConfigError, f"{PREFIX}mount is not a transit engine"),
    ("unsupported operation", ConfigError, f"{PREFIX}mount is not a transit engine"),
    ("invalid role", AccessDeniedError, "AppRole refused the login"),
    ("invalid secret", AccessDeniedError, "AppRole refused the login"),
)
STATUSES: Final[Mapping[int, tuple[type[KeyAccessError | ConfigError], str]]] = {
    401: (AccessDeniedError, "the credentials were refused"),
    403: (AccessDeniedError, "the token's policies do not allow this, or there is no such transit key"),
    404: (KeyNotFoundError, "there is no such transit key"),
    412: (KmsUnavailableError, "the server is a replica that lags behind"),
    429: (KmsThrottledError, "too many requests"),
    472: (KmsUnavailableError, "the server is in standby"),
    473: (KmsUnavailableError, "the server is in standby"),
}


class Refused(Exception):  # noqa: N818 (never leaves the Vault client)
    """An error response of the server."""

    def __init__(self, status: int, message: str, request_id: str | None) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.request_id = request_id

    def says(self, *texts: str) -> bool:
        return any(text in self.message.lower() for text in texts)

    @property
    def token_is_invalid(self) -> bool:
        """Whether a 403 means that the token is unknown, expired or used up.

        If a policy denies the path, the message begins with "1 error occurred"; for a bad token it
        does not. Any other message counts as a bad token, at the cost of one login.
        """
        return self.status == 403 and (self.says("invalid token") or not self.says("1 error occurred"))


class Unreached(Exception):  # noqa: N818 (never leaves the Vault client)
    """No response, or a response that is not Vault's; `for_good` if a retry is useless."""

    def __init__(self, reason: str, *, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


class Adapter(hvac.adapters.RawAdapter):  # type: ignore[misc]
    """Returns a successful response as a dictionary and raises Refused or Unreached for all others.

    hvac's exceptions drop the status, and the exceptions of requests hold the request with its token
    and key. Refused and Unreached are raised outside of `except`, so that they do not refer to those.
    """

    def request(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            response = super().request(*args, raise_exception=False, **kwargs)
        except requests.RequestException as error:
            unreached = _unreached(error)
        else:
            return _body(response)
        raise unreached


def _body(response: requests.Response) -> dict[str, Any]:
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = None
    if response.status_code in {200, 204} and isinstance(body, dict):
        return body
    if response.status_code == 200:
        raise Unreached("the response is not Vault's, expected a JSON object; check the address")
    body = body if isinstance(body, dict) else {}
    errors = body.get("errors")
    message = " ".join(" ".join(str(error) for error in errors).split()) if isinstance(errors, list) else ""
    request_id = body.get("request_id") or response.headers.get("X-Request-Id")
    raise Refused(response.status_code, message[:300], str(request_id) if request_id else None)


def _unreached(error: requests.RequestException) -> Unreached:
    # Only types, no messages: the messages are nested, long and do not name the cause.
    if isinstance(error, requests.exceptions.SSLError):
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Unreached(f"the server's certificate is not trusted; set {PREFIX}ca-file", for_good=True)
        return Unreached("the TLS handshake failed")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Unreached("the connection timed out")
    if isinstance(error, requests.exceptions.Timeout):
        return Unreached("connected, but the response timed out")
    if isinstance(error, requests.exceptions.ConnectionError):
        return Unreached("the connection failed or was cut")
    return Unreached(f"the request failed with {type(error).__name__}", for_good=isinstance(error, ValueError))


def meaning(refused: Refused) -> tuple[type[KeyAccessError | ConfigError], str]:
    for message, kind, meaning in MESSAGES:
        if refused.says(message):
            return kind, meaning
    if refused.token_is_invalid:
        return AccessDeniedError, "the token is unknown, expired or used up"
    if refused.status >= 500:
        return KmsUnavailableError, "the server cannot answer now"
    if 300 <= refused.status < 400:
        return ConfigError, f"the server redirects to another address, which is not followed; check {PREFIX}address"
    return STATUSES.get(refused.status, (ConfigError, "the server refused the request"))


def failure(
    kind: type[KeyAccessError | ConfigError], reason: str, about: Mapping[str, str | None]
) -> KeyAccessError | ConfigError:
    if issubclass(kind, KeyAccessError):
        return kind(reason, **about)
    return ConfigError(str(KeyAccessError(reason, **about)))


def text_in(answer: Any, part: str, name: str) -> str:
    found = (answer.get(part) or {}).get(name)
    if not isinstance(found, str) or not found:
        raise Unreached(f"the response has no {name}")
    return found
