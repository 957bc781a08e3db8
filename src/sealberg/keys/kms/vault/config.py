"""The address of a Vault server and the places of its secrets; client.py lists the properties."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from sealberg.errors import ConfigError
from sealberg.keys.kms.remote import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "encryption.kms.vault."
BY_VALUE: Final = ("token", "secret-id")
SECRET_SOURCES: Final = (
    f"{PREFIX}token-file, the environment variables VAULT_TOKEN or BAO_TOKEN, "
    f"or {PREFIX}role-id with {PREFIX}secret-id-file"
)

# Transit's rule for names. The rule also keeps a key id from naming another path of the server.
NAME: Final = re.compile(r"\w([\w.-]*\w)?", re.ASCII)
SECRET: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """The address of the server and the places of its secrets; holds no secret."""

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
            raise ConfigError(f"only one of {PREFIX}role-id and {PREFIX}secret-id-file is set, expected both")
        if self.role_id and self.token_file:
            raise ConfigError(f"{PREFIX}token-file and {PREFIX}role-id are both set; set only one of them")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        given = {name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX)}
        for name in BY_VALUE:
            if name in given:
                # Catalogs print, log and store properties, so a property must not hold a secret.
                raise ConfigError(f"{PREFIX}{name} is refused: a property must not hold a secret; use {SECRET_SOURCES}")
        known = {item.name.replace("_", "-") for item in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise ConfigError(f"unknown property {PREFIX}{unknown[0]} (known: {', '.join(sorted(known))})")
        address = given.get("address") or from_environment("ADDR")
        if not address:
            raise ConfigError(f"no address of a Vault server: set {PREFIX}address, VAULT_ADDR or BAO_ADDR")
        return cls(
            address=address.rstrip("/"),
            mount=given.get("mount", "transit").strip("/"),
            namespace=given.get("namespace") or from_environment("NAMESPACE"),
            token_file=given.get("token-file"),
            role_id=given.get("role-id"),
            secret_id_file=given.get("secret-id-file"),
            ca_file=given.get("ca-file") or from_environment("CACERT"),
            allow_http=_flag("allow-http", given.get("allow-http", "false")),
        )


def _check_address(address: str, *, allow_http: bool) -> None:
    try:
        url = urlsplit(address)
        host = url.hostname
    except ValueError:
        url, host = urlsplit(""), None
    if "@" in address:
        raise ConfigError(f"{PREFIX}address holds a user name or a password; use {SECRET_SOURCES}")
    if url.scheme not in {"http", "https"} or not host or url.query or url.fragment:
        raise ConfigError(f"{PREFIX}address must be an https URL, found {address!r}")
    if url.scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigError(
            f"{PREFIX}address must be https unless it is a loopback address, found {address!r}; "
            f"{PREFIX}allow-http=true would send keys and tokens unencrypted"
        )


def _flag(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ConfigError(f"{PREFIX}{name} must be true or false, found {value!r}")
    return value.lower() == "true"


def from_environment(name: str) -> str | None:
    return os.environ.get(f"VAULT_{name}") or os.environ.get(f"BAO_{name}") or None


def secret(name: str, file: str) -> str:
    try:
        secret = Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"{PREFIX}{name} cannot be read: {file} ({error.strerror})") from None
    return checked(secret.decode("utf-8", errors="replace").strip(), f"{PREFIX}{name} {file}")


def checked(secret: str, source: str) -> str:
    # Checked here, because the HTTP client would quote the secret in its exception.
    if not SECRET.fullmatch(secret):
        raise ConfigError(f"{source} holds no token or secret id, expected one line of ASCII without spaces")
    return secret
