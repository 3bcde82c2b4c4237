"""Events that wait to be sent, and how long those that were sent are kept.

What is unsent is found by `published_at IS NULL` and never by "behind the last one": positions are given before the
commit, so an event may appear behind one that was sent long ago.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.events import Event

PUBLISHER_LOCK = 7_316_428_590_112

# Held to the end of the transaction: with SKIP LOCKED alone a second publisher would send a job's later events while
# the first still holds the earlier ones.
HOLD = "SELECT pg_try_advisory_xact_lock(%s) AS held, clock_timestamp() AS now"

# Bounded by bytes too: one event may hold a whole review.
UNSENT = """
SELECT id, type, subject, actor, data, job_id, sequence, at, tx::text || '-' || position AS cursor, position
FROM (
    SELECT *, sum(octet_length(data::text)) OVER (ORDER BY position) - octet_length(data::text) AS bytes_before
    FROM (SELECT * FROM signoff.events WHERE published_at IS NULL ORDER BY position LIMIT %(limit)s) AS oldest
) AS sized
WHERE bytes_before < %(bytes)s ORDER BY position
"""

SEND_AGAIN = """
WITH unsent AS (
    UPDATE signoff.events SET published_at = NULL WHERE position IN (
        SELECT position FROM signoff.events WHERE position > %(behind)s AND published_at > %(since)s
        ORDER BY position LIMIT %(limit)s)
    RETURNING position)
SELECT max(position) AS last FROM unsent
"""

# An event is sent after it happened, so the condition on `at` changes nothing but lets its index be used.
FORGET = """
DELETE FROM signoff.events WHERE position IN (
    SELECT position FROM signoff.events
    WHERE at < clock_timestamp() - %(kept)s AND published_at < clock_timestamp() - %(kept)s ORDER BY at LIMIT %(limit)s)
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Unsent events in the order to send them."""

    events: Sequence[Event]
    positions: Sequence[int]


class Outbox:
    """Inside one transaction."""

    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def hold(self) -> datetime | None:
        """Makes this transaction the only publisher; the database's time, or None if another one is."""
        row = await (await self._conn.execute(HOLD, (PUBLISHER_LOCK,))).fetchone()
        assert row is not None
        now: datetime = row["now"]
        return now if row["held"] else None

    async def unsent(self, *, limit: int, most_bytes: int) -> Batch:
        cursor = await self._conn.execute(UNSENT, {"limit": limit, "bytes": most_bytes})
        rows = await cursor.fetchall()
        positions = [row.pop("position") for row in rows]
        return Batch(in_order_of_their_jobs([Event(**row) for row in rows]), positions)

    async def mark_sent(self, batch: Batch, at: datetime) -> None:
        await self._conn.execute(
            "UPDATE signoff.events SET published_at = %s WHERE position = ANY(%s)", (at, list(batch.positions))
        )

    async def send_again(self, *, since: datetime, behind: int, limit: int) -> int | None:
        """Takes back that events were sent after `since`: some of those behind a position; the last, or None."""
        parameters: dict[str, Any] = {"since": since, "behind": behind, "limit": limit}
        row = await (await self._conn.execute(SEND_AGAIN, parameters)).fetchone()
        assert row is not None
        last: int | None = row["last"]
        return last

    async def forget(self, *, kept: timedelta, limit: int) -> int:
        """Deletes events that were sent longer ago than they are kept; those that were never sent stay."""
        cursor = await self._conn.execute(FORGET, {"kept": kept, "limit": limit})
        return cursor.rowcount


def in_order_of_their_jobs(events: Sequence[Event]) -> list[Event]:
    """The same events with those of each job by their sequence: a writer takes its position, then waits for the job."""
    of_job: defaultdict[object, list[Event]] = defaultdict(list)
    for event in events:
        of_job[event.job_id].append(event)
    for job_id, own in of_job.items():
        if job_id is not None:
            own.sort(key=lambda event: event.sequence, reverse=True)
        else:
            own.reverse()
    return [of_job[event.job_id].pop() for event in events]
