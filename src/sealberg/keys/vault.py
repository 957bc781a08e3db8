"""The transit engine of HashiCorp Vault and OpenBao.

    wrap      transit/encrypt/<key>    after a look whether the key exists
    unwrap    transit/decrypt/<key>
    rewrap    transit/rewrap/<key>     the key never leaves the server
    describe  transit/keys/<key>

    encryption.kms.vault.address         else VAULT_ADDR or BAO_ADDR; https, or http on this machine
    encryption.kms.vault.token-file      else VAULT_TOKEN or BAO_TOKEN
    encryption.kms.vault.role-id         AppRole, together with
    encryption.kms.vault.secret-id-file
    encryption.kms.vault.mount           where transit is mounted, `transit` by default
    encryption.kms.vault.namespace       else VAULT_NAMESPACE or BAO_NAMESPACE
    encryption.kms.vault.ca-file         else VAULT_CACERT or BAO_CACERT, else the usual authorities
    encryption.kms.vault.allow-http      true: send keys and tokens in clear beyond this machine

Wrapped bytes are the text `vault:v<version>:<base64>` as the server gave it. The master key id is
the name of a transit key. Secrets come from files and the environment, never from a property, and
are read when a connection is made, so that no pickle holds one. When the server no longer knows the
token they are read again (an agent may have replaced the file), or AppRole logs in again: once.

Encrypting under an unknown name creates a key of that name if the token has `create`; a typo would
become a master key. So every wrap first makes sure of the key, in the first of these ways that the
token may use:

    1. read transit/keys/<key>: it is there, and of a type that can wrap
    2. decrypt a dummy: the server says `key not found`, or that the dummy does not open
    3. ask for the token's own capabilities: without `create`, encrypting cannot create

and refuses if it may do none of them. Wraps are rare, so the answer is not remembered: a key that
was deleted an hour ago must not come back under its old name.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import hvac
import hvac.adapters
import requests

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
from sealberg.keys.remote import Patience, RemoteKms, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX: Final = "encryption.kms.vault."
BY_VALUE: Final = ("token", "secret-id")
SAFE_WAYS: Final = (
    f"{PREFIX}token-file, the environment variables VAULT_TOKEN or BAO_TOKEN, "
    f"or {PREFIX}role-id with {PREFIX}secret-id-file"
)

# Transit's own rule for names. It also keeps a key id from walking to another path of the server.
NAME: Final = re.compile(r"\w([\w.-]*\w)?", re.ASCII)
WRAPPED: Final = re.compile(r"vault:v(\d{1,9}):[A-Za-z0-9+/=]+", re.ASCII)
SECRET: Final = re.compile(r"[!-~]+")
AEAD: Final = frozenset({"aes128-gcm96", "aes256-gcm96", "chacha20-poly1305", "xchacha20-poly1305"})
# Well-formed for every cipher, and sealed by nobody.
DUMMY: Final = "vault:v1:" + base64.b64encode(bytes(64)).decode()
TOLD: Final = (
    "type",
    "latest_version",
    "min_decryption_version",
    "min_encryption_version",
    "min_available_version",
    "exportable",
    "allow_plaintext_backup",
    "deletion_allowed",
    "soft_deleted",
    "derived",
)

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


class Refused(Exception):  # noqa: N818 (it never leaves this module)
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


class Unreached(Exception):  # noqa: N818 (it never leaves this module)
    """No answer, or none of the server's own."""

    def __init__(self, reason: str, *, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Where the server is, and where the secrets are that it asks for; holds no secret."""

    address: str
    mount: str = "transit"
    namespace: str | None = None
    token_file: str | None = None
    role_id: str | None = None
    secret_id_file: str | None = None
    ca_file: str | None = None
    allow_http: bool = False

    def __post_init__(self) -> None:
        _check_address(self.address, allow_http=self.allow_http)
        if not all(NAME.fullmatch(part) for part in self.mount.split("/")):
            raise ConfigError(f"{PREFIX}mount must be a path such as transit, found {self.mount!r}")
        if bool(self.role_id) != bool(self.secret_id_file):
            raise ConfigError(f"{PREFIX}role-id and {PREFIX}secret-id-file go together, found only one of them")
        if self.role_id and self.token_file:
            raise ConfigError(f"{PREFIX}token-file and {PREFIX}role-id are two ways to log in; set one of them")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        given = {name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX)}
        for name in BY_VALUE:
            if name in given:
                # Properties are printed, logged and stored by catalogs; a secret in one is no secret.
                raise ConfigError(f"{PREFIX}{name} would hold a secret by value; use {SAFE_WAYS}")
        known = {item.name.replace("_", "-") for item in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise ConfigError(f"unknown property {PREFIX}{unknown[0]} (known: {', '.join(sorted(known))})")
        address = given.get("address") or _from_environment("ADDR")
        if not address:
            raise ConfigError(f"no address: set {PREFIX}address, VAULT_ADDR or BAO_ADDR")
        return cls(
            address=address.rstrip("/"),
            mount=given.get("mount", "transit").strip("/"),
            namespace=given.get("namespace") or _from_environment("NAMESPACE"),
            token_file=given.get("token-file"),
            role_id=given.get("role-id"),
            secret_id_file=given.get("secret-id-file"),
            ca_file=given.get("ca-file") or _from_environment("CACERT"),
            allow_http=_flag("allow-http", given.get("allow-http", "false")),
        )


class VaultKms(RemoteKms):
    """Master keys in a transit engine."""

    provider = "vault"

    def __init__(self, settings: VaultSettings, patience: Patience | None = None) -> None:
        super().__init__(patience)
        self.settings = settings

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(VaultSettings.from_properties(properties), Patience.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.address}, mount {self.settings.mount})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        name = self._name(master_key_id)
        plaintext = base64.b64encode(key).decode()

        def once() -> bytes:
            self._make_sure_of(name)
            return self._transit("encrypt_data", "ciphertext", name, plaintext=plaintext).encode()

        return self.call(master_key_id, once)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        name, text = self._name(master_key_id), self._text(wrapped, master_key_id)

        def once() -> bytes:
            try:
                return base64.b64decode(
                    self._transit("decrypt_data", "plaintext", name, ciphertext=text), validate=True
                )
            except binascii.Error:
                raise Unreached("the plaintext in the answer is not base64") from None
            except Refused as refused:
                self._explain_too_old(refused, name, text)
                raise

        return self.call(master_key_id, once)

    def rewrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        name, text = self._name(master_key_id), self._text(wrapped, master_key_id)

        def once() -> bytes:
            try:
                return self._transit("rewrap_data", "ciphertext", name, ciphertext=text).encode()
            except Refused as refused:
                self._explain_too_old(refused, name, text)
                raise

        return self.call(master_key_id, once)

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        """Needs `read` on transit/keys/<key>, which tables do not."""
        name = self._name(master_key_id)
        facts = self.call(master_key_id, lambda: self._facts(name))
        return {told: str(facts[told]).lower() for told in TOLD if told in facts}

    def connect(self) -> Any:
        ca_file = self.settings.ca_file
        if ca_file and not Path(ca_file).is_file():
            raise ConfigError(f"{PREFIX}ca-file names no file: {ca_file}")
        client = hvac.Client(
            url=self.settings.address,
            token="",  # hvac would look for one in places of its own
            verify=ca_file or True,
            timeout=(self.patience.connect_timeout_s, self.patience.read_timeout_s),
            # A redirect would carry the token, and the key in the body, wherever it points.
            allow_redirects=False,
            adapter=_Adapter,
            namespace=self.settings.namespace,
        )
        client.token = self._token(client)
        return client

    def disconnect(self, connection: Any) -> None:
        connection.adapter.close()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about: dict[str, str | None] = {"provider": self.provider, "key_id": master_key_id}
        if isinstance(error, Unreached):
            reason = f"no answer from {self.settings.address}: {error}"
            return _failure(ConfigError if error.for_good else KmsUnavailableError, reason, about)
        if isinstance(error, Refused):
            kind, meaning = _meaning(error)
            reason = f"{meaning}; the server says {error.status}" + (f": {error.words}" if error.words else "")
            return _failure(kind, reason, {**about, "request_id": error.request_id})
        return None

    def _name(self, master_key_id: str) -> str:
        if NAME.fullmatch(master_key_id):
            return master_key_id
        reason = "the master key id must be the name of a transit key: letters, digits, and . _ - between them"
        raise _failure(ConfigError, reason, {"provider": self.provider, "key_id": repr(master_key_id)})

    def _text(self, wrapped: bytes, master_key_id: str) -> str:
        text = wrapped.decode("ascii", errors="replace")
        if WRAPPED.fullmatch(text):
            return text
        reason = "these wrapped bytes are not of the form vault:v1:..., so Vault did not wrap them or they were altered"
        raise WrongKeyError(reason, provider=self.provider, key_id=master_key_id)

    def _token(self, client: hvac.Client) -> str:
        settings = self.settings
        if settings.role_id and settings.secret_id_file:
            secret_id = _secret("secret-id-file", settings.secret_id_file)
            login = client.auth.approle.login(role_id=settings.role_id, secret_id=secret_id, use_token=False)
            return _text_in(login, "auth", "client_token")
        if settings.token_file:
            return _secret("token-file", settings.token_file)
        token = _from_environment("TOKEN")
        if not token:
            raise ConfigError(f"no credentials for {settings.address}: set {SAFE_WAYS}")
        return _checked(token, "VAULT_TOKEN or BAO_TOKEN")

    def _ask(self, send: Callable[[Any], Any]) -> Any:
        """Send one request; if the token has died, once more with another."""
        client = self.connection
        try:
            return send(client)
        except Refused as refused:
            if not refused.of_the_token:
                raise
            fresh = self.reconnect(client)
            if fresh.token == client.token:
                raise
        return send(fresh)

    def _transit(self, method: str, wanted: str, name: str, **request: str) -> str:
        mount = self.settings.mount
        return _text_in(
            self._ask(lambda client: getattr(client.secrets.transit, method)(name=name, mount_point=mount, **request)),
            "data",
            wanted,
        )

    def _facts(self, name: str) -> Mapping[str, Any]:
        answer = self._ask(lambda client: client.secrets.transit.read_key(name=name, mount_point=self.settings.mount))
        facts = answer.get("data")
        if not isinstance(facts, dict) or "type" not in facts:
            raise Unreached("the answer does not describe a transit key")
        return facts

    def _make_sure_of(self, name: str) -> None:
        """Return if encrypting under `name` cannot create a key; see the top of this module."""
        try:
            facts = self._facts(name)
        except Refused as refused:
            if refused.status != 403:
                raise
            self._try_a_dummy(name)
            return
        if facts["type"] not in AEAD:
            fit = ", ".join(sorted(AEAD))
            raise self._unfit(name, f"a transit key of type {facts['type']} cannot be used; it must be one of {fit}")
        if facts.get("derived"):
            raise self._unfit(name, "a derived transit key cannot be used: it needs a context for each wrapped key")

    def _try_a_dummy(self, name: str) -> None:
        mount = self.settings.mount
        try:
            self._ask(lambda client: client.secrets.transit.decrypt_data(name, DUMMY, mount_point=mount))
        except Refused as refused:
            if refused.status == 403:
                self._make_sure_it_cannot_create(name)
            elif refused.says(RSA):
                raise self._unfit(name, "an RSA transit key is not supported") from None
            elif not refused.says(TOO_OLD, *UNOPENED):
                raise
        else:
            # A KV engine takes a post to any path; the next one would have stored the key in clear.
            raise self._unfit(name, f"{PREFIX}mount is not transit: it takes what nobody encrypted")

    def _unfit(self, name: str, reason: str) -> KeyAccessError | ConfigError:
        return _failure(ConfigError, reason, {"provider": self.provider, "key_id": name})

    def _make_sure_it_cannot_create(self, name: str) -> None:
        path = f"{self.settings.mount}/encrypt/{name}"
        try:
            answer = self._ask(lambda client: client.sys.get_capabilities(paths=[path]))
        except Refused as refused:
            if refused.status != 403:
                raise
            answer = {}
        capabilities = (answer.get("data") or {}).get(path)
        if not isinstance(capabilities, list) or {"create", "root"} & set(capabilities):
            reason = (
                "this token may not find out whether the transit key exists, and encrypting could create it; "
                f"grant it read on {self.settings.mount}/keys/{name}, or update on {self.settings.mount}/decrypt/{name}"
            )
            raise AccessDeniedError(reason, provider=self.provider, key_id=name)

    def _explain_too_old(self, refused: Refused, name: str, text: str) -> None:
        """Raise if the version is not just below the minimum, which can be lowered, but trimmed away."""
        version = WRAPPED.fullmatch(text)
        if not refused.says(TOO_OLD) or version is None:
            return
        try:
            oldest = int(self._facts(name).get("min_available_version", 0))
        except (Refused, Unreached, ValueError):
            return  # may not be read: then the milder of the two stands
        if int(version[1]) < oldest:
            reason = f"version {version[1]} of the transit key, which wrapped this, was trimmed away"
            raise KeyDestroyedError(reason, provider=self.provider, key_id=name, request_id=refused.request_id)


class _Adapter(hvac.adapters.RawAdapter):  # type: ignore[misc]
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


def _meaning(refused: Refused) -> tuple[type[KeyAccessError | ConfigError], str]:
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


def _failure(
    kind: type[KeyAccessError | ConfigError], reason: str, about: Mapping[str, str | None]
) -> KeyAccessError | ConfigError:
    if issubclass(kind, KeyAccessError):
        return kind(reason, **about)
    return ConfigError(str(KeyAccessError(reason, **about)))


def _text_in(answer: Any, part: str, name: str) -> str:
    found = (answer.get(part) or {}).get(name)
    if not isinstance(found, str) or not found:
        raise Unreached(f"the answer has no {name}")
    return found


def _check_address(address: str, *, allow_http: bool) -> None:
    try:
        url = urlsplit(address)
        host = url.hostname
    except ValueError:
        url, host = urlsplit(""), None
    if "@" in address:
        raise ConfigError(f"{PREFIX}address holds a name or a password; use {SAFE_WAYS}")
    if url.scheme not in {"http", "https"} or not host or url.query or url.fragment:
        raise ConfigError(f"{PREFIX}address must be an https URL, found {address!r}")
    if url.scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigError(
            f"{PREFIX}address must be https beyond this machine, found {address!r}; "
            f"{PREFIX}allow-http=true would send keys and tokens in clear"
        )


def _flag(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ConfigError(f"{PREFIX}{name} must be true or false, found {value!r}")
    return value.lower() == "true"


def _from_environment(name: str) -> str | None:
    return os.environ.get(f"VAULT_{name}") or os.environ.get(f"BAO_{name}") or None


def _secret(name: str, file: str) -> str:
    try:
        secret = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"{PREFIX}{name} cannot be read: {file} ({error.strerror})") from None
    return _checked(secret.decode("utf-8", errors="replace").strip(), f"{PREFIX}{name} {file}")


def _checked(secret: str, source: str) -> str:
    # Else it would fail where headers are encoded, in an exception that quotes it.
    if not SECRET.fullmatch(secret):
        raise ConfigError(f"{source} holds no token or secret id: it must be one line of ASCII without spaces")
    return secret
