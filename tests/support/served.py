"""The HTTP application on a real port, in a thread with a loop of its own, for clients that are not async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import uvicorn

from tests.support.api import Api, open_api

T = TypeVar("T")
SECONDS = 20


@dataclass(frozen=True)
class Served:
    """`url` without a slash at the end."""

    url: str
    api: Api
    loop: asyncio.AbstractEventLoop

    def run(self, act: Callable[[Api], Awaitable[T]]) -> T:
        """Something that happens on the server's loop."""

        async def go() -> T:
            return await act(self.api)

        return asyncio.run_coroutine_threadsafe(go(), self.loop).result(SECONDS)


@contextmanager
def served(database_url: str) -> Iterator[Served]:
    ready: Future[tuple[Served, uvicorn.Server]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(database_url, ready)))
    thread.start()
    try:
        found, server = ready.result(SECONDS)
        yield found
        server.should_exit = True
    finally:
        thread.join(SECONDS)


async def _serve(database_url: str, ready: Future[Any]) -> None:
    try:
        async with open_api(database_url) as api:
            config = uvicorn.Config(api.app, port=0, log_config=None, lifespan="off", access_log=False)
            server = uvicorn.Server(config)
            serving = asyncio.ensure_future(server.serve())
            while not server.started:
                await asyncio.wait({serving}, timeout=0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            ready.set_result((Served(f"http://127.0.0.1:{port}", api, asyncio.get_running_loop()), server))
            await serving
    except BaseException as error:
        if not ready.done():
            ready.set_exception(error)
        raise
