"""Bytes on the socket between the JVM and Python: frames of JSON, each after its length.

    hello    {"protocol": 3, "token": "..."}                             ──>  {"protocol": 3, "sealberg": "0.1.0"}
    request  {"catalog": "prod", "verb": "load-table", "arguments": {}}  ──>  {"ok": ...}
                                                                         or   {"error": {"kind": "...", "text": "..."}}

    frame    four bytes, big-endian: the length of the JSON that follows, in bytes; then the JSON in UTF-8

The JVM speaks first. A connection carries one request at a time, so answers need no number. The JVM says hello once on
each connection: a wrong token or another protocol ends the connection. Hello has the same two fields in every version
of the protocol, so that a jar of another version gets an error in words.
"""

from __future__ import annotations

import hmac
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from sealberg.spark.protocol.calls import Failure
from sealberg.spark.protocol.codec import Message, ProtocolError
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL: Final = 3
MOST_HELLO: Final = 4096  # of whoever has not shown the token yet
MOST_FRAME: Final = (1 << 31) - 16  # an array of Java has no more


class FrameError(Exception):
    """The other side does not speak this protocol."""


@dataclass(frozen=True)
class Hello(Message):
    """The first frame of the JVM."""

    protocol: int
    token: str


@dataclass(frozen=True)
class Welcome(Message):
    """The first frame of Python; `sealberg` is the version of the package."""

    protocol: int
    sealberg: str


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
        source: requests come from here.
        sink: answers go here.
        token: the other side must show it.
        answer: makes the answer to one request.
        welcomed: called once, when the other side has shown the token.
    """
    if welcome(source, sink, token):
        welcomed()
        while (request := read_frame(source)) is not None:
            write_frame(sink, answer(request))


def welcome(source: BinaryIO, sink: BinaryIO, token: str) -> bool:
    """Whether the other side may send requests. A hello without the right token gets no answer."""
    hello = _hello(read_frame(source, MOST_HELLO))
    if hello is None or not hmac.compare_digest(hello.token.encode(), token.encode()):
        return False
    if hello.protocol != PROTOCOL:
        text = f"the jar speaks protocol {hello.protocol} and sealberg {__version__} speaks {PROTOCOL}"
        refused = Failure("error", f"{text}: use the jar of the installed sealberg")
        write_frame(sink, json.dumps({"error": refused.to_json()}).encode())
        return False
    write_frame(sink, json.dumps(Welcome(PROTOCOL, __version__).to_json()).encode())
    return True


def _hello(frame: bytes | None) -> Hello | None:
    try:
        return Hello.from_json(json.loads(frame or b""))
    except (ValueError, RecursionError, ProtocolError):
        return None
