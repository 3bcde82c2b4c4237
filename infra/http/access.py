"""One log line for each request: what was asked and how it ended, without bodies, queries or headers."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)
QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})


class AccessLog:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        started = time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            _log(scope, status, time.perf_counter() - started)


def _log(scope: Scope, status: int, seconds: float) -> None:
    level = logging.DEBUG if scope["path"] in QUIET_PATHS else logging.INFO
    facts = {"method": scope["method"], "path": scope["path"], "status": status, "seconds": round(seconds, 4)}
    log.log(level, "request", extra=facts)
