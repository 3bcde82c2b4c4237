"""Whether the HTTP port can be had: asked before anything is started, for an answer that says what to do."""

from __future__ import annotations

import socket

from signoff.domain.errors import AddressUnavailable


def require_free(host: str, port: int) -> None:
    """Raises AddressUnavailable if nothing can listen there now."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does, so that connections of the past don't count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise AddressUnavailable(
            f"can't listen on {host}:{port} ({error.strerror or error}); name another with --port or SIGNOFF_HTTP_PORT"
        ) from None


def free_port(host: str) -> int:
    """A port that was free a moment ago."""
    with socket.create_server((host, 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
