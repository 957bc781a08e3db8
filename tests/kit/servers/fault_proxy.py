"""A proxy in front of a real server that fails on demand and counts requests.

    with fault_proxy(server.address) as proxy:
        with proxy.failing(503, times=2):   # the next two requests; all of them without `times`
            ...
        assert proxy.requests == 3

A fault is an HTTP status, "hang" (no answer until the fault is over) or "drop" (the connection is cut).

    with proxy.answering(change): ...   `change` may replace each response of the server
    with proxy.before(look): ...        `look` sees each request first, and may return a fault for it
"""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Fault = int | str
OWN = {"connection", "content-length", "date", "server", "transfer-encoding"}  # headers of one hop


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


class FaultProxy:
    """The address for clients, and the faults that they meet."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.address = ""
        self.paths: list[str] = []
        self.headers: dict[str, str] = {}  # added to every answer made here
        self.seen: list[Request] = []
        self.look: Callable[[Request], Fault | None] = self.seen.append
        self.change: Callable[[Request, int, bytes], tuple[int, bytes] | None] | None = None
        self._fault: Fault | None = None
        self._left: int | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()

    @property
    def requests(self) -> int:
        return len(self.paths)

    @contextmanager
    def failing(self, fault: Fault, *, times: int | None = None) -> Iterator[None]:
        with self._lock:
            self._fault, self._left = fault, times
            self._over.clear()
        try:
            yield
        finally:
            with self._lock:
                self._fault = None
            self._over.set()

    @contextmanager
    def answering(self, change: Callable[[Request, int, bytes], tuple[int, bytes] | None]) -> Iterator[None]:
        """`change` maps each request, status and body to another status and body; None cuts the connection."""
        self.change = change
        try:
            yield
        finally:
            self.change = None

    @contextmanager
    def before(self, look: Callable[[Request], Fault | None]) -> Iterator[None]:
        self.look = look
        try:
            yield
        finally:
            self.look = self.seen.append

    def next_fault(self, path: str) -> Fault | None:
        with self._lock:
            self.paths.append(path)
            if self._left is None:
                return self._fault
            self._left -= 1
            return self._fault if self._left >= 0 else None

    def hang(self) -> None:
        self._over.wait(30)


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, body, dict(self.headers))
            fault = proxy.next_fault(f"{self.command} {self.path}") or proxy.look(request)
            if fault is None:
                self.forward(request)
                return
            self.close_connection = True
            if fault == "hang":
                proxy.hang()
            elif isinstance(fault, int):
                # A client that is not told may send its next request on a connection that is being closed.
                told = {"Content-Type": "application/json", "Connection": "close", **proxy.headers}
                self.answer(fault, told, b'{"errors":["injected"]}')

        do_POST = do_PUT = do_DELETE = do_LIST = do_HEAD = do_GET

        def forward(self, request: Request) -> None:
            server = http.client.HTTPConnection(proxy.upstream, timeout=60)
            try:
                server.request(
                    self.command, self.path, request.body, {**request.headers, "Accept-Encoding": "identity"}
                )
                answer = server.getresponse()
                kept = {name: value for name, value in answer.getheaders() if name.lower() not in OWN}
                status, body = answer.status, answer.read()
                told = (status, body) if proxy.change is None else proxy.change(request, status, body)
                if told is None:
                    self.close_connection = True
                else:
                    self.answer(told[0], kept, told[1])
            finally:
                server.close()

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass  # clients that ran out of patience are gone, and that was the point

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join(60)
