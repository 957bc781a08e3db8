"""Requests to an object store and their faults, shared by the proxy process and the tests.

SlowDown, ServerError, AccessDenied, ExpiredToken, NoSuchKey    an error response; the store sees no request
WrongRegion     S3 in another region than the client signs for: a redirect, or a refused signature
Reset           the connection is cut before the store sees the request
ResetUpload     the connection is cut in the middle of the request's body
LostAnswer      the store executes the request, and the connection is cut before the response
CutBody         the response has the full Content-Length, and the connection is cut after some bytes
ShortBody       the response is shorter, with a matching Content-Length
OtherBody       other bytes, under another ETag
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

BUCKET_REGION = "eu-north-1"  # that of the bucket, where a region is wrong


@dataclass(frozen=True)
class StoreRequest:
    """A request of a client to the store."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """The path as text; in the JSON interface of GCS the object's name is one part of it, or in the query."""
        return unquote(self.query.get("name", [self.path])[0]) if "/upload/" in self.path else unquote(self.path)


# -- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorAnswer:
    """An error response in the form of S3; clients of other stores look at the status."""

    status: int
    code: str
    headers: tuple[tuple[str, str], ...] = ()


def SlowDown() -> ErrorAnswer:
    return ErrorAnswer(503, "SlowDown")


def ServerError() -> ErrorAnswer:
    return ErrorAnswer(500, "InternalError")


def AccessDenied() -> ErrorAnswer:
    return ErrorAnswer(403, "AccessDenied")


def ExpiredToken() -> ErrorAnswer:
    return ErrorAnswer(400, "ExpiredToken")


def NoSuchKey() -> ErrorAnswer:
    return ErrorAnswer(404, "NoSuchKey")


def WrongRegion(status: int = 301) -> ErrorAnswer:
    """The endpoint of a region redirects (301); the endpoint of all regions refuses the signature (400)."""
    code = "PermanentRedirect" if status == 301 else "AuthorizationHeaderMalformed"
    return ErrorAnswer(status, code, (("x-amz-bucket-region", BUCKET_REGION),))


@dataclass(frozen=True)
class Reset:
    """The connection is cut before the store sees the request."""


@dataclass(frozen=True)
class ResetUpload:
    """The connection is cut after some bytes of the request's body; the store sees nothing of it."""

    after: int = 1000


@dataclass(frozen=True)
class LostAnswer:
    """The store has executed the request, and the client gets no response."""


@dataclass(frozen=True)
class CutBody:
    """The connection is cut in the middle of the response."""

    after: int = 100


@dataclass(frozen=True)
class ShortBody:
    """The response lacks its last bytes, and its Content-Length matches."""

    lacks: int = 10


@dataclass(frozen=True)
class OtherBody:
    """The response of another object: the same length, other bytes from `start` on, another ETag."""

    start: int = 0
    etag: str = '"ffffffffffffffffffffffffffffffff"'


Fault = ErrorAnswer | Reset | ResetUpload | LostAnswer | CutBody | ShortBody | OtherBody


@dataclass
class Rule:
    """Which requests meet a fault; `met` counts them, and is below 0 while requests are still let through."""

    fault: Fault
    method: str | None
    key: str
    left: int | None
    met: int = 0

    def applies(self, request: StoreRequest) -> bool:
        return (self.method in (None, request.method)) and bool(re.search(self.key, request.key))
