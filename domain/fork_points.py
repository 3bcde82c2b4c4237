"""Checkpoints that a job can be forked at, and how the store forks and repairs threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from signoff.domain.jobs import Job
from signoff.domain.reviews import Item


class KeptDecisions(StrEnum):
    """Whether a fork goes by what was decided in the thread that it comes from, or asks anew."""

    keep = "keep"
    ask = "ask"


@dataclass(frozen=True, slots=True)
class NewThread:
    """A thread as a fork makes it: from a checkpoint of a job's thread, for a job of its own."""

    id: str
    checkpoint_id: str
    job_id: UUID
    decisions: KeptDecisions


class Forks(Protocol):
    """Each is called with the source's, or the thread's, job locked, and nobody runs it."""

    async def newest_park(self, job: Job) -> str | None:
        """The newest kept checkpoint at which the job was parked."""

    async def is_kept(self, job: Job, checkpoint_id: str) -> bool:
        """True if it is a checkpoint of this job, and there still."""

    async def pending_review(self, job: Job, checkpoint_id: str) -> UUID | None:
        """A review of this pause that waits for a decision."""

    async def begin(self, job: Job, new: NewThread) -> None:
        """Makes the thread, of the same lineage, with a copy of the checkpoint as its head: without what was asked
        and answered there, so that it is asked again. The head belongs to the new job."""

    async def renew_head(self, job: Job) -> tuple[str, str] | None:
        """Puts a copy of the thread's head in its place, without what was asked, answered and failed there: (old, new);
        None if the head is not this job's. The old one stays."""

    async def supersede_reviews(self, job_id: UUID) -> Sequence[UUID]:
        """Closes every pending review of the job's runs, and its open items."""

    async def carried_over(self, job: Job, operations: Sequence[str]) -> Sequence[Item]:
        """Which of these calls have an answer from before, newest first: those that the ledger knows of by now, and in
        a thread that keeps decisions all that was decided in those that it comes from."""
