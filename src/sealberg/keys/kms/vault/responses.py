"""What a Vault server answers, and what that means: an answer is a dictionary, or one of two exceptions.

Refused     the server said no, in its own words, which are all that tells one failure from another
Unreached   no answer, or none of the server's own
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
UNOPENED: Final = ("message authentication failed", "invalid ciphertext")
RSA: Final = "rsa decrypt"
# The server answers 400 to nearly everything; only its words tell one failure from another.
WORDS: Final[tuple[tuple[str, type[KeyAccessError | ConfigError], str], ...]] = (
    (NOT_FOUND, KeyNotFoundError, "there is no such transit key"),
    (TOO_OLD, KeyDisabledError, "the key version that wrapped this is below the key's min_decryption_version"),
    ("soft-deleted", KeyDisabledError, "the transit key is soft-deleted"),
    (UNOPENED[0], WrongKeyError, "the wrapped key was altered, or belongs to another master key"),
    (UNOPENED[1], WrongKeyError, "the wrapped key was altered, or belongs to another master key"),
    (RSA, WrongKeyError, "the wrapped key was altered, or belongs to another master key"),
    ("not supported for key type", ConfigError, "the transit key is of a type that cannot wrap"),
    ("key derivation", ConfigError, "the transit key is derived, and would need a context for each wrapped key"),
    ("no handler for route", ConfigError, f"nothing is mounted there; see {PREFIX}mount and {PREFIX}namespace"),
    ("unsupported path", ConfigError, f"{PREFIX}mount is not a transit engine"),
    ("unsupported operation", ConfigError, f"{PREFIX}mount is not a transit engine"),
    ("invalid role", AccessDeniedError, "AppRole refused the login"),
    ("invalid secret", AccessDeniedError, "AppRole refused the login"),
)
STATUSES: Final[Mapping[int, tuple[type[KeyAccessError | ConfigError], str]]] = {
    401: (AccessDeniedError, "the server wants other credentials"),
    403: (AccessDeniedError, "the token's policies do not allow this, or there is no such transit key"),
    404: (KeyNotFoundError, "there is no such transit key"),
    412: (KmsUnavailableError, "the server is a replica that is behind"),
    429: (KmsThrottledError, "too many requests"),
    472: (KmsUnavailableError, "the server is standing by"),
    473: (KmsUnavailableError, "the server is standing by"),
}


class Refused(Exception):  # noqa: N818 (it never leaves the Vault client)
    """An answer of the server other than success."""

    def __init__(self, status: int, words: str, request_id: str | None) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status
        self.words = words
        self.request_id = request_id

    def says(self, *words: str) -> bool:
        return any(word in self.words.lower() for word in words)

    @property
    def of_the_token(self) -> bool:
        """Whether the token itself is unknown, expired or used up, as far as a 403 tells.

        A policy that does not allow the path is reported as a list of one error, a bad token
        without that frame. Words that are neither count as a bad token: the price is one login.
        """
        return self.status == 403 and (self.says("invalid token") or not self.says("1 error occurred"))


class Unreached(Exception):  # noqa: N818 (it never leaves the Vault client)
    """No answer, or none of the server's own."""

    def __init__(self, reason: str, *, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


class Adapter(hvac.adapters.RawAdapter):  # type: ignore[misc]
    """Success as a dictionary, and everything else as one of our two exceptions.

    hvac's exceptions drop the status, and those of requests hold the request: its token, and
    in its body the key. Ours are raised outside of `except`, so that they do not refer to them.
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
        raise Unreached("something that is not Vault answered")
    body = body if isinstance(body, dict) else {}
    errors = body.get("errors")
    words = " ".join(" ".join(str(error) for error in errors).split()) if isinstance(errors, list) else ""
    request_id = body.get("request_id") or response.headers.get("X-Request-Id")
    raise Refused(response.status_code, words[:300], str(request_id) if request_id else None)


def _unreached(error: requests.RequestException) -> Unreached:
    # Only kinds, no texts: they are as long as they are nested, and name the path instead of the cause.
    if isinstance(error, requests.exceptions.SSLError):
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Unreached(f"its certificate is not trusted; see {PREFIX}ca-file", for_good=True)
        return Unreached("the TLS handshake failed")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Unreached("no connection in time")
    if isinstance(error, requests.exceptions.Timeout):
        return Unreached("connected, and no answer in time")
    if isinstance(error, requests.exceptions.ConnectionError):
        return Unreached("the connection failed or was cut")
    return Unreached(f"the request failed with {type(error).__name__}", for_good=isinstance(error, ValueError))


def meaning(refused: Refused) -> tuple[type[KeyAccessError | ConfigError], str]:
    for words, kind, meaning in WORDS:
        if refused.says(words):
            return kind, meaning
    if refused.of_the_token:
        return AccessDeniedError, "the token is unknown, expired or used up"
    if refused.status >= 500:
        return KmsUnavailableError, "the server cannot answer now"
    if 300 <= refused.status < 400:
        return ConfigError, f"the server redirects elsewhere, which is not followed; see {PREFIX}address"
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
        raise Unreached(f"the answer has no {name}")
    return found
