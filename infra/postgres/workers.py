"""Workers: each process says every few seconds that it is there, and is told in the same breath to drain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

# What is not seen for so long is gone. A worker says much more often that it is there.
SEEN_SECONDS = 60

ANNOUNCE = """
INSERT INTO signoff.workers AS w (name, agents, version, clock_offset_seconds)
VALUES (%(name)s, %(agents)s, %(version)s, %(clock)s - extract(epoch FROM clock_timestamp()))
ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp(), stopped_at = NULL,
    clock_offset_seconds = excluded.clock_offset_seconds,
    drained_at = CASE WHEN %(drained)s THEN coalesce(w.drained_at, clock_timestamp()) END
RETURNING drain_requested_at IS NOT NULL AS drains
"""
STOP = "UPDATE signoff.workers SET stopped_at = clock_timestamp() WHERE name = %s"
FORGET = """
DELETE FROM signoff.workers WHERE name IN (
    SELECT name FROM signoff.workers WHERE seen_at < clock_timestamp() - %s LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""
ASK = f"""
WITH asked AS (
    UPDATE signoff.workers SET drain_requested_at = coalesce(drain_requested_at, clock_timestamp()),
        drain_requested_by = coalesce(drain_requested_by, %(by)s)
    WHERE stopped_at IS NULL AND (name = %(name)s OR (%(name)s::text IS NULL
        AND (%(agent)s::text IS NULL OR %(agent)s = ANY (agents))
        AND seen_at > clock_timestamp() - interval '{SEEN_SECONDS} seconds'))
    RETURNING name)
SELECT name FROM asked ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class Presence:
    """What a worker process says of itself."""

    name: str
    agents: Sequence[str]
    version: str


async def announce(conn: AsyncConnection[DictRow], presence: Presence, *, drained: bool) -> bool:
    """Says that the worker is there, and whether it has drained; True if it is asked to."""
    parameters: dict[str, Any] = {
        "name": presence.name,
        "agents": list(presence.agents),
        "version": presence.version,
        "clock": time.time(),
        "drained": drained,
    }
    row = await (await conn.execute(ANNOUNCE, parameters)).fetchone()
    return row is not None and bool(row["drains"])


async def say_stopped(conn: AsyncConnection[DictRow], name: str) -> None:
    await conn.execute(STOP, (name,))


async def forget_unseen(conn: AsyncConnection[DictRow], kept: timedelta) -> int:
    """Deletes workers that were not seen for so long. Returns how many."""
    return (await conn.execute(FORGET, (kept,))).rowcount


class WorkerTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def ask_to_drain(self, name: str | None, agent: str | None, by: str) -> Sequence[str]:
        """Asks the worker of this name, those that serve this agent, or all that are there. Returns their names."""
        cursor = await self._conn.execute(ASK, {"name": name, "agent": agent, "by": by})
        return [row["name"] for row in await cursor.fetchall()]
