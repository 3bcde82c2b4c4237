"""A second operator, a program that operates, and a policy that calls refunds high-risk."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from signoff.domain.authority import PrincipalKind
from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import Outcome, Step
from signoff.domain.policy import Policy, review
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.tokens import new_token
from tests.support.parked import AGENT, OPERATOR, POLICY, REVIEWER, Parked, parked, tried

OSCAR = replace(OPERATOR, name="oscar")
ROBOT = replace(OPERATOR, name="robot", kind=PrincipalKind.service)
RISKY = Policy([review("refund", reviewers=["finance"], high_risk=True)])


async def hire(store: PostgresStore) -> dict[str, str]:
    """Creates both; returns their tokens."""
    tokens: dict[str, str] = {}
    async with store.begin() as tx:
        for who in (OSCAR, ROBOT):
            await tx.principals.create(who)
            tokens[who.name], hashed = new_token()
            await tx.principals.add_token(uuid4(), who.name, hashed)
    return tokens


async def set_policy(store: PostgresStore, policy: Policy = POLICY, **tools: object) -> None:
    """As the agent's newest worker registers it."""
    async with store.begin() as tx:
        await tx.agents.register(AGENT, tools, policy)


async def approved(store: PostgresStore) -> tuple[Parked, str]:
    """A parked job whose refund was approved, and the operation."""
    job = await parked(store)
    answers = parse_answers({"decisions": [{"type": "approve"}]})
    decided = await decide_review(store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test")
    return job, decided.decisions[0].operation_id


async def sent(store: PostgresStore, steps: tuple[Step, ...], outcome: Outcome = Outcome.unknown) -> tuple[UUID, str]:
    """A job whose refund was sent, went these steps, and holds it; and the operation."""
    job, operation = await approved(store)
    await tried(store, job.job_id, operation, *steps, outcome=outcome)
    return job.job_id, operation
