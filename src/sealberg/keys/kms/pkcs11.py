"""Master keys in a hardware security module, or in any other PKCS#11 token.

    wrap    AES-GCM inside the token: nonce (12) | ciphertext | tag (16), without AAD
    unwrap  the inverse

    encryption.kms.pkcs11.module             the absolute path of the vendor's library
    encryption.kms.pkcs11.token-label        the label of the token, which must be unique
    encryption.kms.pkcs11.pin-file           the file that holds the PIN, or
    encryption.kms.pkcs11.pin-env            the environment variable that holds it, SEALBERG_PKCS11_PIN by default
    encryption.kms.pkcs11.allow-extractable  true: use keys that can leave the token

The master key id is the label of an AES key that may encrypt and decrypt and cannot be extracted; a
label that two objects share is refused. The layout is that of the local keystore and of Java's, so a key
that was imported into a token opens what was wrapped before.

Tokens lock after a few wrong PINs, so a client never tries a refused PIN again. Each operation opens its own
session: login, sessions and handles may have been lost since the last operation, by a fork, a removed token or
other code in this process. pkcs11_module.py has the library and the login that the clients of a process share.
A call into the library has no time limit; guarded.py adds one.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pkcs11 import Attribute, GCMParams, KeyType, Mechanism, ObjectClass
from pkcs11 import exceptions as sdk

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyNotFoundError,
    KmsUnavailableError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.format.aes_gcm import NONCE_LENGTH, TAG_LENGTH
from sealberg.keys.kms.client import UNVERSIONED
from sealberg.keys.kms.pkcs11_module import PREFIX, PinWithheldError, TokenLogin, loaded_module
from sealberg.keys.kms.remote import RemoteKms
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

PIN_ENV: Final = "SEALBERG_PKCS11_PIN"
PIN_SOURCES: Final = f"{PREFIX}pin-file or {PREFIX}pin-env"

PIN_REFUSED: Final = (sdk.PinIncorrect, sdk.PinInvalid, sdk.PinLenRange, sdk.PinLocked, sdk.PinExpired)
LOGIN_ERRORS: Final = (*PIN_REFUSED, sdk.UserPinNotInitialized, sdk.FunctionRejected)
MECHANISM_ERRORS: Final = (
    sdk.MechanismInvalid,
    sdk.MechanismParamInvalid,
    sdk.FunctionNotSupported,
    sdk.KeyTypeInconsistent,
    sdk.KeySizeRange,
)
# The errors of tokens for a GCM tag that does not match; SoftHSM raises GeneralError.
DECRYPTION_ERRORS: Final = (
    sdk.DataInvalid,
    sdk.DataLenRange,
    sdk.EncryptedDataInvalid,
    sdk.EncryptedDataLenRange,
    sdk.FunctionFailed,
    sdk.GeneralError,
    sdk.SignatureInvalid,
)
DESCRIBED: Final[Mapping[str, Attribute]] = {
    "encrypt": Attribute.ENCRYPT,
    "decrypt": Attribute.DECRYPT,
    "extractable": Attribute.EXTRACTABLE,
    "never_extractable": Attribute.NEVER_EXTRACTABLE,
    "sensitive": Attribute.SENSITIVE,
    "generated_in_token": Attribute.LOCAL,
}


@dataclass(frozen=True, slots=True)
class Pkcs11Settings:
    """The token, and the place of its PIN; does not hold the PIN."""

    module: str
    token_label: str
    pin_file: str | None = None
    pin_env: str | None = None
    allow_extractable: bool = False

    def __post_init__(self) -> None:
        if not Path(self.module).is_absolute():
            # The loader would search a relative name in folders that others may write to.
            raise ConfigError(f"{PREFIX}module must be an absolute path, found {self.module!r}")
        if not self.token_label:
            raise ConfigError(f"{PREFIX}token-label is not set, expected the label of a token")
        if self.pin_file and self.pin_env:
            raise ConfigError(f"{PREFIX}pin-file and {PREFIX}pin-env are both set; set only one of them")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        given = {name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX)}
        if "pin" in given:
            # Catalogs print, log and store properties, so a property must not hold a secret.
            raise ConfigError(f"{PREFIX}pin is refused: a property must not hold a secret; use {PIN_SOURCES}")
        known = {item.name.replace("_", "-") for item in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise ConfigError(f"unknown property {PREFIX}{unknown[0]} (known: {', '.join(sorted(known))})")
        if "module" not in given:
            raise ConfigError(f"{PREFIX}module is not set, expected the absolute path of a PKCS#11 library")
        allow = given.get("allow-extractable", "false").lower()
        if allow not in {"true", "false"}:
            raise ConfigError(f"{PREFIX}allow-extractable must be true or false, found {allow!r}")
        return cls(
            module=given["module"],
            token_label=given.get("token-label", ""),
            pin_file=given.get("pin-file"),
            pin_env=given.get("pin-env"),
            allow_extractable=allow == "true",
        )

    def pin(self) -> str:
        """Read the PIN from its file or environment variable."""
        if self.pin_file:
            try:
                raw = Path(self.pin_file).expanduser().read_bytes()
            except OSError as error:
                raise ConfigError(f"{PREFIX}pin-file cannot be read: {self.pin_file} ({error.strerror})") from None
            pin = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        else:
            pin = os.environ.get(self.pin_env or PIN_ENV, "")
        if not pin:  # a token may count an empty PIN as a wrong PIN
            source = self.pin_file or f"the environment variable {self.pin_env or PIN_ENV}"
            raise ConfigError(f"no PIN in {source}; set the PIN with {PIN_SOURCES}")
        return pin


class Pkcs11Kms(RemoteKms):
    """Master keys in one token."""

    provider = "pkcs11"
    can_hang = True  # calls into the library have no time limit
    property_names = (PREFIX,)

    def __init__(self, settings: Pkcs11Settings, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(retry_policy)
        self.settings = settings
        # Pickled too: workers that each try the same wrong PIN would lock the token.
        self._pin_refused = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(Pkcs11Settings.from_properties(properties), RetryPolicy.from_properties(properties))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(token {self.settings.token_label!r} of {self.settings.module})"

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        def act(master_key: Any) -> bytes:
            self._check_suitable(master_key, master_key_id)
            wrapped = _seal(master_key, key)
            # Some tokens choose the nonce themselves and report it in vendor-specific ways. A key
            # that cannot be unwrapped must not be stored: the table would be lost.
            if _open(master_key, wrapped) != key:
                raise UnsupportedError(f"{self.provider}: the AES-GCM of this token does not decrypt what it encrypted")
            return wrapped

        return self._with_key(master_key_id, act)

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        def act(master_key: Any) -> bytes:
            self._check_suitable(master_key, master_key_id)
            try:
                if len(wrapped) > NONCE_LENGTH + TAG_LENGTH:
                    return _open(master_key, wrapped)
            except DECRYPTION_ERRORS:
                # The same error may mean a broken device. If a round trip succeeds, the wrapped bytes are wrong.
                _open(master_key, _seal(master_key, bytes(16)))
            raise WrongKeyError(
                "the wrapped key was altered, or another master key wrapped it",
                provider=self.provider,
                key_id=master_key_id,
            )

        return self._with_key(master_key_id, act)

    def newest_version(self, master_key_id: str) -> str:  # noqa: ARG002 (a label names one key)
        return UNVERSIONED

    def version_in(self, wrapped: bytes) -> str:  # noqa: ARG002 (there is but one)
        return UNVERSIONED

    def describe(self, master_key_id: str) -> Mapping[str, str]:
        def act(master_key: Any) -> Mapping[str, str]:
            token = master_key.session.token
            facts = {
                "token": token.label,
                "manufacturer": token.manufacturer_id,
                "model": token.model,
                "serial": token.serial.decode("ascii", errors="replace"),
                "class": getattr(master_key.object_class, "name", str(master_key.object_class)),
                "type": getattr(_attribute(master_key, Attribute.KEY_TYPE), "name", "unknown"),
                "bits": str(8 * (_attribute(master_key, Attribute.VALUE_LEN) or 0)),
            }
            attributes = {name: _attribute(master_key, attribute) for name, attribute in DESCRIBED.items()}
            return facts | {name: str(value).lower() for name, value in attributes.items() if value is not None}

        return self._with_key(master_key_id, act)

    def trouble_in(self, facts: Mapping[str, str]) -> str | None:
        lacks = [name for name in ("encrypt", "decrypt") if facts.get(name) == "false"]
        return f"the key may not {' nor '.join(lacks)}" if lacks else None

    def connect(self) -> TokenLogin:
        if self._pin_refused:
            raise PinWithheldError("the PIN was refused before and is not tried again; correct it and start again")
        module = loaded_module(self.settings.module)
        pin = self.settings.pin()
        with module.lock, self._remember_refused_pin():
            return module.join(self.settings.token_label, pin)

    def disconnect(self, connection: TokenLogin) -> None:
        with connection.module.lock:
            connection.module.leave(connection)

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        about = {"provider": self.provider, "key_id": master_key_id}
        token = f"token {self.settings.token_label!r}"
        if isinstance(error, PinWithheldError):
            return AccessDeniedError(f"{token}: {error}", **about)
        if not isinstance(error, sdk.PKCS11Error):
            return None
        message = f"{type(error).__name__} {error}".strip()
        if isinstance(error, LOGIN_ERRORS):
            return AccessDeniedError(f"{token} refused the login: {message}", **about)
        if isinstance(error, MECHANISM_ERRORS):
            return ConfigError(
                str(KeyAccessError(f"{token} does not support AES-GCM with this key: {message}", **about))
            )
        return KmsUnavailableError(f"{token} failed: {message}", **about)

    def _with_key(self, master_key_id: str, act: Callable[[Any], T]) -> T:
        def once() -> T:
            login = self.connection
            if login.lost:
                login = self.reconnect(login)
            with login.module.lock:
                try:
                    return self._find_and_run(login, master_key_id, act)
                except sdk.PKCS11Error:
                    login.module.forget(login)  # after any error, the next attempt begins with a new login
                    raise

        return self.call(master_key_id, once)

    def _find_and_run(self, login: TokenLogin, master_key_id: str, act: Callable[[Any], T]) -> T:
        with login.token.open() as session:
            if (found := self._find(session, master_key_id)) is not None:
                return act(found)
        # Private objects are invisible without a login, and other code can log out: log in and search again.
        pin = self.settings.pin()
        with self._remember_refused_pin():
            login.renew(pin)
        with login.token.open() as session:
            if (found := self._find(session, master_key_id)) is not None:
                return act(found)
            labels = _labels(session)
        reason = f"token {self.settings.token_label!r} has no object with this label"
        reason += f"; existing keys: {', '.join(labels)}" if labels else "; there are no keys yet"
        raise KeyNotFoundError(reason, provider=self.provider, key_id=master_key_id)

    def _find(self, session: Any, master_key_id: str) -> Any:
        found = list(session.get_objects({Attribute.LABEL: master_key_id}))
        if len(found) > 1:
            raise self._unsuitable(master_key_id, f"{len(found)} objects of the token have this label, expected one")
        return found[0] if found else None

    def _check_suitable(self, found: Any, master_key_id: str) -> None:
        if found.object_class != ObjectClass.SECRET_KEY or found.key_type != KeyType.AES:
            raise self._unsuitable(master_key_id, "the object with this label is not a secret AES key")
        if not (_attribute(found, Attribute.ENCRYPT) and _attribute(found, Attribute.DECRYPT)):
            raise self._unsuitable(master_key_id, "the key is not allowed to encrypt and decrypt, expected both")
        # If the token does not report the attribute, the key counts as extractable.
        if _attribute(found, Attribute.EXTRACTABLE) is not False and not self.settings.allow_extractable:
            reason = f"the key can be extracted from the token; set {PREFIX}allow-extractable=true to use it"
            raise self._unsuitable(master_key_id, reason)

    def _unsuitable(self, master_key_id: str, reason: str) -> ConfigError:
        return ConfigError(str(KeyAccessError(reason, provider=self.provider, key_id=master_key_id)))

    @contextmanager
    def _remember_refused_pin(self) -> Iterator[None]:
        try:
            yield
        except PIN_REFUSED:
            self._pin_refused = True
            raise


def _seal(master_key: Any, key: bytes) -> bytes:
    # The nonce comes from the operating system: processes on many hosts share a master key, so none can
    # keep a counter, and not every token has a generator. A few wraps a year are far below 2**32.
    params = GCMParams(os.urandom(NONCE_LENGTH), b"", 8 * TAG_LENGTH)
    sealed = master_key.encrypt(key, mechanism=Mechanism.AES_GCM, mechanism_param=params)
    # Read after the call: tokens that choose the nonce write it into this buffer.
    return bytes(params.nonce) + bytes(sealed)


def _open(master_key: Any, wrapped: bytes) -> bytes:
    params = GCMParams(bytes(wrapped[:NONCE_LENGTH]), b"", 8 * TAG_LENGTH)
    sealed = bytes(wrapped[NONCE_LENGTH:])
    return bytes(master_key.decrypt(sealed, mechanism=Mechanism.AES_GCM, mechanism_param=params))


def _labels(session: Any) -> list[str]:
    found = list(session.get_objects({Attribute.CLASS: ObjectClass.SECRET_KEY}))
    return sorted(str(_attribute(each, Attribute.LABEL)) for each in found[:20])


def _attribute(found: Any, attribute: Attribute) -> Any:
    try:
        return found[attribute]
    except (sdk.AttributeTypeInvalid, sdk.AttributeSensitive):
        return None
