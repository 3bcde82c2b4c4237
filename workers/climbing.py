"""Reminders and escalations of reviews that nobody decides."""

from __future__ import annotations

from signoff.domain.laddering import climb
from signoff.infra.postgres.ladders import due_ladders
from signoff.infra.postgres.store import PostgresStore

BATCH = 200


class ClimbLadders:
    """Climbs the rungs that are due."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.connection() as conn:
            ids = await due_ladders(conn, BATCH)
        for review_id in ids:
            await climb(self._store, review_id)
        return len(ids) == BATCH
