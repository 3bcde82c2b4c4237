"""Taking away what effects said and what came back of them, when their tools' retention is over."""

from __future__ import annotations

from uuid import UUID

from signoff.domain import effects, jobs
from signoff.infra.postgres import retention
from signoff.infra.postgres.store import PostgresStore

ACTOR = "dispatcher"
BATCH = 200


class PurgeOldEffects:
    """Purges effects that are over, of jobs that are over. What still waits for an operator is not."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            await retention.purge_late(conn)
            due = await retention.due(conn, BATCH)
        for operation_id, job_id in due:
            await self._purge(operation_id, job_id)
        return len(due) == BATCH

    async def _purge(self, operation_id: str, job_id: UUID) -> None:
        async with self._store.begin_as(ACTOR) as tx:
            job = await tx.jobs.lock(job_id)
            if job is None or job.status not in jobs.ENDED:
                # An operator has had it go on meanwhile.
                return
            items = await retention.lock_items(tx.conn, operation_id, job_id)
            effect = await tx.effects.lock(operation_id)
            if effect is not None and effect.status in effects.ENDED and effect.purged_at is None:
                await retention.purge(tx.conn, operation_id, items)
