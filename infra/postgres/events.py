"""The outbox: events are written in the transaction that they tell of, and sent by the dispatcher."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.events import Event, NewEvent

# The job's own number is taken from its row, whose lock also puts the events of one job in order.
APPEND = """
WITH job AS (
    UPDATE signoff.jobs SET event_sequence = event_sequence + 1 WHERE id = %(job_id)s RETURNING event_sequence)
INSERT INTO signoff.events (id, job_id, sequence, type, subject, actor, data)
SELECT %(id)s, %(job_id)s, numbered.sequence, %(type)s, %(subject)s, %(actor)s, %(data)s::json
-- OFFSET 0 keeps it apart: the job's row is waited for before a position is taken, so both grow alike.
FROM (SELECT coalesce((SELECT event_sequence FROM job), 0) AS sequence OFFSET 0) AS numbered
"""

# For a statement that moves a job and tells of it in one: `told` is that job's row, its event_sequence raised.
TELL = """
INSERT INTO signoff.events (id, job_id, sequence, type, subject, actor, data)
SELECT %(event_id)s, told.id, told.event_sequence, %(event_type)s, %(event_subject)s, %(event_actor)s,
    %(event_data)s::json
FROM told WHERE %(event_type)s::text IS NOT NULL
"""

# Only what no running transaction can still precede: positions are given before the commit.
AFTER = """
SELECT id, type, subject, actor, data, job_id, sequence, at, tx::text || '-' || position AS cursor
FROM signoff.events
WHERE tx < pg_snapshot_xmin(pg_current_snapshot()) AND (tx, position) > (%(tx)s::xid8, %(position)s)
ORDER BY tx, position LIMIT %(limit)s
"""


def event_parameters(event: NewEvent | None) -> dict[str, Any]:
    """The parameters of TELL; without an event it inserts nothing."""
    if event is None:
        return {f"event_{name}": None for name in ("id", "type", "subject", "actor", "data")}
    return {
        "event_id": uuid4(),
        "event_type": event.type,
        "event_subject": event.subject,
        "event_actor": event.actor,
        "event_data": json.dumps(event.data, ensure_ascii=False),
    }


class EventTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def append(self, *events: NewEvent) -> None:
        for event in events:
            await self._conn.execute(
                APPEND,
                {
                    "id": uuid4(),
                    "job_id": event.job_id,
                    "type": event.type,
                    "subject": event.subject,
                    "actor": event.actor,
                    "data": json.dumps(event.data, ensure_ascii=False),
                },
            )

    async def after(self, tx: int, position: int, limit: int) -> Sequence[Event]:
        """Events in an order that later commits can't change, from behind a cursor."""
        cursor = await self._conn.execute(AFTER, {"tx": str(tx), "position": position, "limit": limit})
        return [Event(**row) for row in await cursor.fetchall()]
