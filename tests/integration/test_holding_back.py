"""What holds effects back: pauses, limits and circuits; and that it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from langchain_core.tools import BaseTool, tool

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import AgentNotFound, PauseEnded, ProviderNotFound, RightMissing, ToolNotFound
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.pausing import Scope, close_circuit, end_pause, pause_effects
from signoff.domain.policy import review
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_holding import list_pauses, list_providers
from signoff.workers import effect
from signoff.workers.holding_upkeep import WakeHeldBack
from tests.support.api import open_store
from tests.support.eventually import eventually
from tests.support.parked import AGENT, OPERATOR, PRODUCER
from tests.support.paying import Provider
from tests.support.tellers import Tellers

pytestmark = pytest.mark.anyio

S, J = EffectStatus, JobStatus
SCOPES = [Scope(), Scope(agent=AGENT), Scope(tool="pay"), Scope(AGENT, "pay")]
DUE_IN = """SELECT round(extract(epoch FROM e.retry_at - clock_timestamp())::numeric, 1)::float8 AS effect,
    round(extract(epoch FROM j.run_at - clock_timestamp())::numeric, 1)::float8 AS job
    FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id ORDER BY e.created_at"""
OVER = "UPDATE signoff.providers SET open_until = clock_timestamp()"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def pause(store: PostgresStore, scope: Scope = SCOPES[0]) -> UUID:
    return UUID((await pause_effects(store, OPERATOR, scope, "a fire")).outcome["pause_id"])


async def pauses(store: PostgresStore) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        found: list[dict[str, Any]] = (await list_pauses(conn, False, OPERATOR))["pauses"]
    return found


async def provider_row(store: PostgresStore) -> dict[str, Any]:
    async with store.connection() as conn:
        (row,) = (await list_providers(conn, OPERATOR))["providers"]
    found: dict[str, Any] = row
    return found


async def events(desk: Tellers) -> list[str]:
    rows = await desk.sql("SELECT type FROM signoff.events WHERE type LIKE 'signoff.provider.%%' ORDER BY position")
    return [row["type"].split(".")[2] for row in rows]


# --- pauses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES, ids=str)
async def test_a_pause_stops_dispatch_and_not_decisions(store: PostgresStore, scope: Scope) -> None:
    provider = Provider()
    desk = Tellers(store, provider.tool(), rules=(review("*", reviewers=["finance"]),))
    await desk.enrol()
    paused = await pause(store, scope)
    job = await desk.open()
    assert job.status is J.awaiting_review
    await desk.decide(job.id, {"type": "approve"})
    job = await desk.again(job)
    (held,) = await desk.effects(job.id)
    assert (job.status, held.status, await desk.waits(job.id)) == (J.queued, S.planned, "pause")
    assert provider.applied == []
    (seen,) = await pauses(store)
    assert (seen["pause_id"], seen["effects"], seen["jobs"]) == (str(paused), 1, 1)

    assert (await end_pause(store, OPERATOR, paused, "out")).outcome["effects"] == 1
    job = await desk.run(job.id)
    assert (job.status, provider.applied) == (J.succeeded, ["ada"])
    assert await pauses(store) == []


async def test_a_pause_of_something_else_holds_nothing_back(store: PostgresStore) -> None:
    provider = Provider()
    desk = Tellers(store, provider.tool())
    await desk.sql("INSERT INTO signoff.agents SELECT 'other', tools, policy, policy_digest FROM signoff.agents")
    await desk.sql(
        "INSERT INTO signoff.pauses (id, agent, tool, reason, created_by) VALUES"
        " (gen_random_uuid(), 'other', NULL, 'x', 'olga'), (gen_random_uuid(), NULL, 'refund', 'x', 'olga'),"
        " (gen_random_uuid(), 'other', 'pay', 'x', 'olga')"
    )
    assert (await desk.open()).status is J.succeeded


async def test_what_two_pauses_hold_back_waits_for_both(store: PostgresStore) -> None:
    desk = Tellers(store, Provider().tool())
    await desk.enrol()
    first, second = await pause(store), await pause(store, Scope(tool="pay"))
    job = await desk.open()
    assert [row["effects"] for row in await pauses(store)] == [1, 1]
    assert (await end_pause(store, OPERATOR, first, "out")).outcome["effects"] == 0
    assert await desk.waits(job.id) == "pause"
    assert (await end_pause(store, OPERATOR, second, "out")).outcome["effects"] == 1


async def test_many_go_on_in_stages(store: PostgresStore) -> None:
    provider = Provider()
    desk = Tellers(store, provider.tool())
    await desk.enrol()
    paused = await pause(store)
    jobs = [await desk.open(str(number)) for number in range(3)]
    assert all(row["job"] > 500 for row in await desk.sql(DUE_IN))
    assert (await end_pause(store, OPERATOR, paused, "out", per_second=0.01)).outcome["effects"] == 3
    due = await desk.sql(DUE_IN)
    assert [row["effect"] for row in due] == [pytest.approx(100 * number, abs=2) for number in range(3)]
    assert [row["job"] for row in due] == [row["effect"] for row in due]
    await WakeHeldBack(store).step()
    assert (await desk.sql(DUE_IN))[2]["effect"] > 150, "the stages are kept"
    assert [(await desk.run(job.id)).status for job in jobs] == [J.succeeded, J.queued, J.queued]
    assert provider.applied == ["0"]


async def test_what_ran_while_its_pause_ended_is_woken_all_the_same(store: PostgresStore) -> None:
    desk = Tellers(store, Provider().tool())
    await desk.enrol()
    paused = await pause(store)
    job = await desk.open()
    await desk.sql("UPDATE signoff.jobs SET status = 'running', lease_until = clock_timestamp() + interval '1 hour'")
    assert (await end_pause(store, OPERATOR, paused, "out")).outcome["effects"] == 0
    await WakeHeldBack(store).step()
    assert await desk.waits(job.id) == "pause"
    await desk.sql("UPDATE signoff.jobs SET status = 'queued', lease_until = NULL")
    await WakeHeldBack(store).step()
    assert (await desk.run(job.id)).status is J.succeeded


async def test_calls_that_run_by_themselves_are_held_back_too(store: PostgresStore) -> None:
    provider = Provider()
    desk = Tellers(store, provider.tool())
    await desk.enrol()
    paused = await pause(store)
    job = await desk.open()
    await desk.sql("UPDATE signoff.effects SET alone = true, retry_at = NULL, waits_for = NULL")
    await desk.sql("UPDATE signoff.jobs SET run_at = clock_timestamp() + interval '1 hour'")
    (held,) = await desk.effects(job.id)
    await desk.alone.run(held.operation_id)
    assert (provider.applied, await desk.waits(job.id)) == ([], "pause")
    assert (await end_pause(store, OPERATOR, paused, "out")).outcome["effects"] == 1
    await desk.alone.run(held.operation_id)
    assert provider.applied == ["ada"]
    assert (await desk.sql(DUE_IN))[0]["job"] > 3000, "its job has nothing to do with it"


async def test_who_may_pause_what(store: PostgresStore) -> None:
    await Tellers(store, Provider().tool()).enrol()
    with pytest.raises(RightMissing):
        await pause_effects(store, PRODUCER, Scope(), "x")
    with pytest.raises(AgentNotFound):
        await pause(store, Scope(agent="nobody"))
    with pytest.raises(ToolNotFound):
        await pause(store, Scope(AGENT, "pya"))
    paused = await pause(store)
    await end_pause(store, OPERATOR, paused, "out")
    with pytest.raises(PauseEnded):
        await end_pause(store, OPERATOR, paused, "out")
    (acts,) = [row["body"] for row in await audit(store, "pause.changed")]
    assert acts["ended_by"] == OPERATOR.name


async def audit(store: PostgresStore, act: str) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        return await (await conn.execute("SELECT * FROM signoff.audit WHERE act = %s", (act,))).fetchall()


# --- limits ------------------------------------------------------------------------------------------------------


class Counter:
    """A slow provider that counts who is with it at once."""

    def __init__(self) -> None:
        self.inside = self.most = self.served = 0
        self.free = asyncio.Event()

    def tool(self, **terms: Any) -> BaseTool:
        @effect("opaque", **terms)
        @tool
        async def pay(to: str) -> str:
            """Pays."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.free.wait()
            self.inside -= 1
            self.served += 1
            return "paid"

        return pay


@asynccontextmanager
async def side_by_side(desk: Tellers, jobs: list[Job], counter: Counter, waiting: int) -> AsyncIterator[None]:
    """Runs the jobs at once. Inside, so many of them wait and the others are with the provider; then all end."""
    runs = [asyncio.ensure_future(desk.runner.run_hinted(job.id)) for job in jobs]
    try:
        done = lambda: sum(run.done() for run in runs) >= waiting  # noqa: E731
        await eventually(done, message="more are with the provider at once")
        yield
    finally:
        counter.free.set()
        await asyncio.gather(*runs)


async def test_never_more_than_so_many_at_once(store: PostgresStore) -> None:
    counter = Counter()
    desk = Tellers(store, counter.tool(max_concurrent=2))
    await desk.enrol()
    jobs = [await desk.submit(str(number)) for number in range(5)]
    async with side_by_side(desk, jobs, counter, waiting=3):
        waiting = await desk.sql("SELECT waits_for, count(*) FROM signoff.effects WHERE status = 'planned' GROUP BY 1")
        assert waiting == [{"waits_for": "limit", "count": 3}]
        assert (await provider_row(store))["in_flight"] == counter.inside == counter.most == 2
        assert (await provider_row(store))["wait_for_limit"] == 3
    assert all(0.5 < row["job"] < 61 for row in await desk.sql(f"SELECT * FROM ({DUE_IN}) d WHERE job > 0"))
    for job in jobs:
        await desk.again(job)
    assert (counter.served, counter.most) == (5, 2)


async def test_no_more_than_so_many_in_a_minute(store: PostgresStore) -> None:
    provider = Provider()
    desk = Tellers(store, provider.tool(per_minute=1.0, provider="bank"))
    assert (await desk.open("first")).status is J.succeeded
    second = await desk.open("second")
    assert (second.status, await desk.waits(second.id), provider.applied) == (J.queued, "limit", ["first"])
    assert 50 < (await desk.sql(DUE_IN))[1]["effect"] < 70, "when a call may leave again, and no sooner"
    row = await provider_row(store)
    assert (row["provider"], row["wait_for_limit"]) == ("bank", 1)
    assert (await desk.again(second)).status is J.queued
    await desk.sql("UPDATE signoff.providers SET counted_at = counted_at - interval '1 minute'")
    assert (await desk.again(second)).status is J.succeeded


# --- circuits ----------------------------------------------------------------------------------------------------


def failing(*behaves: str, **terms: Any) -> tuple[Provider, BaseTool]:
    provider = Provider(behaves=list(behaves))
    often = {"max_attempts": 50, "max_elapsed": timedelta(days=1)}
    seldom = {"first_delay": timedelta(hours=1), "longest_delay": timedelta(hours=1)}
    opens = {"circuit_failures": 2, "circuit_open": timedelta(hours=1)}
    return provider, provider.tool(**{**often, **seldom, **opens, **terms})


async def test_a_circuit_opens_lets_one_try_opens_again_and_closes(store: PostgresStore) -> None:
    provider, pay = failing("busy", "busy", "busy")
    desk = Tellers(store, pay)
    job = await desk.again(await desk.open())
    assert (len(provider.keys), await events(desk)) == (2, ["opened"])
    other = await desk.open("grace")
    assert (await desk.waits(other.id), provider.applied) == ("circuit", [])
    row = await provider_row(store)
    assert (row["failures"], row["wait_for_circuit"], row["last_error"]) == (2, 1, "busy")

    await desk.sql(OVER)
    await desk.again(job)  # one of the two has tried; the other has not
    assert len(provider.keys) == 3
    assert (await provider_row(store))["failures"] == 3
    await desk.again(job)
    assert len(provider.keys) == 3, "open again"

    await desk.sql(OVER)
    await desk.again(job)
    assert len(provider.applied) >= 1
    assert await events(desk) == ["opened", "closed"]
    row = await provider_row(store)
    assert (row["failures"], row["opened_at"]) == (0, None)
    await WakeHeldBack(store).step()
    assert {(await desk.again(one)).status for one in (job, other)} == {J.succeeded}
    assert sorted(provider.applied) == ["ada", "grace"]


@pytest.mark.parametrize("answer", ["ok", "refuse"])
async def test_an_answer_in_between_forgets_the_bad_ends(store: PostgresStore, answer: str) -> None:
    _, pay = failing("busy", answer, "busy")
    desk = Tellers(store, pay)
    assert (await desk.again(await desk.open())).status is J.succeeded
    assert (await desk.open("next")).status is J.queued
    assert (await provider_row(store))["failures"] == 1
    assert await events(desk) == []


async def test_a_circuit_that_never_opens(store: PostgresStore) -> None:
    provider, pay = failing("busy", "busy", "busy", circuit_failures=0)
    desk = Tellers(store, pay)
    job = await desk.open()
    for _ in range(3):
        job = await desk.again(job)
    assert (job.status, len(provider.keys)) == (J.succeeded, 4)
    assert await desk.sql("SELECT * FROM signoff.providers") == []


async def test_only_one_tries_at_a_time(store: PostgresStore) -> None:
    counter = Counter()
    desk = Tellers(store, counter.tool(circuit_open=timedelta(hours=1)))
    await desk.enrol()
    failed = "INSERT INTO signoff.providers (name, failures, opened_at, open_until) VALUES (%s, 5, now(), now())"
    await desk.sql(failed, f"{AGENT}/pay")
    jobs = [await desk.submit(str(number)) for number in range(3)]
    async with side_by_side(desk, jobs, counter, waiting=2):
        assert (counter.most, (await provider_row(store))["wait_for_circuit"]) == (1, 2)
    assert await events(desk) == ["closed"]
    assert {(await desk.again(job)).status for job in jobs} == {J.succeeded}


async def test_an_operator_closes_a_circuit(store: PostgresStore) -> None:
    _, pay = failing("busy", "busy")
    desk = Tellers(store, pay)
    await desk.again(await desk.open())
    other = await desk.open("grace")
    name = f"{AGENT}/pay"
    done = await close_circuit(store, OPERATOR, name, "they say that it is mended", "r")
    assert (dict(done.outcome), await events(desk)) == (
        {"provider": name, "closed": True, "effects": 1},
        ["opened", "closed"],
    )
    assert (await close_circuit(store, OPERATOR, name, "they say that it is mended", "r")).repeated
    assert (await desk.run(other.id)).status is J.succeeded
    with pytest.raises(ProviderNotFound):
        await close_circuit(store, OPERATOR, "elsewhere", "x")
