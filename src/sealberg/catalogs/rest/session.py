"""The HTTP session of a REST catalog, with limits on what a server can send.

stay_at_origin    refuses a redirect to another server, which would receive the operator's headers
bound_answers     reads a response up to a limit, which also holds for its decompressed size
clean_errors      shortens error messages and removes control characters and the client's own secrets
name_server       gives the errors of a server that does not answer its name, and a type of sealberg
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from requests import RequestException

from sealberg.errors import CatalogUnavailableError, FormatError, SealbergError, TrustError
from sealberg.metadata.metadata_file import MAX_BYTES
from sealberg.metadata.storage_properties import same_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from requests import PreparedRequest, Response, Session

READ_SIZE: Final = 64 << 10
MOST_OF_ERROR: Final = 64 << 10
LONGEST_MESSAGE: Final = 2000
OAUTH2: Final = ("error", "error_description", "error_uri")
SECRETS: Final = re.compile(r"token|credential|secret|password|authorization|key", re.IGNORECASE)
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def stay_at_origin(session: Session) -> None:
    """Refuse a redirect to another server."""
    follow = session.get_redirect_target

    def target(answer: Response) -> str | None:
        found = follow(answer)
        if found is not None and not same_origin(urljoin(answer.url, found), answer.url):
            answer.close()
            raise TrustError(
                f"{without_secrets(answer.url)} redirects its clients to another server, which is refused. Set the "
                "catalog property uri to the address of that server if you trust it"
            )
        return found

    session.get_redirect_target = target  # type: ignore[method-assign,assignment]


def bound_answers(session: Session, limit: int) -> None:
    """Read responses up to the limit; error responses are cut at 64 KiB."""

    def read(answer: Response, **_: Any) -> None:
        failed = answer.status_code >= 400
        most = min(limit, MOST_OF_ERROR) if failed else limit
        pieces: list[bytes] = []
        length = 0
        for piece in answer.iter_content(READ_SIZE):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                answer.close()
                if not failed:
                    raise FormatError(
                        f"the response of {without_secrets(answer.url)} is more than {limit} bytes; raise the limit "
                        f"with the catalog property {MAX_BYTES}"
                    )
                break
        _set_body(answer, b"".join(pieces)[:most])

    session.hooks["response"].append(read)


def clean_errors(session: Session, properties: Mapping[str, Any]) -> None:
    """Make error messages safe to show and to log."""
    secrets = sorted(set(_secrets(properties.items())), key=len, reverse=True)

    def clean(answer: Response, **_: Any) -> None:
        if answer.status_code < 400:
            return
        answer.reason = _clean(answer.reason or "", secrets)
        if not answer.content:
            return
        body: dict[str, Any]
        try:
            content = json.loads(answer.content)
            error = content["error"]
            if isinstance(error, str):  # of OAuth2
                fields = {name: _clean(str(value), secrets) for name, value in content.items() if name in OAUTH2}
                _set_body(answer, json.dumps(fields).encode())
                return
            shown = {name: _clean(str(error[name]), secrets) for name in ("message", "type") if name in error}
            body = {"error": {"message": "", "type": "", **shown, "code": int(error.get("code", answer.status_code))}}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            body = {"error": {"message": _clean(answer.text, secrets), "type": "unknown", "code": answer.status_code}}
        _set_body(answer, json.dumps(body).encode())

    session.hooks["response"].append(clean)


class ServerUnavailableError(CatalogUnavailableError, RequestException):
    """The server did not answer: to whoever commits an error of requests like others, which may hide a commit."""


def name_server(session: Session) -> None:
    """Turn errors of connections into errors that name the server."""
    send = session.send

    def sent(request: PreparedRequest, **options: Any) -> Response:
        try:
            return send(request, **options)
        except SealbergError:
            raise
        except RequestException as error:
            cause: BaseException = error
            while (deeper := cause.__cause__ or cause.__context__) is not None:
                cause = deeper
            raise ServerUnavailableError(
                f"the REST server {without_secrets(request.url or '')} did not answer: {type(cause).__name__}: "
                f"{cause}. Check that it runs and is reachable"
            ) from error

    session.send = sent  # type: ignore[method-assign]


def without_secrets(url: str) -> str:
    """The URL without user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _set_body(answer: Any, body: bytes) -> None:
    answer._content, answer._content_consumed = body, True  # noqa: SLF001 (requests has no public way)
    answer.encoding = answer.encoding or "utf-8"


def _clean(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return CONTROL.sub("?", text)[:LONGEST_MESSAGE]


def _secrets(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The property values that must not appear in a message; a server may echo them."""
    for name, value in items:
        if isinstance(value, dict):
            yield from _secrets((f"{name}.{key}", inner) for key, inner in value.items())
        elif SECRETS.search(str(name)):
            for piece in (str(value), *re.split(r"[:\s]", str(value))):
                if len(piece) >= 8:
                    yield piece
