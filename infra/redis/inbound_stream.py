"""One inbound stream, read as a member of the consumer group `signoff`.

An entry that was handed out and not acknowledged stays with its consumer until somebody claims it. `times_delivered`
counts how often an entry was handed out without an answer; giving one back takes its count back too, so that a database
that was away for an hour does not make poison of what waited for it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from signoff.infra.redis.connection import broker_errors

GROUP = "signoff"
# A consumer that has not answered for an entry in this time is taken for dead.
ABANDONED_MS = 30_000
MOST_PAGES = 1_000

Fields = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    id: str
    fields: Fields
    times_delivered: int


class InboundStream:
    """Raises BrokerUnavailable wherever Redis is away."""

    def __init__(self, client: Redis, name: str) -> None:
        self.name = name
        self._client = client
        self._consumer = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    async def read(self, count: int) -> list[Entry]:
        """New entries, without waiting for any."""
        with broker_errors():
            answer = await self._in_group(
                lambda: self._client.xreadgroup(GROUP, self._consumer, {self.name: ">"}, count=count)
            )
        return [Entry(_text(id_), fields, 1) for _, entries in answer or () for id_, fields in entries]

    async def reclaim(self) -> Entry | None:
        """One entry that its consumer has abandoned. One at a time: what kills its consumer takes no other with it."""
        start: bytes = b"0-0"
        with broker_errors():
            for _ in range(MOST_PAGES):
                start, found = await self._abandoned_from(start)
                if found:
                    return await self._counted(*found[0])
                if start == b"0-0":
                    break
        return None

    async def done(self, entry: Entry) -> None:
        """Acknowledges and removes the entry: whatever came of it is in Postgres."""
        with broker_errors():
            async with self._client.pipeline(transaction=True) as both:
                both.xack(self.name, GROUP, entry.id)
                both.xdel(self.name, entry.id)
                await both.execute()

    async def give_back(self, entries: Sequence[Entry]) -> None:
        """Lets anybody reclaim the entries at once, as if they had not been handed out this time."""
        with broker_errors():
            for entry in entries:
                await self._client.xclaim(
                    self.name,
                    GROUP,
                    self._consumer,
                    0,
                    [entry.id],
                    idle=ABANDONED_MS,
                    retrycount=entry.times_delivered - 1,
                    justid=True,
                )

    async def leave(self) -> None:
        """Removes the consumer, unless entries are still with it: those would be lost with it."""
        with suppress(RedisError, OSError):
            mine = await self._client.xpending_range(
                self.name, GROUP, min="-", max="+", count=1, consumername=self._consumer
            )
            if not mine:
                await self._client.xgroup_delconsumer(self.name, GROUP, self._consumer)

    async def _abandoned_from(self, start: bytes) -> tuple[bytes, list[tuple[bytes, Fields]]]:
        """(where to look on, what was claimed): one call looks at a few pending entries only."""
        answer = await self._in_group(
            lambda: self._client.xautoclaim(
                self.name, GROUP, self._consumer, ABANDONED_MS, start_id=start.decode(), count=1
            )
        )
        return (answer[0], answer[1]) if answer else (b"0-0", [])

    async def _counted(self, entry_id: bytes, fields: Fields) -> Entry | None:
        pending = await self._client.xpending_range(self.name, GROUP, min=entry_id, max=entry_id, count=1)
        return Entry(_text(entry_id), fields, int(pending[0]["times_delivered"])) if pending else None

    async def _in_group(self, command: Callable[[], Awaitable[Any]]) -> Any:
        """The command's answer; None if there was no group, which there is now: from the stream's first entry on."""
        try:
            return await command()
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
        await self._create_group()
        return None

    async def _create_group(self) -> None:
        try:
            await self._client.xgroup_create(self.name, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def _text(entry_id: bytes) -> str:
    return entry_id.decode("ascii")
