"""The process of a proxy in front of an object store: `python -m kit.servers.store_proxy_server UPSTREAM`.

It is a separate process because PyArrow holds the GIL while it waits for Google's store: a proxy in the client's
process could never respond. It reads pickled commands from standard input and writes their results to standard output;
the first result is its address. It ends when its standard input ends.
"""

from __future__ import annotations

import http.client
import pickle
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kit.servers.store_faults import (
    CutBody,
    ErrorAnswer,
    ExpiredToken,
    Fault,
    LostAnswer,
    OtherBody,
    Reset,
    ResetUpload,
    Rule,
    ShortBody,
    StoreRequest,
)

HOP: Final = {"connection", "keep-alive", "transfer-encoding", "content-length"}  # headers of one hop


class State:
    """The faults for clients, and their requests. Every method without an underscore is a command."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._own = ""
        self._requests: list[StoreRequest] = []
        self._rules: dict[int, Rule] = {}
        self._latency_s = 0.0
        self._token: str | None = None
        self._under_way = self._most = 0
        self._lock = threading.Lock()

    def since(self, number: int) -> list[StoreRequest]:
        """The requests after the first `number`."""
        with self._lock:
            return self._requests[number:]

    def requests(self) -> int:
        with self._lock:
            return len(self._requests)

    def add(self, number: int, rule: Rule) -> None:
        with self._lock:
            self._rules[number] = rule

    def remove(self, number: int) -> None:
        with self._lock:
            del self._rules[number]

    def met(self, number: int) -> int:
        with self._lock:
            return max(0, self._rules[number].met)

    def wait(self, seconds: float) -> None:
        """Delay every request by this time."""
        self._latency_s = seconds

    def most(self) -> int:
        """The largest number of concurrent requests since the last call."""
        with self._lock:
            found, self._most = self._most, self._under_way
            return found

    def need_token(self, token: str | None) -> None:
        """Let only requests with this session token of S3 pass."""
        self._token = token

    def _begin(self) -> None:
        with self._lock:
            self._under_way += 1
            self._most = max(self._most, self._under_way)

    def _end(self) -> None:
        with self._lock:
            self._under_way -= 1

    def _take(self, request: StoreRequest) -> Fault | None:
        """Count a request, and return its fault or None."""
        with self._lock:
            self._requests.append(request)
            for rule in self._rules.values():
                if rule.applies(request) and rule.left != 0:
                    rule.left = None if rule.left is None else rule.left - 1
                    rule.met += 1
                    if rule.met > 0:
                        return rule.fault
        given = {name.lower(): value for name, value in request.headers.items()}.get("x-amz-security-token")
        return ExpiredToken() if self._token is not None and given != self._token else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.upstream: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        if self.upstream is not None:
            self.upstream.close()
        super().finish()

    def handle_any(self) -> None:
        self.state._begin()
        try:
            self.handle_one()
        finally:
            self.state._end()

    def handle_one(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        fault = self.state._take(StoreRequest(self.command, parts.path, query, dict(self.headers)))
        if self.state._latency_s:
            time.sleep(self.state._latency_s)
        if isinstance(fault, ResetUpload):
            self.rfile.read(min(fault.after, int(self.headers.get("Content-Length") or fault.after)))
            self.cut()
        elif isinstance(fault, Reset):
            self.cut()
        else:
            self.exchange(self.body(), fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = handle_any

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(pieces)

    def exchange(self, body: bytes, fault: Fault | None) -> None:
        if isinstance(fault, ErrorAnswer):
            message = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>injected</Message></Error>"
            headers = [("Date", self.date_time_string()), ("x-ms-error-code", fault.code), *fault.headers]
            if self.command != "HEAD":  # Azure's client ends the process when it parses a body that is not there
                headers.append(("Content-Type", "application/xml"))
            self.answer(fault.status, headers, message.encode(), fault)
            return
        status, headers, found = self.ask(body)
        if isinstance(fault, LostAnswer):
            self.cut()
        else:
            self.answer(status, headers, found, fault)

    def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Forward the request, over a connection that is kept as long as the client's."""
        for attempt in (1, 2):
            kept = self.upstream is not None
            if self.upstream is None:
                self.upstream = http.client.HTTPConnection(self.state._upstream, timeout=60)
            try:
                self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in HOP | {"expect"}:
                        self.upstream.putheader(name, value)
                if body or self.command in {"PUT", "POST", "PATCH"}:
                    self.upstream.putheader("Content-Length", str(len(body)))
                self.upstream.endheaders(body or None)
                answer = self.upstream.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
                self.upstream.close()
                self.upstream = None
                if attempt == 2 or not kept:  # a connection that was kept may have been closed meanwhile
                    raise
        raise AssertionError

    def answer(self, status: int, headers: list[tuple[str, str]], body: bytes, fault: Fault | None) -> None:
        length = len(body)
        if self.command == "HEAD":
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        if isinstance(fault, ShortBody):
            body = body[: max(0, length - fault.lacks)]
            length = len(body)
        if isinstance(fault, OtherBody):
            body = body[: fault.start] + bytes(255 - each for each in body[fault.start :])
            headers = [(name, fault.etag if name.lower() == "etag" else value) for name, value in headers]
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP:
                # A server that says where an upload goes on says its own address.
                self.send_header(name, value.replace(self.state._upstream, self.state._own))
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(fault, CutBody) and fault.after < length:
            self.wfile.write(body[: fault.after])
            self.wfile.flush()
            self.cut()
            return
        self.wfile.write(body)

    def cut(self) -> None:
        """End the connection with a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        pass  # clients that were cut off are gone, and that was the point

    def shutdown_request(self, request: object) -> None:
        if isinstance(request, socket.socket) and request.fileno() >= 0:
            super().shutdown_request(request)


def main(upstream: str) -> None:
    state = State(upstream)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state._own = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    _tell(f"http://{state._own}")
    while True:
        try:
            verb, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _tell(getattr(state, verb)(*arguments))


def _tell(result: Any) -> None:
    pickle.dump(result, sys.stdout.buffer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
