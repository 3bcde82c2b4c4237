"""The reviews whose answers a run has used: *decided* and *resumed* are different facts with different times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from signoff.infra.postgres.store import PostgresTransaction


@dataclass(slots=True)
class Answered:
    """Marked with the first flush after the resume, since only then the answer's use is durable."""

    thread_id: str
    interrupt_ids: Sequence[str] = ()

    async def mark(self, tx: PostgresTransaction) -> None:
        if self.interrupt_ids:
            await tx.reviews.mark_resumed(self.interrupt_ids, self.thread_id)

    def committed(self) -> None:
        self.interrupt_ids = ()
