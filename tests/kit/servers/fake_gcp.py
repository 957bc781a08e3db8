"""Google Cloud KMS on loopback: gRPC, with the messages of google-cloud-kms itself.

    Encrypt, Decrypt and GetCryptoKey, with Java's fields and their checksums and no others;
    keys with versions that are rotated, disabled, destroyed; faults and corrupted responses on demand.

A ciphertext is version (1) | nonce (12) | ciphertext | tag (16), with the key's name as AAD. Status codes and
messages follow the service.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.cloud import kms_v1 as kms
from google.protobuf import any_pb2  # type: ignore[import-untyped]
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

RING = "projects/lake/locations/europe-west3/keyRings/tables/cryptoKeys"
FIELDS = {
    "Encrypt": {"name", "plaintext", "plaintext_crc32c"},
    "Decrypt": {"name", "ciphertext", "ciphertext_crc32c"},
    "GetCryptoKey": {"name"},
    "ListCryptoKeyVersions": {"parent"},
    "DestroyCryptoKeyVersion": {"name"},
}
State = kms.CryptoKeyVersion.CryptoKeyVersionState


def crc32c(data: bytes) -> int:
    """CRC-32C by a table; the client computes it bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ 0x82F63B78 if index & 1 else index >> 1
    return index


TABLE = [_entry(index) for index in range(256)]


@dataclass
class Version:
    state: Any = State.ENABLED
    secret: bytes = field(default_factory=lambda: os.urandom(32))


@dataclass
class Key:
    name: str
    versions: list[Version] = field(default_factory=lambda: [Version()])  # the last one wraps

    def rotate(self) -> None:
        self.versions.append(Version())


@dataclass
class Seen:
    """One request as it was received."""

    method: str
    request: Any
    metadata: dict[str, str]


class Refusal(Exception):
    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class FakeGcp:
    """`with FakeGcp() as fake`: a Cloud KMS with no keys, at `fake.endpoint`."""

    def __init__(self, certificate: tuple[bytes, bytes] | None = None) -> None:
        self.keys: dict[str, Key] = {}
        self.denied: set[str] = set()  # methods
        self.faults: list[Refusal] = []  # one is used up by each request
        self.garble: list[Callable[[Any], None]] = []  # the same, for answers
        self.seen: list[Seen] = []
        self.hang = threading.Event()
        self.released = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(8))
        handlers = {
            "Encrypt": self._handler("Encrypt", kms.EncryptRequest, kms.EncryptResponse, self._encrypt),
            "Decrypt": self._handler("Decrypt", kms.DecryptRequest, kms.DecryptResponse, self._decrypt),
            "GetCryptoKey": self._handler("GetCryptoKey", kms.GetCryptoKeyRequest, kms.CryptoKey, self._get),
            "ListCryptoKeyVersions": self._handler(
                "ListCryptoKeyVersions",
                kms.ListCryptoKeyVersionsRequest,
                kms.ListCryptoKeyVersionsResponse,
                self._list,
            ),
            "DestroyCryptoKeyVersion": self._handler(
                "DestroyCryptoKeyVersion", kms.DestroyCryptoKeyVersionRequest, kms.CryptoKeyVersion, self._destroy
            ),
        }
        service = grpc.method_handlers_generic_handler("google.cloud.kms.v1.KeyManagementService", handlers)
        self._server.add_generic_rpc_handlers((service,))
        if certificate is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([certificate]))
        self.endpoint = f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.stop(0).wait()

    def create(self, name: str) -> Key:
        return self.keys.setdefault(f"{RING}/{name}", Key(f"{RING}/{name}"))

    def fail(self, code: grpc.StatusCode, times: int, message: str = "because") -> None:
        self.faults = [Refusal(code, message)] * times

    def _handler(self, method: str, request: Any, response: Any, act: Callable[[Any], Any]) -> Any:
        def serve(asked: Any, context: grpc.ServicerContext) -> Any:
            metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
            self.seen.append(Seen(method, asked, metadata))
            try:
                return self._serve(method, asked, act)
            except Refusal as refusal:
                _abort(context, refusal)

        return grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=request.deserialize, response_serializer=response.serialize
        )

    def _serve(self, method: str, asked: Any, act: Callable[[Any], Any]) -> Any:
        if self.hang.is_set():
            self.released.wait(10)
        if self.faults:
            raise self.faults.pop(0)
        fields = {item.name for item, _ in type(asked).pb(asked).ListFields()}
        if fields != FIELDS[method]:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"{method} with {sorted(fields)}")
        if method in self.denied:
            raise Refusal(
                grpc.StatusCode.PERMISSION_DENIED,
                f"Permission 'cloudkms.cryptoKeyVersions.useTo{method}' denied on resource '{asked.name}' "
                "(or it may not exist).",
            )
        name = (asked.parent if method == "ListCryptoKeyVersions" else asked.name).partition("/cryptoKeyVersions/")[0]
        if name not in self.keys:
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"CryptoKey {name} not found.")
        answer = act(asked)
        if self.garble:
            self.garble.pop(0)(answer)
        return answer

    def _version(self, key: Key, number: int) -> Version:
        version = key.versions[number - 1]
        if version.state != State.ENABLED:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{key.name}/cryptoKeyVersions/{number} is not enabled, current state is: {version.state.name}.",
            )
        return version

    def _encrypt(self, asked: Any) -> Any:
        if asked.plaintext_crc32c != crc32c(asked.plaintext):
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "The checksum in field plaintext_crc32c did not match.")
        key = self.keys[asked.name]
        number, nonce = len(key.versions), os.urandom(12)
        secret = self._version(key, number).secret
        ciphertext = bytes([number]) + nonce + AESGCM(secret).encrypt(nonce, asked.plaintext, key.name.encode())
        return kms.EncryptResponse(
            name=f"{key.name}/cryptoKeyVersions/{number}",
            ciphertext=ciphertext,
            ciphertext_crc32c=crc32c(ciphertext),
            verified_plaintext_crc32c=True,
        )

    def _decrypt(self, asked: Any) -> Any:
        blob, key = asked.ciphertext, self.keys[asked.name]
        if asked.ciphertext_crc32c != crc32c(blob):
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "The checksum in field ciphertext_crc32c did not match the data in field ciphertext.",
            )
        try:
            version = self._version(key, blob[0])
            plain = AESGCM(version.secret).decrypt(blob[1:13], blob[13:], key.name.encode())
        except (InvalidTag, IndexError, ValueError):
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "Decryption failed: verify that 'name' refers to the correct CryptoKey.",
            ) from None
        newest = blob[0] == len(key.versions)
        return kms.DecryptResponse(plaintext=plain, plaintext_crc32c=crc32c(plain), used_primary=newest)

    def _get(self, asked: Any) -> Any:
        key = self.keys[asked.name]
        number = len(key.versions)
        primary = {"name": f"{key.name}/cryptoKeyVersions/{number}", "state": key.versions[-1].state}
        wait = {"seconds": 24 * 60 * 60}
        return kms.CryptoKey(name=key.name, purpose="ENCRYPT_DECRYPT", primary=primary, destroy_scheduled_duration=wait)

    def _list(self, asked: Any) -> Any:
        key = self.keys[asked.parent]
        return kms.ListCryptoKeyVersionsResponse(
            crypto_key_versions=[
                {"name": f"{key.name}/cryptoKeyVersions/{number}", "state": version.state}
                for number, version in enumerate(key.versions, 1)
            ]
        )

    def _destroy(self, asked: Any) -> Any:
        name, _, number = asked.name.partition("/cryptoKeyVersions/")
        version = self.keys[name].versions[int(number) - 1]
        version.state = State.DESTROY_SCHEDULED
        return kms.CryptoKeyVersion(name=asked.name, state=version.state, destroy_time={"seconds": 1_900_000_000})


def _abort(context: grpc.ServicerContext, refusal: Refusal) -> NoReturn:
    """Abort as Google's front end does: a status with details in the trailers."""
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.RequestInfo(request_id="4711-request"))
    code = code_pb2.Code.Value(refusal.code.name)
    status = status_pb2.Status(code=code, message=refusal.message, details=[detail])
    context.abort_with_status(rpc_status.to_status(status))
    raise AssertionError("unreachable: abort raises")
