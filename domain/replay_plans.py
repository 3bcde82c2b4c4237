"""What a replay would do, before it does anything: a plan, which is refused once the world has changed.

Rules alone: what became of effects and jobs is handed in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from signoff.domain.canonical import canonical_json
from signoff.domain.effects import REPEATABLE, EffectClass, EffectStatus
from signoff.domain.errors import InvalidRequest, PlanAltered, PlanTooLarge, UnreadableArguments
from signoff.domain.filters import Age
from signoff.domain.jobs import ENDED, JobStatus

S = EffectStatus
DEFAULT_LIMIT = 100
MOST_ENTRIES = 10_000


class Would(StrEnum):
    """What a replay would do of an effect; `retry`: of a job, to run it from its newest checkpoint."""

    reuse = "reuse"
    send_again_same_key = "send_again_same_key"
    would_be_new = "would_be_new"
    blocked = "blocked"
    retry = "retry"


ACTING = frozenset({Would.send_again_same_key, Would.would_be_new, Would.retry})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which effects, and with `jobs` which failed jobs. Named ones are taken whatever their state."""

    statuses: tuple[EffectStatus, ...] = (S.failed, S.dead, S.in_doubt)
    agent: str | None = None
    tool: str | None = None
    error: str | None = None
    job_id: UUID | None = None
    age: Age = field(default_factory=Age)
    labels: Mapping[str, str] = field(default_factory=dict)
    operations: tuple[str, ...] = ()
    jobs: bool = False
    job_ids: tuple[UUID, ...] = ()

    @property
    def names(self) -> bool:
        """True if effects or jobs are named: then they are all that is wanted."""
        return bool(self.operations or self.job_ids)

    def to_dict(self) -> dict[str, Any]:
        """JSON types alone, without what was not asked for."""
        spans = {name: None if span is None else span.total_seconds() for name, span in asdict(self.age).items()}
        plain = {
            "statuses": [str(status) for status in self.statuses],
            "agent": self.agent,
            "tool": self.tool,
            "error": self.error,
            "job": None if self.job_id is None else str(self.job_id),
            **{f"{name}_seconds": seconds for name, seconds in spans.items()},
            "labels": dict(self.labels),
            "operations": list(self.operations),
            "jobs": self.jobs,
            "job_ids": [str(job_id) for job_id in self.job_ids],
        }
        return {name: value for name, value in plain.items() if value not in (None, [], {}, False)}


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """An effect as a plan sees it. `paused`: an operator holds its agent or tool back now."""

    operation_id: str
    job_id: UUID
    agent: str
    tool: str
    status: EffectStatus
    attempts: int
    generation: int
    effect_class: EffectClass | None
    purged: bool
    paused: bool
    job_status: JobStatus
    args: Mapping[str, Any] = field(default_factory=dict)
    high_risk: bool = False

    @property
    def saw(self) -> dict[str, Any]:
        """What the plan holds for, and no longer."""
        own = {"status": str(self.status), "attempts": self.attempts, "generation": self.generation}
        return {**own, "job_status": str(self.job_status)}


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as a plan sees it: `events` grows with whatever happens to it."""

    id: UUID
    agent: str
    status: JobStatus
    events: int
    effects: tuple[EffectFacts, ...]

    @property
    def saw(self) -> dict[str, Any]:
        return {"status": str(self.status), "events": self.events}


@dataclass(frozen=True, slots=True)
class Entry:
    """What would be done of one effect or job, and why; of a job also what each of its effects would do."""

    kind: str
    id: str
    agent: str
    tool: str | None
    would: Would
    reason: str
    saw: Mapping[str, Any]
    effects: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "would": str(self.would), "effects": [dict(one) for one in self.effects]}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is none."""
        found = cls(**{**raw, "would": Would(raw["would"]), "effects": tuple(raw["effects"])})
        if not (isinstance(found.id, str) and isinstance(found.saw, dict) and found.kind in ("effect", "job")):
            raise TypeError("an entry has an id, what was seen, and is of an effect or a job")
        if found.kind == "job":
            UUID(found.id)
        return found


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Entries in the order in which they are applied, and who planned them, when, by which filter."""

    id: str
    made_by: str
    made_at: str
    wanted: Mapping[str, Any]
    entries: tuple[Entry, ...]

    @property
    def acting(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.would in ACTING)

    def digest(self) -> str:
        return hashlib.sha256(canonical_json(self._plain())).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {**self._plain(), "digest": self.digest()}

    def request_id(self, entry: Entry) -> str:
        """By this each item counts once, however often the plan is applied."""
        return f"{self.id}:{entry.id}"

    def part(self, first: int | None, limit: int) -> tuple[Entry, ...]:
        """The entries that are to be done now: all that do something, or the `first` of them.

        Raises PlanTooLarge if these are more than `limit`.
        """
        found = self.acting if first is None else self.acting[:first]
        if len(found) > limit:
            raise PlanTooLarge(
                f"the plan would do {len(found)}, and the limit is {limit}: raise it, or begin with the first few",
                acts=len(found),
                limit=limit,
            )
        return found

    def _plain(self) -> dict[str, Any]:
        entries = [entry.to_dict() for entry in self.entries]
        made = {"plan_id": self.id, "made_by": self.made_by, "made_at": self.made_at}
        return {**made, "wanted": dict(self.wanted), "entries": entries}

    @classmethod
    def from_dict(cls, raw: Any) -> Self:
        """Raises PlanAltered for anything but a plan as it was made."""
        try:
            entries = tuple(Entry.from_dict(entry) for entry in raw["entries"])
            plan = cls(raw["plan_id"], raw["made_by"], raw["made_at"], raw["wanted"], entries)
            same = raw == plan.to_dict()
            if same and isinstance(plan.id, str) and plan.id:
                return plan
        except (KeyError, TypeError, ValueError, AttributeError, UnreadableArguments):
            pass
        raise PlanAltered("this is no plan of a replay as it was made: plan it again")


def would_do(facts: EffectFacts, *, in_run: bool = False) -> tuple[Would, str]:
    """What a replay would do of it, and why; `in_run`: what the run of its job would, if the job is retried."""
    status = facts.status
    if status in (S.succeeded, S.skipped, S.revoked, S.cancelled) or (status is S.failed and in_run):
        kept = not facts.purged or status is not S.succeeded
        return (Would.reuse, f"it has ended as {status}") if kept else (Would.blocked, "its result is no longer kept")
    if status is S.in_doubt:
        repeats = in_run and facts.effect_class in REPEATABLE
        same_key = (Would.send_again_same_key, f"in doubt, and a repeat is safe: {facts.effect_class}")
        return same_key if repeats else (Would.blocked, "in doubt: settle it first")
    if status is S.dispatched or (status in (S.planned, S.retry_wait) and not in_run):
        return Would.blocked, f"it is under way: {status}"
    return _would_send(facts, in_run)


def _would_send(facts: EffectFacts, in_run: bool) -> tuple[Would, str]:
    blocked = {
        "its arguments are no longer kept": facts.purged,
        "an operator has paused it": facts.paused,
        "the policy calls it high-risk: replay it by itself": facts.high_risk and not in_run,
        "dead: settle it first": facts.status is S.dead and in_run,
    }
    for reason, is_so in blocked.items():
        if is_so:
            return Would.blocked, reason
    if facts.status is S.failed:
        return Would.would_be_new, f"refused for certain: sent as generation {facts.generation + 1}"
    if facts.status is S.planned:
        return Would.would_be_new, "it was never sent"
    return Would.send_again_same_key, f"{facts.status}: certainly not applied so far"


def effect_entry(facts: EffectFacts) -> Entry:
    would, reason = would_do(facts)
    return Entry("effect", facts.operation_id, facts.agent, facts.tool, would, reason, facts.saw)


def job_entry(facts: JobFacts) -> Entry:
    effects = []
    for effect in facts.effects:
        would, reason = would_do(effect, in_run=True)
        effects.append(
            {"operation_id": effect.operation_id, "tool": effect.tool, "would": str(would), "reason": reason}
        )
    failed = facts.status is JobStatus.failed
    would = Would.retry if failed else Would.blocked
    reason = "from its newest checkpoint" if failed else f"the job is {facts.status}"
    return Entry("job", str(facts.id), facts.agent, None, would, reason, facts.saw, tuple(effects))


def entries_of(effects: Sequence[EffectFacts], jobs: Sequence[JobFacts]) -> tuple[Entry, ...]:
    """Of an effect whose job is retried the job's own entry tells. Raises InvalidRequest if there are too many."""
    retried = {job.id for job in jobs if job.status is JobStatus.failed}
    found = [job_entry(job) for job in jobs]
    found += [effect_entry(effect) for effect in effects if effect.job_id not in retried]
    if len(found) > MOST_ENTRIES:
        raise InvalidRequest(f"these are more than {MOST_ENTRIES}: ask for fewer")
    return tuple(found)


def outdated(planned: Sequence[Entry], now: Mapping[tuple[str, str], Entry]) -> list[dict[str, Any]]:
    """Where the world has changed since: what was seen, and what is."""
    found = []
    for entry in planned:
        current = now.get((entry.kind, entry.id))
        if current is None or not _is_as(entry, current):
            is_now = None if current is None else {**current.saw, "would": str(current.would), "reason": current.reason}
            found.append({"kind": entry.kind, "id": entry.id, "saw": dict(entry.saw), "is": is_now})
    return found


def _is_as(planned: Entry, current: Entry) -> bool:
    return _held_to(planned) == _held_to(current)


def _held_to(entry: Entry) -> Entry:
    """What has to stay as it was. Why something is so may be said in other words by another release; and the job of
    two effects goes on once the first of them was sent, so of an effect's job it counts whether it has ended."""
    saw = dict(entry.saw)
    if entry.kind == "effect":
        saw["job_status"] = str(saw.get("job_status")) in ENDED
    return replace(entry, reason="", effects=(), saw=saw)
