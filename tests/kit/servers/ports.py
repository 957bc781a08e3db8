"""A port for a server that has to be told its port.

The kernel gives ports of its ephemeral range (32768 and up) to every socket that asks for none: between our choice
and the server's start, a Spark of another test could get the same. So the choice is made below that range.
"""

from __future__ import annotations

import random
import socket
from typing import Final

BELOW_EPHEMERAL: Final = range(15_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens, and which the kernel gives to nobody by itself."""
    while True:
        port = random.choice(BELOW_EPHEMERAL)  # not in turn: two test processes must not try the same ones
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
