"""AWS KMS on loopback, in JSON 1.1: as strict as the service where emulators are not.

    Encrypt, Decrypt, ReEncrypt, GenerateDataKey and DescribeKey, with the fields that Iceberg Java sends and no
    others; deletion; keys that are disabled, pending deletion, rotated, symmetric or RSA; aliases that can be
    retargeted; faults on demand (an error code for the next n requests, a hang, a cut connection).

A symmetric blob is key id (36) | material (1) | nonce (12) | ciphertext | tag (16). Error codes, their HTTP
statuses and the wording of their messages follow the API reference.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ACCOUNT = "arn:aws:kms:eu-central-1:111122223333"
SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/kms/aws4_request, SignedHeaders=[^,]+, Sig.*")
FIELDS = {
    "Encrypt": {"KeyId", "EncryptionAlgorithm", "Plaintext"},
    "Decrypt": {"KeyId", "EncryptionAlgorithm", "CiphertextBlob"},
    "ReEncrypt": {
        "CiphertextBlob",
        "SourceKeyId",
        "SourceEncryptionAlgorithm",
        "DestinationKeyId",
        "DestinationEncryptionAlgorithm",
    },
    "GenerateDataKey": {"KeyId", "NumberOfBytes"},
    "DescribeKey": {"KeyId"},
    "ScheduleKeyDeletion": {"KeyId", "PendingWindowInDays"},
    "ListAliases": {"Limit"},
}
STATUS = {"KMSInternalException": 500, "KeyUnavailableException": 500, "DependencyTimeoutException": 500}


class KmsError(Exception):
    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status or STATUS.get(code, 400)


@dataclass
class Key:
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: str = "Enabled"
    materials: list[bytes] = field(default_factory=lambda: [os.urandom(32)])  # the last one wraps
    rsa: rsa.RSAPrivateKey | None = None

    @property
    def arn(self) -> str:
        return f"{ACCOUNT}:key/{self.id}"

    def rotate(self) -> None:
        self.materials.append(os.urandom(32))

    def material_id(self, number: int) -> str:
        return hashlib.sha256(self.materials[number]).hexdigest()

    def encrypt(self, plain: bytes) -> bytes:
        if self.rsa is not None:
            return self.rsa.public_key().encrypt(plain, _oaep())
        head, nonce = self.id.encode() + bytes([len(self.materials) - 1]), os.urandom(12)
        return head + nonce + AESGCM(self.materials[-1]).encrypt(nonce, plain, head)

    def decrypt(self, blob: bytes) -> bytes:
        try:
            if self.rsa is not None:
                return self.rsa.decrypt(blob, _oaep())
            return AESGCM(self.materials[blob[36]]).decrypt(blob[37:49], blob[49:], blob[:37])
        except (InvalidTag, IndexError, ValueError):
            raise KmsError("InvalidCiphertextException", "") from None


def _oaep() -> padding.OAEP:
    return padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)


@dataclass
class Seen:
    """One request as it was received."""

    operation: str
    body: dict[str, Any]
    caller: str  # the access key id that signed it
    region: str
    agent: str


class FakeAws:
    """`with FakeAws() as fake`: a KMS with no keys, at `fake.url`."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {}
        self.aliases: dict[str, Key] = {}
        self.denied: set[str] = set()  # operations
        self.faults: list[KmsError] = []  # one is used up by each request
        self.seen: list[Seen] = []
        self.hang = threading.Event()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def create(self, *, alias: str | None = None, asymmetric: bool = False) -> Key:
        key = Key(rsa=rsa.generate_private_key(65537, 2048) if asymmetric else None)
        self.keys[key.id] = key
        if alias:
            self.aliases[alias] = key
        return key

    def fail(self, code: str, times: int, message: str = "", status: int | None = None) -> None:
        self.faults = [KmsError(code, message, status)] * times

    def find(self, key_id: str) -> Key:
        name = key_id.removeprefix(f"{ACCOUNT}:")
        if name.startswith("arn:"):
            raise KmsError("NotFoundException", f"Invalid arn {key_id}")
        key = self.aliases.get(name) if name.startswith("alias/") else self.keys.get(name.removeprefix("key/"))
        if key is None:
            what = "Alias" if name.startswith("alias/") else "Key"
            raise KmsError("NotFoundException", f"{what} '{ACCOUNT}:{name}' does not exist")
        return key

    def usable(self, key_id: str, algorithm: str) -> Key:
        key = self.find(key_id)
        if key.state == "Disabled":
            raise KmsError("DisabledException", f"{key.arn} is disabled.")
        if key.state != "Enabled":
            raise KmsError("KMSInvalidStateException", f"{key.arn} is {key.state}.")
        if algorithm != ("RSAES_OAEP_SHA_256" if key.rsa is not None else "SYMMETRIC_DEFAULT"):
            raise KmsError("InvalidKeyUsageException", f"{key.arn} key usage is not compatible with {algorithm}.")
        return key

    def answer(self, seen: Seen) -> dict[str, Any]:
        if set(seen.body) != FIELDS.get(seen.operation):
            raise KmsError("SerializationException", f"{seen.operation} with {sorted(seen.body)}")
        if seen.operation in self.denied:
            raise KmsError(
                "AccessDeniedException",
                f"User: arn:aws:iam::111122223333:user/ann is not authorized to perform: kms:{seen.operation}",
            )
        return getattr(self, f"_{seen.operation.lower()}")(**seen.body)  # type: ignore[no-any-return]

    def _encrypt(self, KeyId: str, EncryptionAlgorithm: str, Plaintext: str) -> dict[str, Any]:
        key = self.usable(KeyId, EncryptionAlgorithm)
        blob = key.encrypt(base64.b64decode(Plaintext, validate=True))
        return {"CiphertextBlob": _b64(blob), "KeyId": key.arn, "EncryptionAlgorithm": EncryptionAlgorithm}

    def _decrypt(self, KeyId: str, EncryptionAlgorithm: str, CiphertextBlob: str) -> dict[str, Any]:
        key = self.usable(KeyId, EncryptionAlgorithm)
        blob = base64.b64decode(CiphertextBlob, validate=True)
        if key.rsa is None:
            if blob[:36].decode("latin-1") not in self.keys:
                raise KmsError("InvalidCiphertextException", "")
            if blob[:36] != key.id.encode():
                raise KmsError(
                    "IncorrectKeyException",
                    "The key ID in the request does not identify a CMK that can perform this operation.",
                )
        answer = {"Plaintext": _b64(key.decrypt(blob)), "KeyId": key.arn, "EncryptionAlgorithm": EncryptionAlgorithm}
        return answer if key.rsa is not None else {**answer, "KeyMaterialId": key.material_id(blob[36])}

    def _generatedatakey(self, KeyId: str, NumberOfBytes: int) -> dict[str, Any]:
        key, made = self.usable(KeyId, "SYMMETRIC_DEFAULT"), os.urandom(NumberOfBytes)
        return {"Plaintext": _b64(made), "CiphertextBlob": _b64(key.encrypt(made)), "KeyId": key.arn}

    def _reencrypt(self, CiphertextBlob: str, **names: str) -> dict[str, Any]:
        opened = self._decrypt(names["SourceKeyId"], names["SourceEncryptionAlgorithm"], CiphertextBlob)
        sealed = self._encrypt(names["DestinationKeyId"], names["DestinationEncryptionAlgorithm"], opened["Plaintext"])
        newest = self.find(names["DestinationKeyId"]).material_id(-1)
        return {**sealed, "SourceKeyMaterialId": opened.get("KeyMaterialId"), "DestinationKeyMaterialId": newest}

    def _describekey(self, KeyId: str) -> dict[str, Any]:
        key = self.find(KeyId)
        state = "PendingDeletion" if key.state == "pending deletion" else key.state
        facts = {"KeyId": key.id, "Arn": key.arn, "KeyState": state, "CreationDate": 1.7e9}
        return {"KeyMetadata": {**facts, "CurrentKeyMaterialId": key.material_id(-1)}}

    def _schedulekeydeletion(self, KeyId: str, PendingWindowInDays: int) -> dict[str, Any]:
        if "alias/" in KeyId or not 7 <= PendingWindowInDays <= 30:
            raise KmsError("ValidationException", f"{KeyId} {PendingWindowInDays}")
        key = self.find(KeyId)
        key.state = "pending deletion"
        return {"KeyId": key.arn, "KeyState": "PendingDeletion", "PendingWindowInDays": PendingWindowInDays}

    def _listaliases(self, Limit: int) -> dict[str, Any]:
        own = [{"AliasName": name, "TargetKeyId": key.id} for name, key in self.aliases.items()]
        return {"Aliases": [*own, {"AliasName": "alias/aws/s3"}][:Limit], "Truncated": False}


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes; a kept-alive client would wait 40 ms for the second
    fake: FakeAws

    def do_POST(self) -> None:
        fake = self.fake
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            seen = self._seen(raw)
            fake.seen.append(seen)
            if fake.hang.is_set():
                fake.released.wait(10)
                self.close_connection = True
                return
            if fake.faults:
                raise fake.faults.pop(0)
            self._send(200, fake.answer(seen))
        except KmsError as error:
            self._send(error.status, {"__type": error.code, "message": error.message})

    def _seen(self, raw: bytes) -> Seen:
        signed = SIGNED.fullmatch(self.headers.get("Authorization", ""))
        if signed is None:
            raise KmsError("MissingAuthenticationTokenException", "Missing Authentication Token")
        service, _, operation = self.headers.get("X-Amz-Target", "").partition(".")
        if service != "TrentService" or self.headers.get("Content-Type") != "application/x-amz-json-1.1":
            raise KmsError("UnknownOperationException", "")
        return Seen(operation, json.loads(raw), signed[1], signed[2], self.headers.get("User-Agent", ""))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("x-amzn-RequestId", "7c2a0b6e-request")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Tests are quiet."""
