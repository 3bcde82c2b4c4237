"""Jobs of forks that were held at an effect of another job, which is settled by now."""

from __future__ import annotations

from signoff.domain.ports import Hints
from signoff.domain.retrying import wake_job
from signoff.infra.postgres.forks import held_for_nothing
from signoff.infra.postgres.store import PostgresStore

BATCH = 200


class WakeForks:
    """Queues them: who settles an effect has the job in hand that it belongs to, and no other."""

    def __init__(self, store: PostgresStore, hints: Hints) -> None:
        self._store = store
        self._hints = hints

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            ids = await held_for_nothing(conn, BATCH)
        for job_id in ids:
            await wake_job(self._store, self._hints, job_id)
        return len(ids) == BATCH
