"""A receiver of webhooks: a real HTTP server on loopback that keeps what it was sent, and answers as it is told."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request, as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(frozen=True)
class Answer:
    """What to answer; with `until` only once that is set, with `drop` never."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body_bytes: int = 0
    endless: bool = False
    drop: bool = False
    until: asyncio.Event | None = None


class Receiver:
    """Answers the next request by the next of `answers`, and any further one by `otherwise`."""

    def __init__(self) -> None:
        self.log: list[Received] = []
        self.answers: deque[Answer] = deque()
        self.otherwise = Answer()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def ids(self) -> list[str]:
        return [request.id for request in self.log]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            self.log.append(await _read(reader))
            await self._answer(self.answers.popleft() if self.answers else self.otherwise, writer)
        writer.close()

    async def _answer(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        if answer.until is not None:
            await answer.until.wait()
        if answer.drop:
            return
        length = 10**9 if answer.endless else answer.body_bytes
        headers = {"Content-Length": str(length), "Connection": "close", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Told so", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        while answer.endless:
            writer.write(b"x" * 10_000)
            await writer.drain()
        writer.write(b"x" * answer.body_bytes)
        await writer.drain()


@asynccontextmanager
async def open_receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(head[0].split(" ")[1], headers, body)
