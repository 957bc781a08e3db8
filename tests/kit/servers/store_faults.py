"""What a client asks of an object store, and what can go wrong with it; shared by the proxy and those who command it.

SlowDown, ServerError, AccessDenied, ExpiredToken, NoSuchKey    an answer of the store; it sees no request
WrongRegion     the same, of S3 in another region than the client signs for: a redirect, or a signature that is refused
Reset           the connection is cut before the store sees the request
ResetUpload     the same in the middle of the request's body
LostAnswer      the store does what is asked, and the connection is cut instead of its answer
CutBody         the answer promises its whole length, and the connection is cut after some bytes
ShortBody       the answer ends early, and says so
OtherBody       other bytes, under another ETag
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

BUCKET_REGION = "eu-north-1"  # that of the bucket, where a region is wrong


@dataclass(frozen=True)
class StoreRequest:
    """What a client asked of the store."""

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
    """An answer of the store that is an error, as S3 writes them; other stores are told by the status."""

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
    """The store has done what was asked, and nobody hears of it."""


@dataclass(frozen=True)
class CutBody:
    """The connection is cut in the middle of the answer."""

    after: int = 100


@dataclass(frozen=True)
class ShortBody:
    """The answer lacks its last bytes, and its length says so."""

    lacks: int = 10


@dataclass(frozen=True)
class OtherBody:
    """Another object answers: the same length, other bytes from `start` on, another ETag."""

    start: int = 0
    etag: str = '"ffffffffffffffffffffffffffffffff"'


Fault = ErrorAnswer | Reset | ResetUpload | LostAnswer | CutBody | ShortBody | OtherBody


@dataclass
class Rule:
    """Which requests meet a fault; `met` says how many did, and is below 0 while some are still let through."""

    fault: Fault
    method: str | None
    key: str
    left: int | None
    met: int = 0

    def applies(self, request: StoreRequest) -> bool:
        return (self.method in (None, request.method)) and bool(re.search(self.key, request.key))
