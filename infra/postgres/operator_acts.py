"""What operators did, by their request ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.operator_acts import OperatorAct, StoredAct

INSERT = """
INSERT INTO signoff.operator_acts (actor, request_id, act, subject, job_id, reason, digest, body, outcome)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


class OperatorActTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def known(self, actor: str, request_id: str) -> StoredAct | None:
        # The lock is taken by a statement of its own: the next one sees what its last holder has committed.
        # The audit of what is done from here on names the actor.
        await self._conn.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0)), set_config('signoff.actor', %s, true)",
            (f"signoff act {actor}\n{request_id}", actor),
        )
        cursor = await self._conn.execute(
            "SELECT digest, outcome FROM signoff.operator_acts WHERE actor = %s AND request_id = %s",
            (actor, request_id),
        )
        row = await cursor.fetchone()
        return None if row is None else StoredAct(row["digest"], row["outcome"])

    async def add(self, act: OperatorAct, digest: str, outcome: Mapping[str, Any]) -> None:
        what = (act.act, act.subject, act.job_id, act.reason, digest)
        await self._conn.execute(
            INSERT, (act.who.name, act.request_id, *what, Json(dict(act.body)), Json(dict(outcome)))
        )
