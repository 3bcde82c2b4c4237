"""The stream `signoff:events`, and the marker that tells whether it still holds what was sent.

The marker is a hash: `state` is `ready` or `pending:<token>`, `server` the run of the server that it was set under,
`published` when the newest events in the stream were sent. A server that lost everything has no marker; one that came
back (it may have lost its last seconds), or another one that took over, has another run. Either way nothing is
appended until Postgres has been told what to send again and the marker is `ready` anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from redis.asyncio import Redis

from signoff.domain.events import Event, to_cloudevent
from signoff.infra.redis.connection import broker_errors

STREAM = "signoff:events"
# The braces put it into the stream's hash slot.
MARKER = "{signoff:events}:marker"
FIELD = "event"
# A bound for memory alone: whoever is further behind reads GET /v1/events.
MOST_ENTRIES = 500_000

RUN = """
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
"""

# Appends all or, if the marker does not hold, nothing.
APPEND = (
    RUN
    + """
local marker = redis.call('HMGET', KEYS[2], 'state', 'server', 'published')
if not marker[1] or (marker[3] and redis.call('EXISTS', KEYS[1]) == 0) then return {'lost'} end
if marker[1] ~= 'ready' or marker[2] ~= run then return {marker[3] and 'behind' or 'lost', marker[3]} end
if #ARGV < 4 then return {'appended'} end
for i = 4, #ARGV do redis.call('XADD', KEYS[1], '*', 'event', ARGV[i]) end
redis.call('HSET', KEYS[2], 'published', ARGV[1])
local now = redis.call('TIME')
redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', (now[1] - ARGV[2]) * 1000))
redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[3])
return {'appended'}
"""
)

SUSPEND = (
    RUN
    + """
if ARGV[2] == 'lost' then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', ARGV[1], 'server', run)
"""
)

RELEASE = (
    RUN
    + """
local marker = redis.call('HMGET', KEYS[1], 'state', 'server')
if marker[1] ~= ARGV[1] or marker[2] ~= run then return 0 end
redis.call('HSET', KEYS[1], 'state', 'ready')
return 1
"""
)


@dataclass(frozen=True, slots=True)
class Gap:
    """What the stream may have lost: all that was sent after `since`, or everything."""

    since: datetime | None


class EventStream:
    """Raises BrokerUnavailable wherever Redis is away."""

    def __init__(self, client: Redis, retention: timedelta) -> None:
        self._retention = retention
        self._append = client.register_script(APPEND)
        self._suspend = client.register_script(SUSPEND)
        self._release = client.register_script(RELEASE)

    async def append(self, events: Sequence[Event], at: datetime) -> Gap | None:
        """Appends all of them; or none, and says what has to be sent again. Asks for that also without events."""
        limits = [int(self._retention.total_seconds()) + 1, MOST_ENTRIES]
        texts = [json.dumps(to_cloudevent(event), ensure_ascii=False) for event in events]
        with broker_errors():
            answer = await self._append(keys=[STREAM, MARKER], args=[at.isoformat(), *limits, *texts])
        if answer[0] == b"appended":
            return None
        return Gap(datetime.fromisoformat(answer[1].decode()) if answer[0] == b"behind" else None)

    async def suspend(self, gap: Gap) -> str:
        """Lets nobody append until the returned token is released, or somebody else has filled the gap."""
        token = f"pending:{uuid4()}"
        with broker_errors():
            await self._suspend(keys=[MARKER], args=[token, "lost" if gap.since is None else "behind"])
        return token

    async def release(self, token: str) -> bool:
        """Lets events be appended. False if Redis was emptied or restarted since, or another publisher is at it."""
        with broker_errors():
            return bool(await self._release(keys=[MARKER], args=[token]))
