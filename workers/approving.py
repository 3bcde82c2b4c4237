"""Whether an effect may leave now: the guard that no routing, middleware or stored verdict replaces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from signoff.domain.authority import may_decide
from signoff.domain.effects import Effect
from signoff.domain.policy import Verdict
from signoff.infra.postgres.effects import Approval, Examined
from signoff.workers.authoring import Agent


def why_not_now(agent: Agent, job_facts: Mapping[str, Any], environment: str, examined: Examined) -> str | None:
    """Why the authority that this effect stands on does not hold now; None if it does.

    A decision must cover exactly these arguments, come from someone who may still decide, and be young enough; without
    one the policy must allow the call now. What the policy denies now runs by no decision.
    """
    effect = examined.effect
    if effect.tool not in agent.tools_by_name:
        return "the agent no longer has this tool"
    judgement = agent.loaded_policy.judge(effect.tool, effect.args, job=job_facts, environment=environment)
    if judgement.verdict is Verdict.deny:
        return f"the policy now denies it ({judgement.reason})"
    approval = examined.approval
    if approval is None:
        return None if judgement.verdict is Verdict.allow else "the policy now wants a review"
    reviewers = judgement.reviewers if judgement.verdict is Verdict.review else approval.reviewers
    return _flaw(approval, effect, reviewers, examined.now)


def _flaw(approval: Approval, effect: Effect, reviewers: tuple[str, ...], now: datetime) -> str | None:
    if approval.digest != effect.digest:
        return "the decision covers other arguments"
    if not may_decide(approval.reviewer, approval.reviewers) or not may_decide(approval.reviewer, reviewers):
        return f"{approval.reviewer.name}, who approved it, may no longer decide this"
    if approval.valid_for_seconds is None:
        return None
    ends = approval.decided_at + timedelta(seconds=approval.valid_for_seconds)
    return f"the approval was valid until {ends.isoformat()}" if now > ends else None
