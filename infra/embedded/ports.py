"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket

from signoff.domain.errors import EmbeddedServerFailed

LOOPBACK = "127.0.0.1"
# Below the ports that the kernel hands to outgoing connections: one of those could take the port during a restart,
# and a client that retries while the server is away could even connect to itself.
_FIRST, _LAST = 15_000, 29_999
_TRIES = 50


def free_port() -> int:
    """A port that was free a moment ago; the server's own bind is what decides."""
    for _ in range(_TRIES):
        port = random.randint(_FIRST, _LAST)
        if is_free(port):
            return port
    raise EmbeddedServerFailed(f"no free port found on {LOOPBACK} between {_FIRST} and {_LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do, so that connections of the past don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
