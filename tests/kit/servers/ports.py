"""A free port for a server that cannot choose one itself.

The kernel assigns ports of its ephemeral range (32768 and up) to sockets that ask for any port. Between our choice and
the server's start, a Spark of another test could get the same port, so the port is chosen below that range.
"""

from __future__ import annotations

import random
import socket
from typing import Final

BELOW_EPHEMERAL: Final = range(15_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens, outside the kernel's ephemeral range."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)  # not in turn: two test processes must not try the same ones
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
