"""A proxy in front of a Hive Metastore that drops requests or responses on demand.

with thrift_proxy(port) as proxy:
    with proxy.losing("alter_table", "answer"):      the metastore executes it, and the client gets no response
        ...
    with proxy.losing("alter_table", "request"):     the metastore does not receive it
        ...
    with proxy.losing("alter_table", "all"):         the metastore executes it, and is unreachable from then on
        ...
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class ThriftProxy:
    """The port for clients, and what is dropped."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.uri = ""
        self.lost = 0
        self._method, self._what, self._dead = b"", "", False

    @contextmanager
    def losing(self, method: str, what: str) -> Iterator[None]:
        self._method, self._what = method.encode(), what
        try:
            yield
        finally:
            self._method, self._what, self._dead = b"", "", False

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self.upstream)) as server:
            while not self._dead:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                for side in ready:
                    data = side.recv(1 << 20)
                    if not data or not self._pass(data, client, server, from_client=side is client):
                        return

    def _pass(self, data: bytes, client: socket.socket, server: socket.socket, *, from_client: bool) -> bool:
        if not from_client:
            client.sendall(data)
            return True
        if not self._method or self._method not in data:
            server.sendall(data)
            return True
        self.lost += 1
        if self._what != "request":
            server.sendall(data)
            server.recv(1 << 20)
            self._dead = self._what == "all"
        return False


@contextmanager
def thrift_proxy(upstream: int) -> Iterator[ThriftProxy]:
    proxy = ThriftProxy(upstream)
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"

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
