"""People as the store knows them, with all that their authority depends on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from signoff.domain.authority import Grant, Principal, PrincipalKind, Right
from signoff.domain.delegating import delegate
from signoff.domain.errors import JobNotFound, PrincipalExists
from signoff.domain.grants import Given, Scope
from signoff.domain.limiting import limit, revoke_grant, unlimit
from signoff.domain.periods import Period
from signoff.domain.standing_up import Stand, stand
from signoff.domain.verdicts import Verdict
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_jobs import show_job
from signoff.infra.postgres.views_reviews import list_reviews
from signoff.infra.services import Services
from signoff.infra.tokens import new_token
from tests.support.api import open_store
from tests.support.parked import AGENT, OPERATOR, REVIEWER, STRANGER, parked

pytestmark = pytest.mark.anyio

REFUNDS = Scope(("refund",), "args.amount <= 50")
SOON = Period(seconds=3600)
WATCHER = Principal("wim", PrincipalKind.person, frozenset({"finance"}), frozenset({Right.see}))


@pytest.fixture
async def services(database_url: str) -> AsyncIterator[Services]:
    async with open_store(database_url) as services:
        yield services


@pytest.fixture
def store(services: Services) -> PostgresStore:
    return services.store


async def known(store: PostgresStore, name: str) -> Principal:
    async with store.connection() as conn:
        found = await PrincipalTable(conn).get(name)
    assert found is not None
    return found


async def test_a_person_comes_with_grants_and_with_delegators_as_they_are(store: PostgresStore) -> None:
    own = await limit(store, "rita", REFUNDS, Period(), by="admin")
    given = await delegate(store, "rita", "sam", Scope(("send_*",)), SOON, by="rita")
    second = await delegate(store, "sam", "ravi", Scope(("*",)), SOON, by="sam")
    rita, sam, ravi = [await known(store, name) for name in ("rita", "sam", "ravi")]
    assert rita == replace(REVIEWER, limited=True, grants=(own.grant,))
    assert (sam.delegations[0].grant, sam.delegations[0].delegator) == (given.grant, rita)
    assert (ravi.delegations[0].grant, ravi.delegations[0].delegator) == (second.grant, STRANGER)


async def test_a_token_brings_the_same_person(store: PostgresStore) -> None:
    await limit(store, "rita", REFUNDS, SOON, by="admin")
    await delegate(store, "rita", "sam", REFUNDS, SOON, by="rita")
    _, hashed = new_token()
    async with store.begin() as tx:
        await tx.principals.add_token(uuid4(), "sam", hashed)
        assert await tx.principals.by_token(hashed) == await tx.principals.get("sam")


async def test_what_has_ended_or_was_taken_back_is_left_out(store: PostgresStore) -> None:
    async with store.begin() as tx:
        now = await tx.now()
        past = Grant(uuid4(), ("*",), None, now - timedelta(seconds=1))
        await tx.grants.add(Given(past, "rita", None, "admin", now))
        await tx.grants.add(Given(replace(past, id=uuid4()), "ravi", "rita", "admin", now))
    revoked = await limit(store, "rita", REFUNDS, SOON, by="admin")
    await revoke_grant(store, revoked.grant.id, by="admin")
    assert await known(store, "rita") == replace(REVIEWER, limited=True)
    assert (await known(store, "ravi")).delegations == ()
    await limit(store, "rita", REFUNDS, SOON, by="admin")
    await unlimit(store, "rita", by="admin")
    assert await known(store, "rita") == REVIEWER


async def test_nobody_and_creating_somebody_again(store: PostgresStore) -> None:
    await limit(store, "rita", REFUNDS, SOON, by="admin")
    async with store.begin() as tx:
        assert await tx.principals.get("nobody") is None
        await tx.principals.create(REVIEWER)  # what they were limited to is no part of who they are
    with pytest.raises(PrincipalExists):
        async with store.begin() as tx:
            await tx.principals.create(replace(REVIEWER, rights=frozenset({Right.see})))


async def test_who_sees_a_job_and_its_reviews(store: PostgresStore) -> None:
    job = await parked(store)

    async def sees(who: Principal) -> bool:
        async with store.connection() as conn:
            listed = (await list_reviews(conn, ReviewFilter(), who))["reviews"]
            try:
                shown = await show_job(conn, job.job_id, who)
            except JobNotFound:
                assert listed == []
                return False
        return [review["job_id"] for review in listed] == [shown["job_id"]]

    assert await sees(WATCHER)
    assert not await sees(replace(WATCHER, rights=frozenset({Right.reveal})))
    assert not await sees(STRANGER)
    await delegate(store, "rita", "sam", REFUNDS, SOON, by="rita")
    assert await sees(await known(store, "sam"))


async def test_standing_approvals_that_may_apply(store: PostgresStore) -> None:
    async with store.begin() as tx:
        who = replace(REVIEWER, name="stan", rights=frozenset({Right.review, Right.standing}))
        await tx.principals.create(who)
    job, other = await parked(store), await parked(store)

    async def add(**scope: object) -> object:
        wanted = Stand(**{"agent": AGENT, "tool": "refund", "verdict": Verdict.allow, **scope})  # type: ignore[arg-type]
        return (await stand(store, who, wanted)).id

    timed = await add(period=SOON)
    in_job = await add(job_id=job.job_id)
    in_thread = await add(thread_id=job.thread_id, tool="send_email")
    elsewhere = await add(job_id=other.job_id)
    taken_back = await add(period=SOON)
    await limit(store, "stan", REFUNDS, SOON, by="admin")
    async with store.begin() as tx:
        assert await tx.standing.revoke(taken_back, OPERATOR.name)  # type: ignore[arg-type]
        assert not await tx.standing.revoke(taken_back, OPERATOR.name)  # type: ignore[arg-type]
        found = await tx.standing.applicable(AGENT, "refund", job.job_id, job.thread_id)
        every = await tx.standing.applicable(AGENT, None, job.job_id, job.thread_id)
        none = await tx.standing.applicable("another", None, job.job_id, job.thread_id)
    assert [one.id for one in found] == [timed, in_job]
    assert {one.id for one in every} == {timed, in_job, in_thread}
    assert elsewhere not in [one.id for one in every]
    assert none == []
    assert found[0].created_by == await known(store, "stan")
    assert found[0].created_by.limited
