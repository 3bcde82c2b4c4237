"""What the dispatcher does about holding back: a safety net for what was woken by nobody, and rows that are no use."""

from __future__ import annotations

from datetime import timedelta

from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.waking import wake_circuit, wake_paused
from signoff.infra.postgres.workers import forget_unseen

WORKERS_KEPT = timedelta(days=1)


class WakeHeldBack:
    """Makes due what nothing holds back any more: what was locked, or about to wait, when the pause ended."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            await wake_paused(conn)
            await wake_circuit(conn)
        return False


class ForgetOldWorkers:
    """Deletes workers that were not seen for a day."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            await forget_unseen(conn, WORKERS_KEPT)
        return False
