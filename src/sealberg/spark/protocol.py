"""The words that the JVM and Python exchange: frames of JSON, each after its length.

    hello    {"protocol": 1, "token": "..."}                       ──>  {"protocol": 1, "sealberg": "0.1.0"}
    request  {"catalog": "prod", "verb": "load", "arguments": {}}  ──>  {"ok": ...}
                                                                   or   {"error": {"kind": "...", "text": "..."}}

    frame    four bytes, big-endian: the length of what follows; then as many bytes of UTF-8

The JVM speaks first. A connection carries one request at a time, so answers need no number. Whoever opens a connection
says hello once: a wrong token or another protocol ends the connection. The same frames work over a socket and over a
pair of pipes.
"""

from __future__ import annotations

import hmac
import json
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = 1
MOST_HELLO: Final = 4096  # of whoever has not shown the token yet
MOST_FRAME: Final = (1 << 31) - 16  # an array of Java has no more


class FrameError(Exception):
    """The other side does not speak this protocol."""


def read_frame(source: BinaryIO, most: int = MOST_FRAME) -> bytes | None:
    """The next frame; None if the other side has ended the connection."""
    head = source.read(4)
    if not head:
        return None
    if len(head) < 4:
        raise FrameError("the connection ended within the length of a frame")
    (length,) = struct.unpack(">I", head)
    if length > most:
        raise FrameError(f"a frame of {length} bytes, at most {most} are accepted")
    payload = source.read(length)
    if len(payload) < length:
        raise FrameError(f"the connection ended after {len(payload)} of the {length} bytes of a frame")
    return payload


def write_frame(sink: BinaryIO, payload: bytes) -> None:
    sink.write(struct.pack(">I", len(payload)))
    sink.write(payload)
    sink.flush()


def serve(
    source: BinaryIO, sink: BinaryIO, token: str, answer: Callable[[bytes], bytes], welcomed: Callable[[], None]
) -> None:
    """Answer the requests of one connection, until the other side ends it.

    Args:
        source: where requests come from.
        sink: where answers go.
        token: what the other side must show.
        answer: of one request.
        welcomed: called once, when the other side has shown the token.
    """
    if welcome(source, sink, token):
        welcomed()
        while (request := read_frame(source)) is not None:
            write_frame(sink, answer(request))


def welcome(source: BinaryIO, sink: BinaryIO, token: str) -> bool:
    """Whether the other side may ask anything. One without the token gets no answer."""
    frame = read_frame(source, MOST_HELLO)
    hello = _object(frame)
    if not hmac.compare_digest(str(hello.get("token", "")).encode(), token.encode()):
        return False
    if hello.get("protocol") != PROTOCOL:
        text = f"the jar speaks protocol {hello.get('protocol')} and sealberg {__version__} speaks {PROTOCOL}"
        refused = {"error": {"kind": "error", "text": f"{text}: use the jar of the installed sealberg"}}
        write_frame(sink, json.dumps(refused).encode())
        return False
    write_frame(sink, json.dumps({"protocol": PROTOCOL, "sealberg": __version__}).encode())
    return True


def _object(frame: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(frame or b"")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
