"""Subscriptions, their secrets, and how far each has come with the events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from signoff.domain.errors import SubscriptionExists, SubscriptionNotFound
from signoff.domain.subscriptions import EventFilter, NewSubscription, SubscriptionKind, parse_filter

OURSELVES = "signoff"
COLUMNS = """id, name, kind, target, event_types, filter, template, allow_private, disabled_at IS NOT NULL AS disabled,
    cursor_tx::text AS cursor_tx, cursor_position"""

# From now on: nothing that a running transaction will still commit is missed, and nothing that has ended is sent.
NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS tx"

INSERT = """
INSERT INTO signoff.subscriptions (id, name, kind, target, event_types, filter, template, allow_private, created_by,
    cursor_tx, cursor_position)
VALUES (%(id)s, %(name)s, %(kind)s, %(target)s, %(event_types)s, %(filter)s, %(template)s, %(allow_private)s, %(by)s,
    %(tx)s::xid8, %(position)s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""

# Those with something to look at: one statement a round while there is nothing.
BEHIND = """
SELECT n.id FROM signoff.subscriptions n
WHERE n.disabled_at IS NULL AND EXISTS (
    SELECT FROM signoff.events e
    WHERE e.tx < pg_snapshot_xmin(pg_current_snapshot()) AND (e.tx, e.position) > (n.cursor_tx, n.cursor_position))
"""

END_SECRETS = """
UPDATE signoff.subscription_secrets SET ends_at = least(ends_at, clock_timestamp() + %s) WHERE subscription_id = %s
"""

# A person may put their name under what we have disabled: then somebody knows of it.
DISABLE = """
UPDATE signoff.subscriptions SET disabled_at = coalesce(disabled_at, clock_timestamp()), disabled_by = %(by)s,
    disabled_reason = %(reason)s
WHERE id = %(id)s AND (disabled_at IS NULL OR disabled_by = %(ours)s AND %(by)s <> %(ours)s) RETURNING id
"""
ENABLE = """
UPDATE signoff.subscriptions SET disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL
WHERE id = %s AND disabled_at IS NOT NULL RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as it is, without its secrets."""

    id: UUID
    name: str
    kind: SubscriptionKind
    target: str
    event_types: Sequence[str]
    filter: EventFilter
    template: str | None
    allow_private: bool
    disabled: bool
    cursor: tuple[int, int]


class SubscriptionTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def create(self, id_: UUID, new: NewSubscription, by: str, cursor: tuple[int, int] | None) -> None:
        """`cursor` None is from now on. Raises SubscriptionExists."""
        tx, position = cursor or (await self._now(), 0)
        row = await self._one(
            INSERT,
            {
                "id": id_,
                "name": new.name,
                "kind": new.kind,
                "target": new.target,
                "event_types": list(new.event_types),
                "filter": Jsonb(new.filter.view()),
                "template": new.template,
                "allow_private": new.allow_private,
                "by": by,
                "tx": str(tx),
                "position": position,
            },
        )
        if row is None:
            raise SubscriptionExists(f"there is a subscription {new.name!r} already")

    async def find(self, reference: str) -> Subscription:
        """By name, or by id. Raises SubscriptionNotFound."""
        row = await self._one(
            f"SELECT {COLUMNS} FROM signoff.subscriptions WHERE name = %(ref)s OR id::text = %(ref)s"
            " ORDER BY name = %(ref)s DESC LIMIT 1",
            {"ref": reference},
        )
        if row is None:
            raise SubscriptionNotFound(f"there is no subscription {reference!r}")
        return subscription_of(row)

    async def behind(self) -> Sequence[UUID]:
        """Those that are not disabled, and have not looked at every event yet."""
        rows = await (await self._conn.execute(BEHIND)).fetchall()
        return [row["id"] for row in rows]

    async def hold(self, id_: UUID) -> Subscription | None:
        """Locks it to the end of the transaction; None if another holds it, or it is disabled."""
        row = await self._one(
            f"SELECT {COLUMNS} FROM signoff.subscriptions WHERE id = %s AND disabled_at IS NULL"
            " FOR NO KEY UPDATE SKIP LOCKED",
            (id_,),
        )
        return None if row is None else subscription_of(row)

    async def move_cursor(self, id_: UUID, cursor: tuple[int, int]) -> None:
        await self._conn.execute(
            "UPDATE signoff.subscriptions SET cursor_tx = %s::xid8, cursor_position = %s WHERE id = %s",
            (str(cursor[0]), cursor[1], id_),
        )

    async def add_secret(self, id_: UUID, secret: str, overlap: timedelta = timedelta()) -> None:
        """Signs from now on; those before it sign too until `overlap` has passed."""
        await self._conn.execute(END_SECRETS, (overlap, id_))
        await self._conn.execute(
            "INSERT INTO signoff.subscription_secrets (subscription_id, secret) VALUES (%s, %s)", (id_, secret)
        )

    async def disable(self, id_: UUID, by: str, reason: str) -> bool:
        """False if it is disabled already."""
        parameters = {"id": id_, "by": by, "reason": reason, "ours": OURSELVES}
        return await self._one(DISABLE, parameters) is not None

    async def enable(self, id_: UUID) -> bool:
        """False if it is not disabled."""
        return await self._one(ENABLE, (id_,)) is not None

    async def _now(self) -> int:
        row = await self._one(NOW)
        assert row is not None
        return int(row["tx"])

    async def _one(self, sql: str, parameters: Any = ()) -> DictRow | None:
        return await (await self._conn.execute(sql, parameters)).fetchone()


def subscription_of(row: DictRow) -> Subscription:
    return Subscription(
        id=row["id"],
        name=row["name"],
        kind=SubscriptionKind(row["kind"]),
        target=row["target"],
        event_types=row["event_types"],
        filter=parse_filter(row["filter"]),
        template=row["template"],
        allow_private=row["allow_private"],
        disabled=row["disabled"],
        cursor=(int(row["cursor_tx"]), row["cursor_position"]),
    )
