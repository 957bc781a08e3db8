"""Azure Key Vault on loopback, over TLS with a bearer challenge, as its SDK demands.

    POST /keys/{name}/{version or nothing}/wrapkey and unwrapkey   {alg, value}
    GET  /keys/{name}/versions  (pages of two)    GET /keys/{name}/{version or nothing}

RSA keys with versions and no version in the wrapped bytes: a request without a version uses the newest, so
what older ones wrapped is refused with 400 BadParameter, as the service does. Faults on demand.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from azure.core.credentials import AccessToken
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

PATH = re.compile(r"/keys/(?P<name>[0-9A-Za-z-]+)/(?P<version>[0-9a-f]{32}|)(?:/(?P<act>wrapkey|unwrapkey))?")
PAGE = 2
HASHES: dict[str, hashes.HashAlgorithm] = {"RSA-OAEP": hashes.SHA1(), "RSA-OAEP-256": hashes.SHA256()}


def self_signed() -> tuple[bytes, bytes]:
    """A private key and its certificate for this machine, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost")]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    return (
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        certificate.public_bytes(serialization.Encoding.PEM),
    )


@dataclass(frozen=True)
class StaticToken:
    """A TokenCredential with a fixed token."""

    token: str = field(default="good-token", repr=False)

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        assert scopes == ("https://vault.azure.net/.default",)
        return AccessToken(self.token, int(datetime.now(UTC).timestamp()) + 3600)


@dataclass
class Version:
    created: int
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    secret: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    enabled: bool = True


@dataclass
class Key:
    name: str
    versions: list[Version] = field(default_factory=lambda: [Version(1_700_000_000)])  # oldest first

    def rotate(self) -> None:
        self.versions.append(Version(self.versions[-1].created + 60))


class VaultError(Exception):
    def __init__(self, status: int, code: str, message: str = "", inner: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.inner = status, code, message, inner

    def body(self) -> dict[str, Any]:
        inner = {"innererror": {"code": self.inner}} if self.inner else {}
        return {"error": {"code": self.code, "message": self.message, **inner}}


@dataclass
class Seen:
    """One authorised request as it was received; the unauthorised request before the challenge is not recorded."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: dict[str, Any]
    agent: str


class FakeAzure:
    """`with FakeAzure(folder) as fake`: a vault with no keys, at `fake.url`, certified by `fake.ca_file`."""

    def __init__(self, folder: Path, resource: str = "https://vault.azure.net") -> None:
        self.resource = resource
        self.keys: dict[str, Key] = {}
        self.denied: set[str] = set()  # wrapkey, unwrapkey, get, list
        self.faults: list[VaultError] = []  # one is used up by each request
        self.seen: list[Seen] = []
        self.hang = threading.Event()
        self.released = threading.Event()
        key, certificate = self_signed()
        self.ca_file = folder / "vault.pem"
        self.ca_file.write_bytes(certificate)
        both = folder / "vault-with-key.pem"
        both.write_bytes(key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(both)
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self}))
        self._server.context = context
        self.url = f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def create(self, name: str) -> Key:
        self.keys[name] = Key(name)
        return self.keys[name]

    def fail(self, status: int, code: str, times: int) -> None:
        self.faults = [VaultError(status, code, "because")] * times

    def answer(self, seen: Seen) -> dict[str, Any]:
        if seen.query.get("api-version") != ["7.4"]:
            raise VaultError(400, "BadParameter", f"api-version {seen.query.get('api-version')}")
        if found := re.fullmatch(r"/keys/([0-9A-Za-z-]+)/versions", seen.path):
            return self._list(self._permitted("list", found[1]), int(seen.query.get("$skiptoken", ["0"])[0]))
        if seen.method == "DELETE":
            key = self._permitted("delete", seen.path.removeprefix("/keys/"))
            del self.keys[key.name]
            about = {"kid": f"{self.url}/keys/{key.name}/{key.versions[-1].name}", "kty": "RSA"}
            gone = f"{self.url}/deletedkeys/{key.name}"
            return {"key": about, "recoveryId": gone, "scheduledPurgeDate": 1_900_000_000}
        if found := re.fullmatch(r"/deletedkeys/([0-9A-Za-z-]+)", seen.path):
            return {"key": {"kid": f"{self.url}/keys/{found[1]}/1", "kty": "RSA"}}
        found = PATH.fullmatch(seen.path)
        if found is None or (seen.method == "POST") != bool(found["act"]):
            raise VaultError(404, "NotFound", f"{seen.method} {seen.path}")
        key = self._permitted(found["act"] or "get", found["name"])
        version = self._version(key, found["version"])
        kid = f"{self.url}/keys/{key.name}/{version.name}"
        if not found["act"]:
            attributes = {"enabled": version.enabled, "created": version.created, "updated": version.created}
            attributes["recoverableDays"] = 90
            return {"key": {"kid": kid, "kty": "RSA", "n": "AQ", "e": "AQAB"}, "attributes": attributes}
        return {"kid": kid, "value": self._operate(found["act"], version, seen.body)}

    def _permitted(self, act: str, name: str) -> Key:
        if act in self.denied:
            raise VaultError(
                403,
                "Forbidden",
                f"The user, group or application 'appid=1' does not have keys {act} permission on key vault 'fake'.",
                "AccessDenied",
            )
        if name not in self.keys:
            raise VaultError(
                404,
                "KeyNotFound",
                f"A key with (name/id) {name} was not found in this key vault. If you recently deleted this key "
                "you may be able to recover it using the correct recovery command.",
            )
        return self.keys[name]

    def _version(self, key: Key, name: str) -> Version:
        found = [version for version in key.versions if name in {"", version.name}]
        if not found:
            raise VaultError(404, "KeyNotFound", f"A key with (name/id) {key.name}/{name} was not found.")
        return found[-1]

    def _operate(self, act: str, version: Version, body: dict[str, Any]) -> str:
        if set(body) != {"alg", "value"} or body["alg"] not in HASHES:
            raise VaultError(400, "BadParameter", f"{act} with {sorted(body)} and algorithm {body.get('alg')}")
        if not version.enabled:
            raise VaultError(403, "Forbidden", f"Operation {act} is not allowed on a disabled key.", "KeyDisabled")
        digest = HASHES[body["alg"]]
        oaep = padding.OAEP(padding.MGF1(digest), digest, None)
        value = base64.urlsafe_b64decode(body["value"] + "==")
        if "=" in body["value"] or not value:
            raise VaultError(400, "BadParameter", "Property value has invalid value")
        if act == "wrapkey":
            return _b64(version.secret.public_key().encrypt(value, oaep))
        try:
            return _b64(version.secret.decrypt(value, oaep))
        except ValueError:
            raise VaultError(400, "BadParameter", "Unable to decrypt specified value with this key.") from None

    def _list(self, key: Key, skip: int) -> dict[str, Any]:
        # Not in the order of their age: the service promises none.
        versions = sorted(key.versions, key=lambda version: version.name)
        items = [
            {
                "kid": f"{self.url}/keys/{key.name}/{version.name}",
                "attributes": {"enabled": version.enabled, "created": version.created, "updated": version.created},
            }
            for version in versions[skip : skip + PAGE]
        ]
        more = skip + PAGE < len(versions)
        link = f"{self.url}/keys/{key.name}/versions?api-version=7.4&$skiptoken={skip + PAGE}"
        return {"value": items, "nextLink": link if more else None}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The handshake belongs in the connection's own thread, or one silent client would stop all.
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except (ssl.SSLError, ConnectionError):
            return  # a client that does not trust us
        try:
            super().finish_request(secured, client_address)
        finally:
            secured.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes
    fake: FakeAzure

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        fake = self.fake
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        challenge = f'Bearer authorization="https://login.microsoftonline.com/tenant", resource="{fake.resource}"'
        if self.headers.get("Authorization") != "Bearer good-token":
            assert not raw or self.headers.get("Authorization"), "a body before the challenge was met"
            refused = VaultError(401, "Unauthorized", "AKV10000: Request is missing a Bearer or PoP token.")
            return self._send(401, refused.body(), {"WWW-Authenticate": challenge})
        url = urlsplit(self.path)
        body = json.loads(raw) if raw else {}
        seen = Seen(self.command, url.path, parse_qs(url.query), body, self.headers.get("User-Agent", ""))
        fake.seen.append(seen)
        if fake.hang.is_set():
            fake.released.wait(10)
            self.close_connection = True
            return None
        try:
            if fake.faults:
                raise fake.faults.pop(0)
            return self._send(200, fake.answer(seen), {})
        except VaultError as error:
            more = {"Retry-After": "60"} if error.status == 429 else {}
            return self._send(error.status, error.body(), more)

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(data)),
            "x-ms-request-id": "b1946ac9-request",
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Tests are quiet."""
