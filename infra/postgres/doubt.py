"""What is known about effects in doubt beside the ledger's own rows: late answers, what providers said, alarms."""

from __future__ import annotations

from uuid import uuid4

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.effects import Effect, Found, Outcome
from signoff.domain.evidence import Alarm


class DoubtTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def keep_evidence(
        self,
        effect: Effect,
        worker: str,
        outcome: Outcome,
        message: str | None,
        result: tuple[str, bytes] | None,
        *,
        settled: bool,
    ) -> None:
        """Keeps what came back after the fence was lost: append-only, never under the fence."""
        result_type, payload = result or (None, None)
        await self._conn.execute(
            "INSERT INTO signoff.evidence"
            " (operation_id, fence, attempt, worker, outcome, message, result_type, result, settled)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                *(effect.operation_id, effect.fence, effect.attempts, worker),
                *(outcome, message, result_type, payload, settled),
            ),
        )

    async def late_success(self, effect: Effect) -> tuple[int, tuple[str, bytes]] | None:
        """(attempt, result) of a success of this generation that was kept as evidence and has settled nothing yet."""
        cursor = await self._conn.execute(
            "SELECT v.attempt, v.result_type, v.result FROM signoff.evidence v"
            " JOIN signoff.attempts a ON a.operation_id = v.operation_id AND a.number = v.attempt"
            " WHERE v.operation_id = %s AND a.generation = %s AND v.outcome = 'succeeded' AND NOT v.settled"
            " ORDER BY v.position LIMIT 1",
            (effect.operation_id, effect.generation),
        )
        row = await cursor.fetchone()
        return None if row is None else (row["attempt"], (row["result_type"], row["result"]))

    async def is_unknown_beside(self, operation_id: str, attempt: int) -> bool:
        """True if of another try of this generation nobody knows what came of it."""
        cursor = await self._conn.execute(
            "SELECT FROM signoff.attempts a JOIN signoff.effects e USING (operation_id)"
            " WHERE a.operation_id = %s AND a.generation = e.generation AND a.number <> %s"
            " AND (a.outcome IS NULL OR a.outcome = 'unknown') LIMIT 1",
            (operation_id, attempt),
        )
        return await cursor.fetchone() is not None

    async def keep_finding(
        self, effect: Effect, actor: str, found: Found, reference: str | None, message: str | None
    ) -> int:
        """Keeps what a provider said of an effect; returns how often it was asked about this try by now."""
        await self._conn.execute(
            "INSERT INTO signoff.probes (operation_id, attempt, actor, finding, reference, message)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (effect.operation_id, effect.attempts, actor, found, reference, message),
        )
        cursor = await self._conn.execute(
            "SELECT count(*) AS asked FROM signoff.probes WHERE operation_id = %s AND attempt = %s",
            (effect.operation_id, effect.attempts),
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row["asked"])

    async def ask_provider(self, operation_id: str) -> None:
        """Has the provider of an effect in doubt asked about it, by any worker, beside the runs of its job."""
        await self._conn.execute(
            "UPDATE signoff.effects SET probe_at = clock_timestamp(), offered_at = NULL"
            " WHERE operation_id = %s AND status = 'in_doubt'",
            (operation_id,),
        )

    async def add_alarm(self, effect: Effect, alarm: Alarm) -> None:
        await self._conn.execute(
            "INSERT INTO signoff.alarms (id, kind, operation_id, job_id, message) VALUES (%s, %s, %s, %s, %s)",
            (uuid4(), alarm.kind, effect.operation_id, effect.job_id, alarm.message),
        )
