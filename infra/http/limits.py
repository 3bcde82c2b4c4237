"""A limit on request bodies, whatever their headers say."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.infra.http.problems import CODES, problem


class BodyLimit:
    """Answers 413 as problem+json. (Starlette's own limit answers in plain text.)"""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._announces_too_much(scope):
            await problem(413, CODES[413], self._detail)(scope, receive, send)
        else:
            await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413, self._detail)
            return message

        return counted

    def _announces_too_much(self, scope: Scope) -> bool:
        announced = Headers(scope=scope).get("content-length", "")
        return announced.isascii() and announced.isdigit() and int(announced[:20]) > self._most

    @property
    def _detail(self) -> str:
        return f"a body may have {self._most} bytes"
