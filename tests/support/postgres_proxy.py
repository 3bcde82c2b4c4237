"""A proxy before PostgreSQL that loses commits, or the word that they happened. On loopback, in a thread of its own.

It reads as much of the protocol as it takes to tell what a commit is: `COMMIT`, or a writing statement of its own,
through the simple and the extended form alike. Of those, by chance:

- `commit_lost`: the connection is closed before the server hears of it (R3);
- `reply_lost`: the server hears of it, answers, and the connection is closed instead of passing the answer on (R2);
- `write_lost`: the same as `commit_lost`, at a writing statement inside a transaction.

The seed decides about the first, second, … commit; which of them is whose depends on timing. Each fault is kept.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit, urlunsplit

LOOPBACK = "127.0.0.1"
WRITES = re.compile(r"\b(INSERT|DELETE|MERGE|TRUNCATE)\b|(?<!FOR )(?<!NO KEY )\bUPDATE\b", re.IGNORECASE)
COMMIT = re.compile(r"^\s*(COMMIT|END)\b", re.IGNORECASE)
_SSL, _CANCEL, _GSS = 80877103, 80877102, 80877104
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Rates:
    """How likely each fault is, of 1, at each occasion."""

    commit_lost: float = 0.0
    reply_lost: float = 0.0
    write_lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """A fault that was done: its kind, at the how-manieth occasion, and the statement's beginning."""

    kind: str
    number: int
    statement: str
    at: float


@dataclass
class _Planned:
    kind: str
    pattern: re.Pattern[str]
    skip: int


@dataclass
class _Sent:
    """What a client has sent up to a Sync (or as a simple query): the server answers it with one ReadyForQuery."""

    raw: bytearray = field(default_factory=bytearray)
    statements: list[str] = field(default_factory=list)


class PostgresProxy:
    """`with PostgresProxy(server_url, seed=…) as proxy: proxy.url`. Rates may be changed while it runs."""

    def __init__(self, server_url: str, *, seed: int, rates: Rates | None = None) -> None:
        parts = urlsplit(server_url)
        assert parts.hostname is not None
        self._server = (parts.hostname, parts.port or 5432)
        self._parts = parts
        self.rates = rates or Rates()
        self.lost: list[Lost] = []
        self.passed: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._planned: list[_Planned] = []
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._links: set[_Link] = set()

    @property
    def url(self) -> str:
        """The address of the same database through the proxy."""
        user = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{user}@{LOOPBACK}:{self._port}"))

    def counts(self) -> dict[str, int]:
        """Faults that were done, by kind."""
        return dict(Counter(one.kind for one in self.lost))

    def plan(self, kind: str, statement: str = "", *, skip: int = 0) -> None:
        """The next commit or write whose transaction, or statement, matches `statement` comes to this fault, after
        `skip` others that match."""
        self._planned.append(_Planned(kind, re.compile(statement, re.IGNORECASE | re.DOTALL), skip))

    def reseed(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def cut_all(self) -> None:
        """Closes every connection at once."""
        self._loop.call_soon_threadsafe(self._cut_links)

    def fault(self, occasion: str, statements: str) -> str | None:
        """What becomes of a `commit` or a `write`; None: it is passed on."""
        self.passed[occasion] += 1
        kind = self._planned_fault(occasion, statements) or self._chance_fault(occasion)
        if kind is not None:
            self.lost.append(Lost(kind, self.passed[occasion], statements[-300:], time.monotonic()))
        return kind

    def _planned_fault(self, occasion: str, statements: str) -> str | None:
        for planned in self._planned:
            if (planned.kind == "write_lost") != (occasion == "write") or not planned.pattern.search(statements):
                continue
            if planned.skip == 0:
                self._planned.remove(planned)
                return planned.kind
            planned.skip -= 1
        return None

    def _chance_fault(self, occasion: str) -> str | None:
        drawn, rates = self._chance.random(), self.rates
        if occasion == "write":
            return "write_lost" if drawn < rates.write_lost else None
        if drawn < rates.commit_lost:
            return "commit_lost"
        return "reply_lost" if drawn < rates.commit_lost + rates.reply_lost else None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, LOOPBACK, 0))
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    def _cut_links(self) -> None:
        for link in list(self._links):
            link.cut()

    async def _end(self) -> None:
        while self._links:
            self._cut_links()
            await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(*self._server)
        except OSError:
            writer.close()
            return
        link = _Link(self, (reader, writer), there)
        self._links.add(link)
        try:
            await link.carry()
        finally:
            self._links.discard(link)


class _Link:
    """One client's connection, and its own connection to the server."""

    def __init__(
        self,
        proxy: PostgresProxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._prepared: dict[bytes, str] = {}
        self._bound: dict[bytes, str] = {}
        self._writes: list[str] = []
        self._status = b"I"
        self._sent = 0
        self._answered = 0
        self._cut_after: int | None = None
        self._started = False

    async def carry(self) -> None:
        tasks = [asyncio.ensure_future(work) for work in (self._up(), self._down())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        for writer in (self._to_client, self._to_server):
            with suppress(OSError, RuntimeError):
                writer.transport.abort()

    # --- from the client to the server -----------------------------------------------------------------------

    async def _up(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await self._start()
            sent = _Sent()
            while True:
                kind, body, raw = await _message(self._from_client)
                sent.raw += raw
                self._note(kind, body, sent)
                if kind in b"SQ":
                    if self._is_lost(sent):
                        return
                    self._sent += 1
                if kind in b"SQHXpdcf":
                    self._to_server.write(bytes(sent.raw))
                    await self._to_server.drain()
                    sent = _Sent(statements=[] if kind in b"SQ" else sent.statements)

    async def _start(self) -> None:
        """Passes the start-up message on; refuses encryption, since it would hide what is said."""
        while True:
            length = await self._from_client.readexactly(_LENGTH)
            rest = await self._from_client.readexactly(int.from_bytes(length) - _LENGTH)
            if int.from_bytes(rest[:4]) not in (_SSL, _GSS):
                self._to_server.write(length + rest)
                return
            self._to_client.write(b"N")

    def _note(self, kind: int, body: bytes, sent: _Sent) -> None:
        if kind == ord("Q"):
            sent.statements.append(_text(body.rstrip(b"\0")))
        elif kind == ord("P"):
            name, _, rest = body.partition(b"\0")
            self._prepared[name] = _text(rest.partition(b"\0")[0])
        elif kind == ord("B"):
            portal, _, rest = body.partition(b"\0")
            self._bound[portal] = self._prepared.get(rest.partition(b"\0")[0], "")
        elif kind == ord("E"):
            sent.statements.append(self._bound.get(body.partition(b"\0")[0], ""))

    def _is_lost(self, sent: _Sent) -> bool:
        """Whether the connection ends here; a lost reply is left to `_down`."""
        text = ";\n".join(sent.statements)
        # The status as the server told it last; statements that are on their way make no difference where it matters.
        writes = bool(WRITES.search(text))
        if any(map(COMMIT.match, sent.statements)):
            occasion, whole = "commit", ";\n".join([*self._writes, text])
            wrote, self._writes = bool(self._writes) or writes, []
            if not wrote:
                return False
        elif writes:
            occasion, whole = ("commit" if self._is_alone(text) else "write"), text
            self._writes.append(text[:2000])
        else:
            self._writes = [] if text.upper().startswith(("BEGIN", "ROLLBACK")) else self._writes
            return False
        fault = self._proxy.fault(occasion, whole)
        if fault == "reply_lost":
            self._cut_after = self._sent + 1
        return fault in ("commit_lost", "write_lost")

    def _is_alone(self, text: str) -> bool:
        return self._status == b"I" and self._sent == self._answered and "BEGIN" not in text[:20].upper()

    # --- from the server to the client -----------------------------------------------------------------------

    async def _down(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                kind, body, raw = await _message(self._from_server)
                if kind == ord("Z"):
                    self._status = body[:1]
                    # The first one ends the start-up and answers nothing.
                    self._answered += 1 if self._started else 0
                    self._started = True
                if self._cut_after is not None and self._is_within(kind):
                    if kind == ord("Z"):
                        return
                    continue
                self._to_client.write(raw)
                await self._to_client.drain()

    def _is_within(self, kind: int) -> bool:
        """Whether this message belongs to the answer that is not passed on."""
        assert self._cut_after is not None
        done = self._answered - (1 if kind == ord("Z") else 0)
        return done + 1 >= self._cut_after


async def _message(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Type, body, and the whole message as it came."""
    head = await reader.readexactly(1 + _LENGTH)
    body = await reader.readexactly(int.from_bytes(head[1:]) - _LENGTH)
    return head[0], body, head + body


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
