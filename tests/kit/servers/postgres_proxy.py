"""A proxy in front of PostgreSQL that breaks the connection at a statement.

with postgres_proxy(postgres().socket) as proxy:
    uri = f"postgresql+psycopg2://postgres@127.0.0.1:{proxy.port}/{name}"
    with proxy.breaking("COMMIT", "before"):    the server does not receive the statement
    with proxy.breaking("COMMIT", "after"):     the server executes it, and the client gets no response
    with proxy.breaking("COMMIT", "late"):      the client's connection breaks, and the server receives it a second
    later
    with proxy.breaking("COMMIT", "all"):       the server executes it, and is unreachable from then on
        ...
    assert proxy.broken == 1

Each breaks one connection, or as many as `times`.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class PostgresProxy:
    """The port for clients, and the statements at which their connections break."""

    def __init__(self, upstream: Path) -> None:
        self.upstream = upstream
        self.port = 0
        self.broken = 0
        self._statement, self._when, self._left, self._dead = b"", "", 0, False
        self._lock = threading.Lock()

    @contextmanager
    def breaking(self, statement: str, when: str, times: int = 1) -> Iterator[None]:
        self.broken = 0
        self._statement, self._when, self._left = statement.encode(), when, times
        try:
            yield
        finally:
            self._statement, self._when, self._left, self._dead = b"", "", 0, False

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.socket(socket.AF_UNIX) as server:
            if self._dead:
                return
            server.connect(str(self.upstream))
            while True:
                for side in select.select([client, server], [], [], 0.1)[0]:
                    data = side.recv(1 << 20)
                    if side is client and data and self._is_due(data):
                        self._break(data, client, server)
                        return
                    if not data:
                        return
                    (server if side is client else client).sendall(data)

    def _is_due(self, data: bytes) -> bool:
        with self._lock:
            if not self._left or self._statement not in data:
                return False
            self._left -= 1
            self.broken += 1
            return True

    def _break(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        if self._when == "late":
            client.shutdown(socket.SHUT_RDWR)
            time.sleep(1)
        if self._when != "before":
            server.sendall(data)
            server.recv(1 << 20)
        self._dead = self._when == "all"


@contextmanager
def postgres_proxy(upstream: Path) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(upstream)
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.port = listener.getsockname()[1]

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(60)
