"""What the clients of object stores say when a request fails, as `StorageError` with the object and what to do.

HTTP status 403, AuthorizationFailure, ...      StorageAccessError
HTTP status 301, AuthorizationHeaderMalformed   StorageError: the bucket is in another region, set s3.region
HTTP status 400 without a word more             StorageError: a token that has expired, or the region
anything else                                   StorageError with the words of the client
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from sealberg.errors import StorageAccessError, StorageError
from sealberg.files.confined_io import store

# How the clients of object stores say that credentials do not suffice.
DENIED: Final = (
    "ACCESS_DENIED",
    "HTTP status 401",
    "HTTP status 403",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "ExpiredToken",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "AuthenticationFailed",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "Forbidden",
)
# How those of S3 say that the bucket is in another region than the one that the request is signed for.
ELSEWHERE: Final = (
    "HTTP status 301",
    "HTTP status 307",
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraint",
    "configured region",
)
# A HEAD has no body, so S3 cannot say why it refuses one.
UNEXPLAINED: Final = ("HTTP status 400) during HeadObject", "Bad Request")
SIGNATURE: Final = re.compile(r"(\bsig=)[^&\s'\"]+", re.IGNORECASE)
REGION: Final = "s3.region in the configuration of the catalog"


def is_denied(error: OSError) -> bool:
    """Whether the credentials do not suffice."""
    return isinstance(error, PermissionError) or any(words in str(error) for words in DENIED)


def is_of_region(location: str, error: OSError) -> bool:
    """Whether S3 refuses a request because of its region, or may do so."""
    said = _said(error)
    return store(location) == "s3" and (_is_elsewhere(error) or any(words in said for words in UNEXPLAINED))


def without_signature(error: OSError) -> str:
    """The words of the client without the signature of a SAS token, which PyArrow shows in the URL of a request."""
    return SIGNATURE.sub(r"\1...", str(error))


def storage_error(location: str, error: OSError) -> StorageError:
    """The error for whoever asked for this location."""
    if is_denied(error):
        return StorageAccessError(f"{location!s}: {without_signature(error)}")
    if not is_of_region(location, error):
        return StorageError(f"{location!s}: {without_signature(error)}")
    bucket, said = urlsplit(str(location)).netloc, _said(error)
    if _is_elsewhere(error):
        region = _region(error)
        named = f"to {region}" if region else f"to the region of bucket {bucket}"
        return StorageError(
            f"{location!s}: bucket {bucket} is in another region than the one that the request was signed for; set "
            f"{REGION} {named} ({said})"
        )
    return StorageError(
        f"{location!s}: S3 refused the request without a reason ({said}); it does so if {REGION} is not the region of "
        f"bucket {bucket}, and if a session token has expired"
    )


def _is_elsewhere(error: OSError) -> bool:
    return _region(error) is not None or any(words in _said(error) for words in ELSEWHERE)


def _said(error: OSError) -> str:
    """The words of the client; s3fs keeps the code of S3 in the error that is the cause."""
    code = _response(error).get("Error", {}).get("Code")
    return f"{error} ({code})" if code else str(error)


def _region(error: OSError) -> str | None:
    """Where the bucket is: S3 says so when it refuses a request for its region, and s3fs keeps it."""
    headers = _response(error).get("ResponseMetadata", {}).get("HTTPHeaders", {})
    found: str | None = headers.get("x-amz-bucket-region")
    return found


def _response(error: OSError) -> dict[str, Any]:
    """What botocore kept of the answer; nothing where another client was used."""
    found: dict[str, Any] = getattr(error.__cause__, "response", None) or {}
    return found
