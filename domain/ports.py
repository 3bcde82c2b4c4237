"""What the use cases need of the world. Postgres keeps each of these promises in `signoff.infra.postgres`.

A Transaction is all or nothing; leaving its block by an exception rolls back. Locks are taken in the order
job, review, item, effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol
from uuid import UUID

from signoff.domain.authority import Principal
from signoff.domain.effects import Effect, EffectClass, Step
from signoff.domain.events import NewEvent
from signoff.domain.fork_points import Forks
from signoff.domain.grants import Given
from signoff.domain.jobs import Job, JobStatus, SubmitJob
from signoff.domain.lone_calls import Known
from signoff.domain.operator_acts import OperatorActs
from signoff.domain.origins import Origin
from signoff.domain.policy import Policy
from signoff.domain.raised_alarms import Alarms
from signoff.domain.replay_plans import EffectFacts, JobFacts, Wanted
from signoff.domain.reviews import Decision, Item, Review, ReviewStatus, Settled
from signoff.domain.settlements import Settlements
from signoff.domain.standing import StandingApproval


@dataclass(frozen=True, slots=True)
class NewReview:
    """A review as a park creates it."""

    id: UUID
    interrupt_id: str
    checkpoint_id: str
    policy_digest: str
    items: Sequence[Item]
    deadlines: Sequence[float | None]  # seconds from the creation, one for each item


@dataclass(frozen=True, slots=True)
class NewAct:
    """What was done with a review beside deciding it, by whom, with what they said and what belongs to it."""

    act: str
    actor: str
    message: str | None = None
    facts: Mapping[str, Any] | None = None
    item_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class LockedReview:
    """A review under lock, with what judging an answer to it needs. `has_forks`: its thread has some, or is one."""

    review: Review
    job: Job
    lineage_root: str
    has_forks: bool
    now: datetime


class Jobs(Protocol):
    async def insert(
        self, job_id: UUID, command: SubmitJob, thread_id: str, status: JobStatus, by: str, door: str
    ) -> Job | None:
        """None if the thread has a started job already, or the idempotency key is taken: nothing was inserted."""

    async def get(self, job_id: UUID) -> Job | None: ...

    async def lock(self, job_id: UUID) -> Job | None: ...

    async def lock_started(self, thread_id: str) -> Job | None: ...

    async def hold_key(self, by: str, key: str) -> bool:
        """Holds the idempotency key until the transaction ends; False if another transaction holds it now."""

    async def by_key(self, by: str, key: str) -> Job | None: ...

    async def move(
        self,
        job_id: UUID,
        to: JobStatus,
        *,
        run_in: timedelta | None = None,
        run_at: datetime | None = None,
        keep_tries: bool = False,
        result: Mapping[str, Any] | None = None,
        error: tuple[str, str] | None = None,
        event: NewEvent | None = None,
    ) -> bool:
        """One guarded statement: moves the job if the table of states allows it from where it is, and tells of it
        by `event`; False if not."""

    async def hurry(self, job_id: UUID) -> None:
        """Makes a queued job due now."""

    async def request_cancel(self, job_id: UUID, by: str) -> None: ...

    async def promote_waiting(self, thread_id: str) -> UUID | None:
        """Queues the oldest waiting job of a thread that has no started one."""


class Threads(Protocol):
    async def create(self, thread_id: str, agent: str, by: str) -> bool:
        """False if the thread exists."""

    async def owner(self, thread_id: str) -> tuple[str, str] | None:
        """(agent, created_by)."""


class Reviews(Protocol):
    async def create(self, job: Job, review: NewReview) -> datetime | Literal[False] | None:
        """The deadline as stored, if there is one; False if this pause has its review already."""

    async def is_answered(self, thread_id: str, interrupt_id: str) -> bool:
        """True if the pause's review is closed, however it was, and no run has used that yet."""

    async def lock(self, review_id: UUID) -> LockedReview | None: ...

    async def of_job(self, job_id: UUID) -> Sequence[Review]:
        """All reviews of a job with items and decisions, oldest first."""

    async def decide(self, settled: Sequence[Settled], door: str) -> None:
        """Stores decisions; those that end their item end it, and revisions become their items' calls."""

    async def expire_items(self, review_id: UUID) -> int:
        """Expires the open items whose deadline has passed, by the database's clock."""

    async def close(self, review_id: UUID, status: ReviewStatus) -> bool: ...

    async def cancel_of_job(self, job_id: UUID) -> Sequence[UUID]:
        """Cancels every pending review of the job's runs with its open items; not what an operator has asked for."""

    async def is_pending(self, job_id: UUID) -> bool:
        """True if some review of the job's runs waits for a decision."""

    async def past_deadline(self, limit: int) -> Sequence[UUID]: ...


class ReviewActs(Protocol):
    """What is done with a review beside deciding it. Each is called with the review locked, and it is pending."""

    async def add(self, review_id: UUID, act: NewAct) -> None: ...

    async def seen_by(self, review_id: UUID) -> Sequence[str]:
        """The reviewers (groups, and people written `@name`) who see it: all who were ever asked."""

    async def claim(self, review_id: UUID, by: str, seconds: float) -> datetime:
        """Until when it is claimed: `seconds` from now, or longer if a claim of the same person lasts longer."""

    async def end_claim(self, review_id: UUID) -> None: ...

    async def assign(self, item_ids: Sequence[UUID], to: Sequence[str]) -> None:
        """Only these are to decide the items; to nobody: all who may."""

    async def cancel_items(self, review_id: UUID) -> None:
        """Cancels the open items."""

    async def climb(self, item: Item, next_after_seconds: float | None) -> datetime | None:
        """Stores where the ladder has left the item; returns when its next rung is due, if there is one."""

    async def escalate(self, review_id: UUID, reviewers: Sequence[str]) -> None:
        """These see the review from now on."""


class Effects(Protocol):
    async def job_of(self, operation_id: str) -> UUID | None: ...

    async def class_of(self, operation_id: str) -> EffectClass | None:
        """As its tool declared it when it was last sent; None if it never was, nor allowed by a rule."""

    async def lock(self, operation_id: str) -> Effect | None: ...

    async def plan(
        self,
        job: Job,
        items: Sequence[Item],
        decisions: Sequence[Decision],
        origin: Origin | None = None,
        lineage_root: str | None = None,
    ) -> Sequence[str]:
        """Inserts the planned effects of approved calls; an operation that has its effect is left alone. With an
        origin they run by themselves. Returns the operations that are not planned: the same call is carried out in
        another form already, in another job of the lineage."""

    async def move(
        self,
        effect: Effect,
        step: Step,
        *,
        actor: str,
        reference: str | None = None,
        result: tuple[str, bytes] | None = None,
        new_generation: bool = False,
        alone: bool = False,
    ) -> bool:
        """One guarded statement and its history row; False if the effect is no longer where `effect` says."""

    async def is_compensated_otherwise(self, operation_id: str) -> bool:
        """True if this is a compensation, and another one of the same effect has come to something, or still may."""

    async def cancel_unsent(self, job_id: UUID, actor: str) -> None:
        """Cancels what is planned or waits for a retry without doubt; what is in doubt stays so."""

    async def revoke_unsent(self, operation_ids: Sequence[str], actor: str, reason: str) -> None:
        """Revokes what is planned or waits for a retry without doubt; what is in doubt stays so."""


class LoneReviews(Protocol):
    async def known(self, effect: Effect, origin: Origin) -> Known:
        """What a request about the effect depends on; its job is locked, so nothing of it changes meanwhile."""


class Replayables(Protocol):
    """What plans of replays are made of, oldest first."""

    async def effects(self, wanted: Wanted) -> Sequence[EffectFacts]:
        """Those that are named; without any name, those of the filter. Their risk is not looked at."""

    async def jobs(self, wanted: Wanted) -> Sequence[JobFacts]:
        """Those that are named, and failed ones of the filter if it asks for jobs."""

    async def done_by(self, plan_id: str) -> frozenset[str]:
        """The request ids of what this plan has done already, whoever has applied it."""


class Doubt(Protocol):
    async def ask_provider(self, operation_id: str) -> None:
        """Has the provider of an effect in doubt asked about it, by any worker, beside the runs of its job."""


class Principals(Protocol):
    async def get(self, name: str) -> Principal | None: ...


class Grants(Protocol):
    async def add(self, given: Given) -> None: ...

    async def get(self, grant_id: UUID) -> Given | None: ...

    async def revoke(self, grant_id: UUID, by: str) -> bool:
        """False if it was revoked before, or never was."""

    async def revoke_own(self, name: str, by: str) -> None:
        """Revokes what the person was given of their own; delegations stay."""

    async def set_limited(self, name: str, limited: bool, by: str) -> None: ...


class Standing(Protocol):
    async def add(self, approval: StandingApproval) -> None: ...

    async def get(self, standing_id: UUID) -> StandingApproval | None: ...

    async def revoke(self, standing_id: UUID, by: str) -> bool:
        """False if it was revoked before, or never was."""

    async def applicable(
        self, agent: str, tool: str | None, job_id: UUID, thread_id: str
    ) -> Sequence[StandingApproval]:
        """Those that are active and about calls of this tool (None: of any) in this job, oldest first; each with its
        creator as of now. Their conditions are not looked at."""

    async def agent_within(self, who: Principal, job_id: UUID | None, thread_id: str | None) -> str | None:
        """The agent of this job, or of some job of this thread, that `who` may read; None if there is none for them."""


class Agents(Protocol):
    async def exists(self, name: str) -> bool:
        """True if some worker ever served the agent."""

    async def tools(self, name: str) -> Mapping[str, Any] | None:
        """The agent's tools by name, each with its `schema` and `class`; None if no worker ever served it."""

    async def policy(self, name: str) -> Policy | None:
        """The policy that the newest worker of the agent registered; None if no worker ever served it."""


class Events(Protocol):
    async def append(self, *events: NewEvent) -> None: ...


class Deliveries(Protocol):
    async def remember(self, endpoint: str, delivery_id: str, body_digest: str) -> None:
        """Raises DeliveryMismatch if the id came before with another body."""


class Transaction(Protocol):
    async def now(self) -> datetime:
        """The store's clock, which is everybody's."""

    @property
    def jobs(self) -> Jobs: ...
    @property
    def threads(self) -> Threads: ...
    @property
    def reviews(self) -> Reviews: ...
    @property
    def acts(self) -> ReviewActs: ...
    @property
    def effects(self) -> Effects: ...
    @property
    def principals(self) -> Principals: ...
    @property
    def grants(self) -> Grants: ...
    @property
    def standing(self) -> Standing: ...
    @property
    def agents(self) -> Agents: ...
    @property
    def events(self) -> Events: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def operator_acts(self) -> OperatorActs: ...
    @property
    def settlements(self) -> Settlements: ...
    @property
    def lone_reviews(self) -> LoneReviews: ...
    @property
    def replayables(self) -> Replayables: ...
    @property
    def alarms(self) -> Alarms: ...
    @property
    def forks(self) -> Forks: ...
    @property
    def doubt(self) -> Doubt: ...


class Store(Protocol):
    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """Raises StoreUnavailable if no connection can be had in time, and Conflict where two reached for one thing."""


class Hints(Protocol):
    def offer(self, agent: str, job_id: UUID) -> None:
        """Tells some worker that the job is due. Never waits and never raises: the row is the work."""

    def offer_effect(self, agent: str, operation_id: str) -> None:
        """The same of an effect that runs by itself, or whose provider is to be asked about it."""
