"""A PKCS#11 library loaded into this process, and the logins to its tokens.

    module = loaded_module(path)          one Pkcs11Module per library and process
    with module.lock:
        login = module.join(label, pin)   the TokenLogin that all clients of the token share
        ...
        module.leave(login)               the last client that leaves logs out

A library holds one login per token and process, so clients share the login. A library that was initialised
without thread support must not be called by two threads at once, so one lock per library guards every call.
No PIN is tried when the token reports that one attempt is left: one more wrong PIN would lock the token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pkcs11
from pkcs11 import TokenFlag
from pkcs11 import exceptions as sdk

from sealberg.errors import ConfigError

PREFIX: Final = "encryption.kms.pkcs11."  # of the properties that name the library, the token and the PIN


class PinWithheldError(Exception):
    """The PIN was not tried, because it was refused before or could lock the token; becomes an AccessDeniedError."""


@dataclass(eq=False)
class TokenLogin:
    """The login of this process to a token, shared by all clients of that token."""

    module: Pkcs11Module
    token: Any
    session: Any
    digest: bytes = field(repr=False)
    users: int = 0
    lost: bool = False

    def renew(self, pin: str) -> None:
        with suppress(sdk.PKCS11Error):
            self.session.close()
        self.token = self.token.slot.get_token()  # with its current flags
        self.session = log_in(self.token, pin)
        self.digest = self.module.digest_of(pin)


class Pkcs11Module:
    """One PKCS#11 library in one process. The caller of every method holds `lock`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.logins: dict[str, TokenLogin] = {}
        self.seen: set[str] = set()
        self.inherited = False
        self._salt = os.urandom(16)

    def digest_of(self, pin: str) -> bytes:
        return hashlib.blake2b(pin.encode(), key=self._salt).digest()

    def join(self, label: str, pin: str) -> TokenLogin:
        login = self.logins.get(label)
        if login is None:
            token = self._token(label)
            login = self.logins[label] = TokenLogin(self, token, log_in(token, pin), self.digest_of(pin))
        elif not hmac.compare_digest(login.digest, self.digest_of(pin)):
            # The token would not check this PIN, because the process is already logged in.
            raise PinWithheldError("the PIN differs from the PIN with which this process is logged in")
        login.users += 1
        return login

    def leave(self, login: TokenLogin) -> None:
        login.users -= 1
        if login.users == 0:
            self.forget(login)

    def forget(self, login: TokenLogin) -> None:
        login.lost = True
        if self.logins.get(login.token.label) is login:
            del self.logins[login.token.label]
            with suppress(sdk.PKCS11Error):
                login.session.close()

    def _token(self, label: str) -> Any:
        try:
            found = list(self._library().get_tokens(token_label=label))
        except sdk.PKCS11Error:
            # A library that cannot list its tokens has lost its device and must be initialised again.
            self._restart(self._library())
            found = list(self._library().get_tokens(token_label=label))
        if not found and label in self.seen:
            raise sdk.TokenNotPresent("the token was removed")
        if len(found) != 1:
            raise ConfigError(f"{PREFIX}token-label: found {len(found)} tokens of the label {label!r}, expected one")
        self.seen.add(label)
        return found[0]

    def _library(self) -> Any:
        try:
            library = pkcs11.lib(self.path)
        except sdk.PKCS11Error as error:
            if type(error) is not sdk.PKCS11Error:
                raise
            # Only failures to load or to initialise the library have no subclass.
            raise ConfigError(f"{PREFIX}module {self.path} cannot be loaded: {error}") from None
        if self.inherited:
            self.inherited = False
            self._restart(library)
        return library

    def _restart(self, library: Any) -> None:
        for login in self.logins.values():
            login.lost = True
        self.logins.clear()
        with suppress(sdk.PKCS11Error):  # a library that noticed the fork reports that it is not initialised
            library.finalize()
        library.initialize()


_LOADED: Final[dict[tuple[int, str], Pkcs11Module]] = {}


def loaded_module(path: str) -> Pkcs11Module:
    # A library loaded under two paths would be initialised twice, which libraries refuse.
    path = os.path.realpath(path)
    here = (os.getpid(), path)
    if (module := _LOADED.get(here)) is None:
        made = Pkcs11Module(path)
        # A forked child must initialise the library again. The child does not use its parent's entry,
        # because a thread that exists only in the parent may hold the lock.
        made.inherited = any(known == path for _, known in list(_LOADED))
        module = _LOADED.setdefault(here, made)
    return module


def _check_attempts_left(flags: TokenFlag) -> None:
    if flags & TokenFlag.USER_PIN_LOCKED:
        raise PinWithheldError("the PIN is locked; unlock it with the vendor's tool")
    if flags & TokenFlag.USER_PIN_FINAL_TRY:
        raise PinWithheldError("another wrong PIN would lock the token: no PIN is tried; log in with the vendor's tool")


def log_in(token: Any, pin: str) -> Any:
    _check_attempts_left(token.flags)
    try:
        return token.open(user_pin=pin)
    except sdk.UserAlreadyLoggedIn:  # by other code in this process
        return token.open()
