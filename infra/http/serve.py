"""`signoff api`: the HTTP server, until a signal asks it to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from signoff.infra.addresses import Addresses, resolve
from signoff.infra.bootstrap import open_services
from signoff.infra.http.app import make_app
from signoff.infra.settings import Settings

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Ends waits when it shuts down, and leaves after a signal by returning: what its caller has open gets closed."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again afterwards, which would end the process before it is closed.
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_server(app: FastAPI, settings: Settings, stopping: asyncio.Event) -> Server:
    config = uvicorn.Config(
        app,
        host=settings.http_host,
        port=settings.http_port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=round(settings.drain_seconds),
    )
    return Server(config, stopping)


async def serve(settings: Settings, addresses: Addresses | None = None) -> None:
    """Serves until SIGINT or SIGTERM; requests under way end first, within the drain time.

    Raises:
        SettingsInvalid, StoreUnavailable, SchemaOutdated.
    """
    stopping = asyncio.Event()
    async with open_services(settings, addresses or resolve(settings)) as services:
        await make_server(make_app(services, stopping), settings, stopping).serve()
