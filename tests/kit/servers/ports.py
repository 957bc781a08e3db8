"""A free port for a server that cannot choose one itself.

The kernel assigns ports of its ephemeral range (32768 and up) to sockets that ask for any port. Between our choice and
the server's start, a Spark of another test could get the same port, so the port is chosen below that range.

Another test could choose the same port as well, in another worker, another run or by another user. So the port is
reserved for this process until it ends, by a name among the abstract Unix sockets: they belong to the same network as
the ports, all users share them, and they leave no file behind.
"""

from __future__ import annotations

import random
import socket
from typing import Final

BELOW_EPHEMERAL: Final = range(15_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens, outside the kernel's ephemeral range; no other test gets it."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)  # not in turn: so two processes seldom try the same
        if not _reserve(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _reserve(port: int) -> bool:
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0sealberg-tests-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()  # open until the process ends
    return True
