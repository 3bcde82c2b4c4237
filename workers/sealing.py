"""Chains the audit behind those who write it."""

from __future__ import annotations

from signoff.infra.postgres.audit_sealing import seal_rows
from signoff.infra.postgres.store import PostgresStore

BATCH = 500


class SealAudit:
    """Seals the rows of the audit that were committed: about once a second, at once where there are many."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def step(self) -> bool:
        async with self._store.begin() as tx:
            return await seal_rows(tx.conn, BATCH) == BATCH
