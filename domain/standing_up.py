"""Giving and taking back standing approvals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, may_decide, require_right
from signoff.domain.canonical import scrub
from signoff.domain.errors import (
    AgentMismatch,
    AgentNotFound,
    BeyondAuthority,
    InvalidRequest,
    JobNotFound,
    NotAReviewer,
    StandingNotFound,
    ThreadNotFound,
    ToolNotFound,
)
from signoff.domain.events import EventType, NewEvent
from signoff.domain.grants import check_condition
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.periods import Period
from signoff.domain.policy import Policy, Rule
from signoff.domain.ports import Store, Transaction
from signoff.domain.standing import StandingApproval
from signoff.domain.tool_patterns import is_exact, matches
from signoff.domain.verdicts import Verdict

LONGEST_STANDING = timedelta(days=90)
MAX_REASON_CHARACTERS = 2000
TEXTS = {
    "agent": MAX_NAME_CHARACTERS,
    "tool": MAX_NAME_CHARACTERS,
    "thread_id": MAX_NAME_CHARACTERS,
    "reason": MAX_REASON_CHARACTERS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What is to be allowed or denied: one tool of an agent, for a job, a thread or some time, under a condition.

    Raises InvalidRequest.
    """

    agent: str
    tool: str
    verdict: Verdict
    condition: str | None = None
    job_id: UUID | None = None
    thread_id: str | None = None
    period: Period = field(default_factory=Period)
    reason: str | None = None

    def __post_init__(self) -> None:
        for name, most in TEXTS.items():
            _check_text(name, getattr(self, name), most)
        if self.verdict is Verdict.review:
            raise InvalidRequest("a standing approval says allow or deny", field="verdict")
        if not is_exact(self.tool):
            raise InvalidRequest("'tool' must be the name of one tool, not a pattern", field="tool")
        if self.job_id is None and self.thread_id is None and not self.period.has_end:
            raise InvalidRequest("it needs a job, a thread or an end: nothing stands for ever", field="expires_at")
        check_condition(self.condition)


async def stand(store: Store, who: Principal, wanted: Stand) -> StandingApproval:
    """Gives a standing approval; it holds from now on, also for calls that are under way to their dispatch.

    Raises:
        RightMissing (`standing` or `review`), AgentNotFound, ToolNotFound, NotAReviewer, BeyondAuthority (limited, and
        no grant is about the tool), JobNotFound, ThreadNotFound, AgentMismatch, InvalidRequest.
    """
    require_right(who, Right.standing)
    require_right(who, Right.review)
    async with store.begin() as tx:
        policy = await tx.agents.policy(wanted.agent)
        if policy is None:
            raise AgentNotFound(f"no worker serves the agent {wanted.agent!r}")
        _require_decider(who, policy, wanted.tool)
        await _require_in_agent(tx, who, wanted)
        approval = _approval(who, wanted, await tx.now())
        await tx.standing.add(approval)
        await tx.events.append(_event(EventType.standing_created, approval, who))
    return approval


async def withdraw(store: Store, standing_id: UUID, who: Principal) -> None:
    """Takes a standing approval back at once, by its creator or an operator; done once, it stays done.

    Raises: StandingNotFound (also for who may not see it), RightMissing.
    """
    async with store.begin() as tx:
        approval = await tx.standing.get(standing_id)
        if approval is None or not may_see(who, approval):
            raise StandingNotFound(f"there is no standing approval {standing_id} that you may see")
        if who.name != approval.created_by.name:
            require_right(who, Right.operate)
        if await tx.standing.revoke(standing_id, who.name):
            await tx.events.append(_event(EventType.standing_revoked, approval, who))


def may_see(who: Principal, approval: StandingApproval) -> bool:
    """True for who gave it, for operators, and for everybody who may give some."""
    sees_all = bool(who.rights & {Right.operate, Right.standing})
    return not who.revoked and (sees_all or who.name == approval.created_by.name)


def _check_text(name: str, value: str | None, most: int) -> None:
    if value is not None and (not value.strip() or len(value) > most or scrub(value) != value):
        raise InvalidRequest(f"'{name}' must be text of 1 to {most} characters", field=name)


def _require_decider(who: Principal, policy: Policy, tool: str) -> None:
    """Raises ToolNotFound, NotAReviewer, BeyondAuthority, InvalidRequest (the tool is never reviewed)."""
    rules = [rule for rule in policy.rules if matches(rule.tool, tool)]
    if not rules:
        raise ToolNotFound(f"no rule of the agent's policy is about a tool {tool!r}")
    reviewers = {name for rule in _that_may_ask(rules) for name in rule.reviewers or policy.fallback_reviewers}
    if not reviewers:
        raise InvalidRequest(f"no call of {tool} is ever reviewed, so there is nothing to allow or deny", field="tool")
    if not may_decide(who, reviewers):
        names = sorted(reviewers)
        raise NotAReviewer(f"{who.name} decides no call of {tool}: it needs {', '.join(names)}", reviewers=names)
    if who.limited and not any(matches(pattern, tool) for grant in who.grants for pattern in grant.tools):
        raise BeyondAuthority(f"{who.name} may not decide any call of {tool}: no grant is about it", tool=tool)


def _that_may_ask(rules: list[Rule]) -> Iterator[Rule]:
    """Those that can end in a review: they say so, or have a condition that it may be impossible to evaluate."""
    for rule in rules:
        if rule.verdict is Verdict.review or rule.when is not None:
            yield rule
        if rule.when is None:
            return


async def _require_in_agent(tx: Transaction, who: Principal, wanted: Stand) -> None:
    """Raises JobNotFound, ThreadNotFound (also where both are given and don't belong together), AgentMismatch."""
    if wanted.job_id is None and wanted.thread_id is None:
        return
    agent = await tx.standing.agent_within(who, wanted.job_id, wanted.thread_id)
    if agent is None and wanted.job_id is not None:
        inside = f" in the thread {wanted.thread_id!r}" if wanted.thread_id else ""
        raise JobNotFound(f"there is no job {wanted.job_id}{inside} that you may read")
    if agent is None:
        raise ThreadNotFound(f"there is no thread {wanted.thread_id!r} with a job that you may read")
    if agent != wanted.agent:
        raise AgentMismatch(f"it belongs to the agent {agent!r}, not {wanted.agent!r}")


def _approval(who: Principal, wanted: Stand, now: datetime) -> StandingApproval:
    return StandingApproval(
        id=uuid4(),
        agent=wanted.agent,
        tool=wanted.tool,
        verdict=wanted.verdict,
        condition=wanted.condition,
        job_id=wanted.job_id,
        thread_id=wanted.thread_id,
        expires_at=wanted.period.ends_at(now, LONGEST_STANDING),
        created_by=who,
        reason=wanted.reason,
        created_at=now,
    )


def _event(kind: EventType, approval: StandingApproval, who: Principal) -> NewEvent:
    data = {
        "standing_id": str(approval.id),
        "agent": approval.agent,
        "tool": approval.tool,
        "verdict": str(approval.verdict),
        "when": approval.condition,
        "job_id": approval.job_id and str(approval.job_id),
        "thread_id": approval.thread_id,
        "expires_at": approval.expires_at and approval.expires_at.isoformat(),
        "created_by": approval.created_by.name,
        "reason": approval.reason,
    }
    return NewEvent(kind, f"standing-approvals/{approval.id}", who.name, data, approval.job_id)
