"""The door by which the JVM reaches the Python driver: a Unix domain socket that nobody else can open.

    /tmp/sealberg-k3j2/          mode 0700, removed at exit
    /tmp/sealberg-k3j2/python    the socket <── JVM      peer's uid checked, then the token, then requests

Nothing listens on a port. Each connection has one thread, and there are at most MOST_CONNECTIONS of them: further ones
wait to be accepted. The JVM keeps its connections and lends them to Spark's threads, so neither side grows with the
number of queries. A forked child closes its copies of all sockets, so that the JVM notices when this process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import secrets
import shutil
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Final

from sealberg.spark.driver.dispatcher import Dispatcher
from sealberg.spark.private_folder import private_folder
from sealberg.spark.protocol.frames import FrameError, serve

MOST_CONNECTIONS: Final = 32  # the JVM opens 16; the others are for those that it gave up while Python was busy
HELLO_SECONDS: Final = 30
_log = logging.getLogger(__name__)


class BridgeServer:
    """A socket that serves the catalogs of a dispatcher to the JVM of the same user."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.token: Final = secrets.token_hex(32)
        self._folder = private_folder("python")
        self.path: Final = str(self._folder / "python")
        self._slots = threading.Semaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(MOST_CONNECTIONS)
        self._closed = False
        threading.Thread(target=self._accept, name="sealberg-bridge", daemon=True).start()

    def close(self) -> None:
        """Ends all connections and removes the socket."""
        self._closed = True
        _shut(self._listener)
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)
        shutil.rmtree(self._folder, ignore_errors=True)

    def abandon(self) -> None:
        """In a forked child: close this process's copies of the sockets. The parent goes on serving them."""
        self._closed = True
        for opened in (self._listener, *self._connections):  # no lock: a thread that the child lacks may hold it
            descriptor = opened.detach()  # `close` would wait for the files that were made of the socket
            if descriptor >= 0:
                os.close(descriptor)

    def _accept(self) -> None:
        while not self._closed:
            self._slots.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                self._slots.release()
                if not self._closed:
                    _log.warning("a connection of the JVM could not be accepted: %s", error)
                    time.sleep(0.1)  # too many open files, for instance
                continue
            with self._lock:
                self._connections.add(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), name="sealberg-bridge", daemon=True).start()
            except RuntimeError:  # the interpreter is about to end, or there are too many threads
                self._end(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            peer = peer_uid(connection)
            if peer == os.geteuid():
                self._converse(connection)
            else:
                _log.warning("refused a connection of uid %s: this process runs as %s", peer, os.geteuid())
        except (OSError, FrameError, ValueError) as error:
            if not self._closed:
                _log.debug("a connection of the JVM ended: %s", error)
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        connection.close()
        with self._lock:
            self._connections.discard(connection)
        self._slots.release()

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(HELLO_SECONDS)
        with connection.makefile("rb") as source, connection.makefile("wb") as sink:
            serve(source, sink, self.token, self.dispatcher.answer, lambda: connection.settimeout(None))


def peer_uid(connection: socket.socket) -> int:
    """The user on the other side of a connected Unix domain socket, as the kernel knows it."""
    if sys.platform == "linux":
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)
    found, group = ctypes.c_uint32(), ctypes.c_uint32()
    system = ctypes.CDLL(None, use_errno=True)
    if system.getpeereid(connection.fileno(), ctypes.byref(found), ctypes.byref(group)):
        raise OSError(ctypes.get_errno(), "the user on the other side of a socket could not be found out")
    return found.value


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits on it
    opened.close()


# -- one for this process -------------------------------------------------------------------------

_lock = threading.Lock()
_server: BridgeServer | None = None


def bridge_server() -> BridgeServer:
    """The server of this process, started when it is first asked for."""
    global _server  # noqa: PLW0603
    with _lock:
        if _server is None:
            _server = BridgeServer(Dispatcher())
        return _server


def _forked() -> None:
    global _lock, _server  # noqa: PLW0603
    _lock = threading.Lock()
    if _server is not None:
        _server.abandon()
        _server = None


def _exit() -> None:
    if _server is not None:
        _server.close()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
