"""Sendings: what is on its way to each subscription, what has arrived, and what never will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.sendings import Next, Reply, SendingStatus
from signoff.domain.subscriptions import SubscriptionKind

INSERT = """
INSERT INTO signoff.sendings (id, subscription_id, event_id, event_cursor, event_type, job_id, sequence, body, status)
VALUES (%(id)s, %(subscription_id)s, %(event_id)s, %(event_cursor)s, %(event_type)s, %(job_id)s, %(sequence)s,
    %(body)s, 'pending')
ON CONFLICT (subscription_id, event_id) DO NOTHING
"""

# By turns: who has the fewest under way goes first, so that a receiver that is slow or away holds up no other.
LOCK_DUE = """
SELECT id FROM (
    SELECT due.id, due.next_at,
        row_number() OVER (PARTITION BY n.id ORDER BY due.next_at) + coalesce(running.count, 0) AS turn
    FROM signoff.subscriptions n
    LEFT JOIN unnest(%(ids)s::uuid[], %(counts)s::integer[]) AS running (id, count) ON running.id = n.id,
    LATERAL (
        SELECT s.id, s.next_at FROM signoff.sendings s
        WHERE s.subscription_id = n.id AND s.status = 'pending' AND s.next_at <= now()
        ORDER BY s.next_at, s.sequence LIMIT %(each)s FOR UPDATE SKIP LOCKED) AS due
    WHERE n.disabled_at IS NULL) AS found
WHERE turn <= %(each)s ORDER BY turn, next_at LIMIT %(limit)s
"""

# A statement of its own, so that it sees what others committed before the rows were locked: whoever ends an earlier
# sending wakes the next one, and either waits for these locks or is seen here. One that has to wait for an earlier
# sending of its job is put off until that one is due.
CLAIM = """
WITH found AS (
    SELECT s.id, earlier.next_at AS earlier_at FROM signoff.sendings s LEFT JOIN LATERAL (
        SELECT e.next_at FROM signoff.sendings e
        WHERE e.subscription_id = s.subscription_id AND e.job_id = s.job_id AND e.sequence < s.sequence
            AND e.status = 'pending' ORDER BY e.sequence LIMIT 1) AS earlier ON true
    WHERE s.id = ANY(%(ids)s)),
put_off AS (
    UPDATE signoff.sendings s SET next_at = greatest(found.earlier_at, now() + interval '1 second')
    FROM found WHERE s.id = found.id AND found.earlier_at IS NOT NULL)
UPDATE signoff.sendings s SET next_at = clock_timestamp() + %(lease)s, attempts = s.attempts + 1, tries = s.tries + 1
FROM found, signoff.subscriptions n
WHERE s.id = found.id AND found.earlier_at IS NULL AND n.id = s.subscription_id
RETURNING s.id, s.subscription_id, s.event_id, s.job_id, s.body, s.attempts, s.tries, s.asked_at, n.name, n.kind,
    n.target, n.allow_private, clock_timestamp() AS now, ARRAY(
        SELECT x.secret FROM signoff.subscription_secrets x
        WHERE x.subscription_id = n.id AND (x.ends_at IS NULL OR x.ends_at > clock_timestamp())
        ORDER BY x.position DESC LIMIT %(secrets)s) AS secrets
"""

# Only by whoever sent it last; but that it has arrived is true whoever says so.
RECORD = """
UPDATE signoff.sendings SET status = %(status)s, next_at = clock_timestamp() + %(delay)s, last_at = clock_timestamp(),
    last_status = %(last_status)s, last_error = %(error)s, tries = tries - %(uncounted)s,
    sent_at = CASE WHEN %(status)s = 'sent' THEN clock_timestamp() ELSE sent_at END
WHERE id = %(id)s AND status = 'pending' AND (attempts = %(attempt)s OR %(status)s = 'sent') RETURNING id
"""

# Whatever its time is: a claim may be about to put it off.
WAKE_NEXT = """
UPDATE signoff.sendings SET next_at = clock_timestamp() WHERE id = (
    SELECT id FROM signoff.sendings
    WHERE subscription_id = %(subscription_id)s AND job_id = %(job_id)s AND status = 'pending'
    ORDER BY sequence LIMIT 1)
"""

ASK_AGAIN = """
UPDATE signoff.sendings SET status = 'pending', tries = 0, asked_at = clock_timestamp(), next_at = clock_timestamp()
"""

FORGET = """
DELETE FROM signoff.sendings WHERE id IN (
    SELECT id FROM signoff.sendings WHERE status = 'sent' AND sent_at < clock_timestamp() - %s
    ORDER BY sent_at LIMIT %s FOR UPDATE SKIP LOCKED)
"""

MOST_SECRETS = 8


@dataclass(frozen=True, slots=True)
class NewSending:
    id: UUID
    subscription_id: UUID
    event_id: UUID
    event_cursor: str
    event_type: str
    job_id: UUID | None
    sequence: int
    body: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A sending that is ours to send until its lease ends. Holds secrets: never log it whole."""

    id: UUID
    subscription_id: UUID
    event_id: UUID
    job_id: UUID | None
    body: str
    attempts: int
    tries: int
    asked_at: datetime
    name: str
    kind: SubscriptionKind
    target: str
    allow_private: bool
    now: datetime
    secrets: Sequence[str]


@dataclass(frozen=True, slots=True)
class Range:
    """Which of a subscription's sendings; None stands for any. Those that are pending are never among them, those that
    were discarded only where they are named."""

    sending_id: UUID | None = None
    status: SendingStatus | None = None
    since: datetime | None = None
    until: datetime | None = None


class SendingTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def add(self, new: Sequence[NewSending]) -> None:
        rows = [{name: getattr(one, name) for name in NewSending.__slots__} for one in new]
        async with self._conn.cursor() as cursor:
            await cursor.executemany(INSERT, rows)

    async def claim(self, *, each: int, limit: int, running: Mapping[UUID, int], lease: timedelta) -> Sequence[Claimed]:
        """Inside a transaction. With those `running`, at most `each` of a subscription; one at a time of a job."""
        ids, counts = list(running), list(running.values())
        parameters: dict[str, Any] = {"each": each, "limit": limit, "ids": ids, "counts": counts}
        due = await (await self._conn.execute(LOCK_DUE, parameters)).fetchall()
        if not due:
            return []
        parameters = {"ids": [row["id"] for row in due], "lease": lease, "secrets": MOST_SECRETS}
        rows = await (await self._conn.execute(CLAIM, parameters)).fetchall()
        return [Claimed(**{**row, "kind": SubscriptionKind(row["kind"])}) for row in rows]

    async def record(self, sending: Claimed, reply: Reply, then: Next) -> bool:
        """What came of the attempt; the next of its job may go if it ended. False if another has sent it since."""
        cursor = await self._conn.execute(
            RECORD,
            {
                "id": sending.id,
                "attempt": sending.attempts,
                "status": then.to,
                "delay": then.delay,
                "uncounted": 0 if then.counts else 1,
                "last_status": reply.status,
                "error": reply.error,
            },
        )
        if await cursor.fetchone() is None:
            return False
        if then.to is not SendingStatus.pending and sending.job_id is not None:
            await self._conn.execute(WAKE_NEXT, {"subscription_id": sending.subscription_id, "job_id": sending.job_id})
        return True

    async def ask_again(self, subscription_id: UUID, wanted: Range) -> int:
        """Makes those that have ended pending once more; the same events, with the same ids. How many."""
        where, parameters = _ended(subscription_id, wanted)
        return (await self._conn.execute(ASK_AGAIN + where, parameters)).rowcount

    async def count(self, subscription_id: UUID, wanted: Range) -> int:
        """How many `ask_again` would take."""
        where, parameters = _ended(subscription_id, wanted)
        cursor = await self._conn.execute("SELECT count(*) AS count FROM signoff.sendings" + where, parameters)
        row = await cursor.fetchone()
        assert row is not None
        return int(row["count"])

    async def exists(self, subscription_id: UUID, sending_id: UUID) -> bool:
        cursor = await self._conn.execute(
            "SELECT 1 AS one FROM signoff.sendings WHERE subscription_id = %s AND id = %s",
            (subscription_id, sending_id),
        )
        return await cursor.fetchone() is not None

    async def hurry(self, subscription_id: UUID) -> None:
        """Gives all that are pending their whole schedule anew, from now."""
        await self._conn.execute(ASK_AGAIN + " WHERE subscription_id = %s AND status = 'pending'", (subscription_id,))

    async def forget(self, *, kept: timedelta, limit: int) -> int:
        """Deletes some of those that were sent longer ago than they are kept; dead ones stay."""
        return (await self._conn.execute(FORGET, (kept, limit))).rowcount


def _ended(subscription_id: UUID, wanted: Range) -> tuple[str, dict[str, Any]]:
    conditions = ["subscription_id = %(subscription_id)s", "status <> 'pending'"]
    parameters: dict[str, Any] = {"subscription_id": subscription_id}
    if wanted.sending_id is None and wanted.status is None:
        conditions.append("status <> 'discarded'")
    for name, condition in {
        "sending_id": "id = %(sending_id)s",
        "status": "status = %(status)s",
        "since": "created_at >= %(since)s",
        "until": "created_at < %(until)s",
    }.items():
        value = getattr(wanted, name)
        if value is not None:
            conditions.append(condition)
            parameters[name] = value
    return " WHERE " + " AND ".join(conditions), parameters
