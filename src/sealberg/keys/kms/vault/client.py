"""The transit engine of HashiCorp Vault and OpenBao.

    wrap      transit/encrypt/<key>    after a check that the key exists
    unwrap    transit/decrypt/<key>
    rewrap    transit/rewrap/<key>     the key does not leave the server
    describe  transit/keys/<key>
    version   latest_version of transit/keys/<key>; wrapped bytes begin with theirs
    delete    transit/keys/<key>/config {deletion_allowed}, DELETE transit/keys/<key>; at once

    encryption.kms.vault.address         else VAULT_ADDR or BAO_ADDR; https, or http on a loopback address
    encryption.kms.vault.token-file      else VAULT_TOKEN or BAO_TOKEN
    encryption.kms.vault.role-id         AppRole, together with
    encryption.kms.vault.secret-id-file
    encryption.kms.vault.mount           where transit is mounted, `transit` by default
    encryption.kms.vault.namespace       else VAULT_NAMESPACE or BAO_NAMESPACE
    encryption.kms.vault.ca-file         else VAULT_CACERT or BAO_CACERT, else the default certificates
    encryption.kms.vault.allow-http      true: send keys and tokens over plain HTTP to other machines

Wrapped bytes are the string `vault:v<version>:<base64>` of the server. The master key id is the name
of a transit key. Secrets come from files and the environment, never from a property, and are read
when a connection is made, so that no pickle holds a secret. When the server no longer accepts the
token, the secrets are read again (an agent may have replaced the file) or AppRole logs in again, once.

Encrypting under an unknown name creates a key of that name if the token has the capability `create`,
so a typo would become a master key. Every wrap therefore checks first that the key exists, with the
first of these requests that the token may send:

    1. read transit/keys/<key>: the key exists and its type can wrap
    2. decrypt a dummy: the server answers `key not found`, or that the dummy does not decrypt
    3. read the token's own capabilities: without `create`, encrypting cannot create a key

If the token may send none of them, the wrap is refused. Wraps are rare, so the result is not cached:
a key that was deleted meanwhile must not be created again under its old name.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import hvac
import hvac.adapters

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDestroyedError,
    KeyNotFoundError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms.remote import RemoteKms
from sealberg.keys.kms.retry_policy import RetryPolicy
from sealberg.keys.kms.vault.config import (
    NAME,
    PREFIX,
    SECRET_SOURCES,
    VaultSettings,
    checked,
    from_environment,
    secret,
)
from sealberg.keys.kms.vault.responses import (
    DECRYPTION_FAILED,
    RSA,
    TOO_OLD,
    Adapter,
    Refused,
    Unreached,
    failure,
    meaning,
    text_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WRAPPED: Final = re.compile(r"vault:v([1-9]\d{0,8}):[A-Za-z0-9+/=]+", re.ASCII)
AEAD: Final = frozenset({"aes128-gcm96", "aes256-gcm96", "chacha20-poly1305", "xchacha20-poly1305"})
# A well-formed ciphertext for every cipher, which no key encrypted.
DUMMY: Final = "vault:v1:" + base64.b64encode(bytes(64)).decode()
DESCRIBED: Final = (
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


class VaultKms(RemoteKms):
    """Master keys in a transit engine."""

    provider = "vault"
    property_names = (PREFIX,)

    def __init__(self, settings: VaultSettings, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(retry_policy)
        self.settings = settings

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(VaultSettings.from_properties(properties), RetryPolicy.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings.address}, mount {self.settings.mount})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        name = self._name(master_key_id)
        plaintext = base64.b64encode(key).decode()

        def once() -> bytes:
            self._check_key_exists(name)
            return self._transit("encrypt_data", "ciphertext", name, plaintext=plaintext).encode()

        return self.call(master_key_id, once, new=True)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        name, text = self._name(master_key_id), self._text(wrapped, master_key_id)

        def once() -> bytes:
            try:
                return base64.b64decode(
                    self._transit("decrypt_data", "plaintext", name, ciphertext=text), validate=True
                )
            except binascii.Error:
                raise Unreached("the plaintext in the response is not base64") from None
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
        """Needs `read` on transit/keys/<key>, which tables do not need."""
        name = self._name(master_key_id)
        facts = self.call(master_key_id, lambda: self._facts(name))
        return {name: str(facts[name]).lower() for name in DESCRIBED if name in facts}

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        return "the key is soft-deleted" if facts.get("soft_deleted") == "true" else None

    def newest_version(self, master_key_id: str) -> str | None:
        """Needs `read` on transit/keys/<key>, which tables do not need."""
        return self.describe(master_key_id).get("latest_version")

    def version_in(self, wrapped: bytes) -> str | None:
        found = WRAPPED.fullmatch(wrapped.decode("ascii", errors="replace"))
        return None if found is None else found[1]

    def deletion_days(self, master_key_id: str) -> range:  # noqa: ARG002 (the same for every key)
        return range(1)

    def schedule_deletion(self, master_key_id: str, days: int) -> Mapping[str, str]:  # noqa: ARG002 (at once)
        """Needs `update` on transit/keys/<key>/config and `delete` on transit/keys/<key>, which tables do not need."""
        name, mount = self._name(master_key_id), self.settings.mount

        def once() -> None:
            self._facts(name)  # whether there is such a key: the next request has no error of its own for that
            self._send(
                lambda client: client.secrets.transit.update_key_configuration(
                    name=name, deletion_allowed=True, mount_point=mount
                )
            )
            self._send(lambda client: client.secrets.transit.delete_key(name=name, mount_point=mount))

        with contextlib.suppress(KeyNotFoundError):  # deleted by an earlier run
            self.call(master_key_id, once)
        return {"name": name, "state": "deleted"}

    def key_ids(self, most: int) -> tuple[str, ...]:
        """Needs `list` on transit/keys, which tables do not need."""
        answer = self.connection.secrets.transit.list_keys(mount_point=self.settings.mount)
        return tuple(sorted(map(str, answer["data"]["keys"])))[:most]

    def command_to_make(self, master_key_id: str) -> str:
        return f"vault write -f {self.settings.mount}/keys/{master_key_id}"

    def connect(self) -> Any:
        ca_file = self.settings.ca_file
        if ca_file and not Path(ca_file).is_file():
            raise ConfigError(f"{PREFIX}ca-file is not a file: {ca_file}")
        client = hvac.Client(
            url=self.settings.address,
            token="",  # otherwise hvac would read a token from the environment or a file
            verify=ca_file or True,
            timeout=(self.retry_policy.connect_timeout_s, self.retry_policy.read_timeout_s),
            # A redirect would send the token and the key to another server.
            allow_redirects=False,
            adapter=Adapter,
            namespace=self.settings.namespace,
        )
        client.token = self._token(client)
        return client

    def disconnect(self, connection: Any) -> None:
        connection.adapter.close()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about: dict[str, str | None] = {"provider": self.provider, "key_id": master_key_id}
        if isinstance(error, Unreached):
            reason = f"no valid response from {self.settings.address}: {error}"
            return failure(ConfigError if error.for_good else KmsUnavailableError, reason, about)
        if isinstance(error, Refused):
            kind, meant = meaning(error)
            reason = f"{meant}; the server says {error.status}" + (f": {error.message}" if error.message else "")
            return failure(kind, reason, {**about, "request_id": error.request_id})
        return None

    def _name(self, master_key_id: str) -> str:
        if NAME.fullmatch(master_key_id):
            return master_key_id
        reason = (
            "the master key id is not the name of a transit key, expected letters and digits with . _ - between them"
        )
        raise failure(ConfigError, reason, {"provider": self.provider, "key_id": repr(master_key_id)})

    def _text(self, wrapped: bytes, master_key_id: str) -> str:
        text = wrapped.decode("ascii", errors="replace")
        if WRAPPED.fullmatch(text) and _is_canonical(text.rpartition(":")[2]):
            return text
        reason = "the wrapped key is not of the form vault:v1:..., so Vault did not wrap it or it was altered"
        raise WrongKeyError(reason, provider=self.provider, key_id=master_key_id)

    def _token(self, client: hvac.Client) -> str:
        settings = self.settings
        if settings.role_id and settings.secret_id_file:
            secret_id = secret("secret-id-file", settings.secret_id_file)
            login = client.auth.approle.login(role_id=settings.role_id, secret_id=secret_id, use_token=False)
            return text_in(login, "auth", "client_token")
        if settings.token_file:
            return secret("token-file", settings.token_file)
        token = from_environment("TOKEN")
        if not token:
            raise ConfigError(f"no credentials for {settings.address}: set {SECRET_SOURCES}")
        return checked(token, "VAULT_TOKEN or BAO_TOKEN")

    def _send(self, send: Callable[[Any], Any]) -> Any:
        """Send one request; if the token is no longer valid, log in again and send the request once more."""
        client = self.connection
        try:
            return send(client)
        except Refused as refused:
            if not refused.token_is_invalid:
                raise
            fresh = self.reconnect(client)
            if fresh.token == client.token:
                raise
        return send(fresh)

    def _transit(self, method: str, wanted: str, name: str, **request: str) -> str:
        mount = self.settings.mount
        return text_in(
            self._send(lambda client: getattr(client.secrets.transit, method)(name=name, mount_point=mount, **request)),
            "data",
            wanted,
        )

    def _facts(self, name: str) -> Mapping[str, Any]:
        answer = self._send(lambda client: client.secrets.transit.read_key(name=name, mount_point=self.settings.mount))
        facts = answer.get("data")
        if not isinstance(facts, dict) or "type" not in facts:
            raise Unreached("the response does not describe a transit key")
        return facts

    def _check_key_exists(self, name: str) -> None:
        """Refuse unless encrypting under `name` cannot create a key; see the module docstring."""
        try:
            facts = self._facts(name)
        except Refused as refused:
            if refused.status != 403:
                raise
            self._probe_with_dummy(name)
            return
        if facts["type"] not in AEAD:
            fit = ", ".join(sorted(AEAD))
            raise self._unsuitable(name, f"the transit key has the type {facts['type']}, expected one of {fit}")
        if facts.get("derived"):
            raise self._unsuitable(name, "the transit key is derived and needs a context; use a key without derivation")

    def _probe_with_dummy(self, name: str) -> None:
        mount = self.settings.mount
        try:
            self._send(lambda client: client.secrets.transit.decrypt_data(name, DUMMY, mount_point=mount))
        except Refused as refused:
            if refused.status == 403:
                self._check_cannot_create(name)
            elif refused.says(RSA):
                raise self._unsuitable(
                    name, f"the transit key is RSA, expected one of {', '.join(sorted(AEAD))}"
                ) from None
            elif not refused.says(TOO_OLD, *DECRYPTION_FAILED):
                raise
        else:
            # A KV engine accepts a POST to any path; the wrap would have stored the key in plaintext.
            raise self._unsuitable(
                name, f"{PREFIX}mount is not a transit engine: it decrypted a dummy that no key encrypted"
            )

    def _unsuitable(self, name: str, reason: str) -> KeyAccessError | ConfigError:
        return failure(ConfigError, reason, {"provider": self.provider, "key_id": name})

    def _check_cannot_create(self, name: str) -> None:
        path = f"{self.settings.mount}/encrypt/{name}"
        try:
            answer = self._send(lambda client: client.sys.get_capabilities(paths=[path]))
        except Refused as refused:
            if refused.status != 403:
                raise
            answer = {}
        capabilities = (answer.get("data") or {}).get(path)
        if not isinstance(capabilities, list) or {"create", "root"} & set(capabilities):
            reason = (
                "the token may not check whether the transit key exists, and encrypting could create the key; "
                f"grant read on {self.settings.mount}/keys/{name}, or update on {self.settings.mount}/decrypt/{name}"
            )
            raise AccessDeniedError(reason, provider=self.provider, key_id=name)

    def _explain_too_old(self, refused: Refused, name: str, text: str) -> None:
        """KeyDestroyedError if the key version was trimmed; a version below the minimum can be allowed again."""
        version = WRAPPED.fullmatch(text)
        if not refused.says(TOO_OLD) or version is None:
            return
        try:
            oldest = int(self._facts(name).get("min_available_version", 0))
        except (Refused, Unreached, ValueError):
            return  # the key may not be read: the caller raises the milder error
        if int(version[1]) < oldest:
            reason = f"version {version[1]} of the transit key, which wrapped this KEK, was trimmed and is gone"
            raise KeyDestroyedError(reason, provider=self.provider, key_id=name, request_id=refused.request_id)


def _is_canonical(text: str) -> bool:
    """Whether base64 text is canonical; the server accepts other spellings, and a copied KEK could use one."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except binascii.Error:
        return False
