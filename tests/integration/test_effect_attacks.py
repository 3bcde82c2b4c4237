"""Attacks on effects: that they happen twice, go missing without a word, or are stuck."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, StateGraph

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.errors import CarriedOutElsewhere, DigestMismatch, StoreUnavailable
from signoff.domain.fork_points import KeptDecisions
from signoff.domain.forking import fork_job
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operating import Finding, Settlement, replay_effect, resolve_effect
from signoff.domain.policy import allow, review
from signoff.infra.hints import NoHints
from signoff.infra.postgres.effects import EffectTable
from signoff.infra.postgres.restoring import mark_restored
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers import NotApplied, ProbeAnswer, Refused, current_effect, effect, evidence, recording
from signoff.workers.alone import LoneRunner
from signoff.workers.answering import current
from signoff.workers.declaring import terms_of
from signoff.workers.dispatcher import DoubtLapsedEffects
from signoff.workers.prechecking import Prechecks, run_precheck
from signoff.workers.probing import Asks, ask_provider
from signoff.workers.serving import serve
from signoff.workers.waking_forks import WakeForks
from tests.integration.test_effect_classes import APPROVE, PEOPLE, QUIET, TAKEN_OVER, Desk, losing_its_lease
from tests.integration.test_lone_reviews import paid
from tests.support.api import open_api, open_store
from tests.support.models import calling
from tests.support.operators import hire
from tests.support.own_graph import Books, Node, Office, State
from tests.support.parked import AGENT, OPERATOR, PRODUCER
from tests.support.paying import Provider
from tests.support.runners import ENVIRONMENT
from tests.support.till import Shop

pytestmark = pytest.mark.anyio

S = EffectStatus
SAID = Settlement(OPERATOR, "looked at it")
KEYED = {"window": timedelta(hours=24)}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def alarms(desk: Any) -> list[str]:
    return [row["kind"] for row in await desk.sql("SELECT kind FROM signoff.alarms")]


# --- a probe and time --------------------------------------------------------------------------------------------


async def test_not_found_counts_from_when_the_provider_was_asked(store: PostgresStore) -> None:
    """Unguarded: asked within the quiet period, answered after it: "not found" counts as if it had been asked after
    it."""
    provider = Provider(behaves=["later"])

    async def probe(args: Mapping[str, Any]) -> ProbeAnswer:
        first = not provider.asked
        found = await provider.probe(args)
        if first:
            provider.arrive()
            await asyncio.sleep(1.1)  # the word of the provider takes its time, longer than the quiet period
        return found

    desk = Desk(store, provider.tool("queryable", probe=probe, quiet_period=timedelta(seconds=1)))
    job = await desk.again(await desk.open())
    assert provider.applied == ["ada"], (job.status, await desk.sql("SELECT finding, at FROM signoff.probes"))


# --- an operator and a probe -------------------------------------------------------------------------------------


async def test_what_a_provider_says_while_an_operator_says_otherwise_is_not_thrown_away(store: PostgresStore) -> None:
    """Unguarded: the probe's "applied" is dropped, because the effect has moved; the same run then sends it again."""
    provider = Provider(behaves=["lost"])

    async def probe(args: Mapping[str, Any]) -> ProbeAnswer:
        operation = current_effect().operation_id
        if not provider.asked:
            await resolve_effect(store, NoHints(), operation, Finding.not_applied, SAID, None, environment=ENVIRONMENT)
        return await provider.probe(args)

    desk = Desk(store, provider.tool("queryable", probe=probe))
    job = await desk.again(await desk.open())
    job = await desk.again(job) if job.status is JobStatus.queued else job
    assert provider.applied == ["ada"] or await alarms(desk), (
        job.status,
        await desk.sql("SELECT * FROM signoff.probes"),
    )


# --- another declaration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect_class", ["keyed", "transactional", "idempotent", "queryable"])
async def test_a_try_is_judged_by_what_its_tool_declared_when_it_was_sent(
    store: PostgresStore, effect_class: str
) -> None:
    """Unguarded: an opaque call (no key, no transaction) whose worker was lost is sent again after a deploy that
    declares another class, as if the first try had been of that."""
    provider = Provider(behaves=["lost"], finds=["not_found"])  # the first try has left no reference of ours there

    @effect("opaque")
    @tool
    async def pay(to: str) -> str:
        """Pays."""
        await desk.sql(TAKEN_OVER)
        return provider.request(to)

    desk = Desk(store, pay)
    job = await desk.open()
    assert (await desk.only(job)).status is S.dispatched
    terms: dict[str, Any] = KEYED if effect_class == "keyed" else {}
    deployed = Desk(store, provider.tool(effect_class, **terms), calls=False)
    await desk.sql(QUIET)
    job = await deployed.again(job)
    assert provider.applied == ["ada"], (job.status, (await desk.only(job)).attempts)


# --- answers that come late --------------------------------------------------------------------------------------


@pytest.mark.parametrize("finds", ["not_found", "refused"])
async def test_a_success_that_comes_after_a_replay_raises_an_alarm(store: PostgresStore, finds: str) -> None:
    """Unguarded: an operator has planned the effect again (after `dead` the same generation, after `failed` the next
    one): a late success of the earlier try settles nothing and raises no alarm, and the effect is sent twice."""
    provider = Provider(finds=[finds])

    @effect("queryable", probe=provider.probe, quiet_period=timedelta(hours=1), max_attempts=1)
    @tool
    async def pay(to: str) -> str:
        """Pays; the first time the worker stands still, and others go on meanwhile."""
        if not provider.keys:
            said = provider.request(to)
            await others_go_on()
            return said
        return provider.request(to)

    async def others_go_on() -> None:
        await desk.sql(TAKEN_OVER)
        await DoubtLapsedEffects(store).step()
        (row,) = await desk.sql("SELECT operation_id FROM signoff.effects")
        async with store.begin() as tx:
            await tx.doubt.ask_provider(row["operation_id"])
        await desk.sql(QUIET)
        await desk.alone.run(row["operation_id"])
        await replay_effect(store, NoHints(), row["operation_id"], SAID)

    desk = Desk(store, pay)
    job = await desk.open()
    second = Desk(store, pay, calls=False)
    operation = (await desk.only(job)).operation_id
    await second.again(job)
    await second.alone.run(operation)
    assert provider.applied == ["ada"] or await alarms(desk), await desk.sql(
        "SELECT attempt, outcome, settled FROM signoff.evidence"
    )


@pytest.mark.parametrize("end", ["refuse", "busy"])
async def test_a_success_that_was_kept_is_heard_whatever_the_next_try_comes_to(store: PostgresStore, end: str) -> None:
    """Unguarded: a late success of try 1 is kept while try 2 is under way, whose "own end will find it": it looks for
    it only if that end is unknown. Refused (a provider that knows its reference already), the effect is `failed`."""
    provider = Provider(finds=["not_found"])
    go, sent = asyncio.Event(), asyncio.Event()

    @effect("queryable", probe=provider.probe, quiet_period=timedelta(hours=1), max_attempts=2)
    @tool
    async def pay(to: str) -> str:
        """Pays. The first worker hears of it while the second is under way."""
        if not provider.keys:
            said = provider.request(to)
            await desk.sql(TAKEN_OVER)
            sent.set()
            await go.wait()
            return said
        provider.behaves = [end]
        go.set()
        await first
        return provider.request(to)

    desk = Desk(store, pay)
    first = asyncio.create_task(desk.open())
    await asyncio.wait_for(sent.wait(), 20)
    await DoubtLapsedEffects(store).step()
    (row,) = await desk.sql("SELECT operation_id, job_id FROM signoff.effects")
    async with store.begin() as tx:
        await tx.doubt.ask_provider(row["operation_id"])
    await desk.sql(QUIET)
    await desk.alone.run(row["operation_id"])
    second = Desk(store, pay, calls=False)
    await second.hurry()
    job = await second.run(row["job_id"])
    found = await second.only(job)
    assert (provider.applied, found.status) == (["ada"], S.succeeded), (
        job.status,
        await alarms(desk),
        await desk.sql("SELECT attempt, outcome, settled FROM signoff.evidence"),
    )


async def test_a_late_answer_is_kept_although_the_database_is_away_for_a_moment(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unguarded: the record is tried again while the database is away; the evidence, which is written because the
    lease was lost (often for the same reason), is tried once."""
    keep, away = evidence.keep_late, [True]

    async def keep_late(*given: Any) -> None:
        if away:
            raise StoreUnavailable(f"restarting {away.pop()}")
        await keep(*given)

    monkeypatch.setattr(recording, "keep_late", keep_late)
    here: list[Desk] = []
    here.append(Desk(store, losing_its_lease(here)))
    await here[0].open()
    assert await here[0].sql("SELECT outcome FROM signoff.evidence") == [{"outcome": "succeeded"}]


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
@pytest.mark.parametrize("asked", ["probe", "precheck"])
async def test_who_is_asked_can_not_end_the_worker(store: PostgresStore, error: BaseException, asked: str) -> None:
    """Unguarded: what a tool raises is caught, whatever it is; what its probe or precheck raises is not."""

    def raising(args: Mapping[str, Any]) -> Any:
        raise error

    provider = Provider()
    tool_ = provider.tool("queryable", **{asked: raising})
    if asked == "precheck":
        job = _job()
        called: Any = run_precheck(Prechecks(job, raising), current(job), {"to": "ada"})
    else:
        job = _job()
        called = ask_provider(Asks(job, tool_, terms_of(tool_), datetime.now(UTC)), current(job), {"to": "ada"})
    try:
        await called
    except BaseException as raised:
        pytest.fail(f"{type(raised).__name__} goes on")


def _job() -> Effect:
    return Effect("op", 0, UUID(int=1), "t", "pay", {"to": "ada"}, "d", S.in_doubt, 1)


async def test_a_late_refusal_holds_the_job_where_its_tool_wants_that(store: PostgresStore) -> None:
    """Unguarded: a refusal that comes late is told to the agent, although the tool says `on_refusal="hold"`."""

    @effect("opaque", on_refusal="hold")
    @tool
    async def pay(to: str) -> str:
        """Pays."""
        await desk.sql(TAKEN_OVER)
        await DoubtLapsedEffects(store).step()
        raise Refused("closed")

    desk = Desk(store, pay)
    job = await desk.open()
    found = await desk.only(job)
    assert (found.status, found.holds) == (S.failed, True)


# --- effects that run by themselves ------------------------------------------------------------------------------


async def test_a_lone_worker_that_stood_still_for_its_lease_sends_nothing(store: PostgresStore) -> None:
    """Unguarded: a run asks its guard before the first byte; a call that runs by itself does not."""
    provider = Provider(behaves=["refuse"])
    desk = Desk(store, provider.tool("queryable", quiet_period=timedelta(seconds=0.1)))
    job = await desk.open()
    operation = (await desk.only(job)).operation_id
    await replay_effect(store, NoHints(), operation, SAID)

    agents = {AGENT: serve(desk.agent, Settings())}
    slow = LoneRunner(store, agents, ENVIRONMENT, "worker-2", lease=timedelta(seconds=0.3), drain_seconds=1.0)
    prepare = cast(Any, slow)._prepare

    async def standing_still(*given: Any) -> Any:
        sent = await prepare(*given)
        await asyncio.sleep(0.4)
        await DoubtLapsedEffects(store).step()
        for _ in range(2):
            await desk.alone.run(operation)  # asks; then sends
        return sent

    cast(Any, slow)._prepare = standing_still
    with contextlib.suppress(Exception):
        await slow.run(operation)
    assert provider.applied == ["ada"], await desk.sql("SELECT number, fence, outcome FROM signoff.attempts")


async def test_a_lone_call_whose_worker_is_lost_each_time_is_given_up(store: PostgresStore) -> None:
    """Unguarded: a transactional one goes from each lapse to `retry_wait` without a look at its budget, for ever."""

    @effect("transactional", max_attempts=3)
    @tool
    async def book(to: str) -> str:
        """Books."""
        raise Refused("full")

    desk = Desk(store, book)
    job = await desk.open()
    operation = (await desk.only(job)).operation_id
    await replay_effect(store, NoHints(), operation, SAID)
    for _ in range(6):
        async with store.begin() as tx:
            effect_ = await tx.effects.lock(operation)
            assert effect_ is not None
        if effect_.attempts >= 3:
            await desk.alone.run(operation)
            break
        async with store.begin() as tx:
            if effect_.status in (S.planned, S.retry_wait):
                lapsed = await tx.now() - timedelta(seconds=1)
                fence = -(effect_.attempts + 1)
                await tx.effects.dispatch(effect_, terms_of(book), fence=fence, worker="lost", lease_until=lapsed)
        await DoubtLapsedEffects(store).step()
    found = await desk.only(job)
    assert (found.status, found.attempts) == (S.dead, 3)


# --- what the agent was told of ----------------------------------------------------------------------------------


class TwoCalls(Desk):
    """Its model calls the one, and then the other, which needs a person."""

    def __init__(self, store: PostgresStore, *tools: BaseTool) -> None:
        pay, sign = calling(("pay", {"to": "ada"})), calling(("sign", {"what": "it"}))
        rules = (review("sign", reviewers=["finance"]), allow("*"))
        super(Shop, self).__init__(store, tools, pay, sign, "Done.", rules=rules)


@pytest.mark.parametrize("end", ["dead", "in_doubt"])
async def test_what_an_operator_lets_go_on_after_the_agent_was_told_is_sent(store: PostgresStore, end: str) -> None:
    """Unguarded: `on_dead`/`on_doubt="tell_agent"`: the agent was told, and its job goes on. A replay (or "not
    applied") plans the effect; no run comes by, it does not run by itself, and it is cancelled when the job ends."""
    provider = Provider(behaves=["busy" if end == "dead" else "dropped"])
    pay = provider.tool("opaque", max_attempts=1, on_dead="tell_agent", on_doubt="tell_agent")

    @effect("opaque")
    @tool
    async def sign(what: str) -> str:
        """Signs."""
        return "signed"

    desk = TwoCalls(store, pay, sign)
    job = await desk.open()
    told = await desk.only(job)
    assert (job.status, told.status) == (JobStatus.awaiting_review, S(end))
    if end == "dead":
        await replay_effect(store, NoHints(), told.operation_id, SAID)
    else:
        await resolve_effect(
            store, NoHints(), told.operation_id, Finding.not_applied, SAID, None, environment=ENVIRONMENT
        )
    async with store.begin() as tx:
        offered = await tx.effects.take_due_alone(timedelta(), 10)
    for _, operation in offered:
        await desk.alone.run(operation)
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    after = next(one for one in await desk.effects(job.id) if one.operation_id == told.operation_id)
    assert (after.status, provider.applied) == (S.succeeded, ["ada"]), job.status


# --- forks -------------------------------------------------------------------------------------------------------


async def forked(desk: Desk, job: Job) -> Job:
    done = await fork_job(desk.store, NoHints(), job.id, OPERATOR, "another try", decisions=KeptDecisions.ask)
    return await desk.job(UUID(done.outcome["job_id"]))


async def test_a_fork_goes_on_once_the_effect_that_it_waits_for_is_settled(store: PostgresStore) -> None:
    """Unguarded: it waits for an operator to settle the effect of its source; who does that wakes the source alone."""
    provider = Provider(behaves=["lost"])
    desk = Desk(store, provider.tool(), rules=PEOPLE)
    job = await desk.open()
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    assert job.status is JobStatus.awaiting_operator
    other = Desk(store, provider.tool(), rules=PEOPLE, calls=False)
    fork = await other.run((await forked(desk, job)).id)
    assert fork.status is JobStatus.awaiting_operator
    operation = (await desk.only(job)).operation_id
    found = Settlement(OPERATOR, "looked at it", reference="p-1")
    await resolve_effect(store, NoHints(), operation, Finding.applied, found, None, environment=ENVIRONMENT)
    assert (await desk.job(job.id)).status is JobStatus.queued
    await WakeForks(store, NoHints()).step()
    assert (await desk.job(fork.id)).status is JobStatus.queued


async def test_a_fork_is_told_of_doubt_where_the_tool_wants_that(store: PostgresStore) -> None:
    """Unguarded: it waits for an operator, whatever the tool says."""
    provider = Provider(behaves=["lost"])
    desk = Desk(store, provider.tool(on_doubt="tell_agent"), rules=PEOPLE)
    job = await desk.open()
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    assert job.status is JobStatus.succeeded
    other = Desk(store, provider.tool(on_doubt="tell_agent"), rules=PEOPLE, calls=False)
    fork = await other.run((await forked(desk, job)).id)
    assert fork.status is JobStatus.succeeded, fork.error_message


async def test_a_fork_from_before_a_restore_is_in_doubt_as_its_source_is(store: PostgresStore) -> None:
    """Unguarded: what the source did in the lost time has the same operation; a fork that is made after the restore
    counts as a job from after it, and sends."""
    provider = Provider()
    desk = Desk(store, provider.tool(), rules=PEOPLE)
    job = await desk.open()
    await cancel_job(store, NoHints(), job.id, PRODUCER)
    async with store.begin() as tx:
        await mark_restored(tx.conn, await tx.now(), "the disk was lost", "olga")
    other = Desk(store, provider.tool(), rules=PEOPLE, calls=False)
    fork = await other.run((await forked(desk, job)).id)
    await other.say(fork.id, APPROVE)
    fork = await other.run(fork.id)
    (found,) = await desk.sql("SELECT status FROM signoff.effects")
    assert (found["status"], provider.applied) == ("in_doubt", []), fork.status


@pytest.mark.parametrize("second", ["approve", "edit"])
async def test_two_forks_of_one_call_do_not_both_carry_it_out(store: PostgresStore, second: str) -> None:
    """Unguarded: two forks wait for a review of one call at once. One is edited, and carried out under the operation
    of its edit; the other is approved as it was, and carried out too, and its reviewer is not told. Edited otherwise,
    its reviewer gets a conflict for ever."""
    provider = Provider()
    desk = Desk(store, provider.tool(), rules=PEOPLE)
    source = await desk.open()
    await cancel_job(store, NoHints(), source.id, PRODUCER)
    forks = [await forked(desk, source) for _ in range(2)]
    other = Desk(store, provider.tool(), rules=PEOPLE, calls=False)
    for fork in forks:
        assert (await other.run(fork.id)).status is JobStatus.awaiting_review
    edited = [{"type": "edit", "edited_action": {"name": "pay", "args": {"to": who}}} for who in ("bob", "eve")]
    await other.say(forks[0].id, edited[0])
    await other.run(forks[0].id)
    with pytest.raises(CarriedOutElsewhere):
        await other.say(forks[1].id, APPROVE if second == "approve" else edited[1])
    await other.run(forks[1].id)
    assert provider.applied == ["bob"]


async def test_who_is_second_to_plan_an_effect_is_not_told_that_nobody_allowed_it(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unguarded: a fork and its source, or two forks, reach a call that the policy allows at once: `allow` finds the
    other's row, and the agent is told that nobody has decided, and that the call did not run."""
    provider, allowing = Provider(), EffectTable.allow

    async def second(self: EffectTable, *given: Any, **more: Any) -> Any:
        async with store.begin() as tx:
            await allowing(tx.effects, *given, **more)
        return await allowing(self, *given, **more)

    monkeypatch.setattr(EffectTable, "allow", second)
    desk = Desk(store, provider.tool())
    job = await desk.open()
    assert "did not run" not in await desk.told(job), await desk.told(job)


# --- nodes of an author's own ------------------------------------------------------------------------------------


class Twice(Node):
    """Two nodes beside each other, that use the same key."""

    def build(self, checkpointer: Any) -> StateGraph[Any]:
        graph = StateGraph(State)
        for name in ("left", "right"):
            graph.add_node(name, self)
            graph.add_edge(START, name)
            graph.add_edge(name, END)
        return graph


@pytest.mark.parametrize("effect_class", ["opaque", "keyed", "idempotent"])
async def test_one_key_in_two_nodes_at_once_is_one_effect(store: PostgresStore, effect_class: str) -> None:
    """Unguarded: the second is told that nobody has allowed it, or takes the first for one whose worker was lost."""

    class Slow(Books):
        @property
        def tools(self) -> list[BaseTool]:
            @effect(effect_class, window=timedelta(hours=24) if effect_class == "keyed" else None)
            @tool
            async def pay(to: str) -> str:
                """Pays."""
                self.done.append(to)
                await asyncio.sleep(0.2)
                return f"paid {to}"

            return [pay]

    heard: list[str] = []

    async def work() -> str:
        try:
            heard.append(str(await effect.run("pay", {"to": "ada"}, key="k")))
        except Refused as no:
            heard.append(str(no))
        return "done"

    books = Slow()
    office = Office(store, books, Twice(work), [allow("*")])
    job = await office.open()
    (found,) = await office.effects(job.id)
    assert (job.status, heard, found.status, books.done) == (
        JobStatus.succeeded,
        ["paid ada"] * 2,
        S.succeeded,
        ["ada"],
    ), (job.error_code, job.error_message)


# --- what a provider asks for ------------------------------------------------------------------------------------


async def test_a_time_beyond_every_calendar_is_not_waited_for(store: PostgresStore) -> None:
    """Unguarded: `now + retry_after` is beyond the calendar: the record itself fails, and a definite answer is lost."""

    @effect("opaque")
    @tool
    async def pay(to: str) -> str:
        """Pays."""
        raise NotApplied("later", retry_after=timedelta.max)

    desk = Desk(store, pay)
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.awaiting_operator, S.dead), job.error_message


# --- in our own database -----------------------------------------------------------------------------------------


async def test_a_tool_that_has_swallowed_a_failed_statement_is_tried_again_or_told(store: PostgresStore) -> None:
    """Unguarded: the record then fails in the broken transaction, with an error that nobody expects."""

    @effect("transactional", max_attempts=1)
    @tool
    async def book(to: str) -> str:
        """Books."""
        with contextlib.suppress(Exception):
            await current_effect().connection.execute("SELECT 1/0")
        return "booked"

    desk = Desk(store, book)
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.awaiting_operator, S.dead), job.error_message


async def test_what_a_lost_worker_has_rolled_back_does_not_wait_for_a_job_that_has_ended(store: PostgresStore) -> None:
    """Unguarded: the dispatcher takes it to `retry_wait` after its job was cancelled; nobody tries it, nobody ends
    it."""

    @effect("transactional")
    @tool
    async def book(to: str) -> str:
        """Books; its worker is lost, and its job cancelled."""
        await desk.sql(TAKEN_OVER)
        (row,) = await desk.sql("SELECT id FROM signoff.jobs")
        await cancel_job(store, NoHints(), row["id"], PRODUCER)
        return "booked"

    desk = Desk(store, book)
    job = await desk.open()
    await DoubtLapsedEffects(store).step()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.cancelled, S.cancelled)


async def test_a_tool_that_commits_by_itself_is_not_repeated(store: PostgresStore) -> None:
    """Unguarded: COMMIT as text gets through; what was written before it stays, and the failed try is repeated."""
    async with store.connection() as conn:
        await conn.execute("CREATE TABLE IF NOT EXISTS public.bookings (what text)")

    @effect("transactional", first_delay=timedelta())
    @tool
    async def book(to: str) -> str:
        """Books."""
        mine = current_effect().connection
        await mine.execute("INSERT INTO public.bookings VALUES (%s)", (to,))
        await mine.execute("COMMIT")
        raise RuntimeError("who knows")

    desk = Desk(store, book)
    job = await desk.open()
    job = await desk.again(job)
    (row,) = await desk.sql("SELECT count(*) AS rows FROM public.bookings")
    assert row["rows"] == 1, (job.status, (await desk.only(job)).status)


# --- what was approved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True])
async def test_other_arguments_than_those_of_the_digest_do_not_leave(store: PostgresStore, alone: bool) -> None:
    """Unguarded: the tool is given the arguments of the row; the digest is compared with the call's, and for a call
    that runs by itself with nothing. A row that was altered leaves as it is."""
    provider = Provider(behaves=["refuse"] if alone else [])
    desk = Desk(store, provider.tool(), rules=PEOPLE)
    job = await desk.open()
    await desk.say(job.id, APPROVE)
    altered = 'UPDATE signoff.effects SET args = \'{"to": "eve"}\''
    if alone:
        await desk.run(job.id)
        operation = (await desk.only(job)).operation_id
        await replay_effect(store, NoHints(), operation, SAID)
        await desk.sql(altered)
        with contextlib.suppress(DigestMismatch):
            await desk.alone.run(operation)
    else:
        await desk.sql(altered)
        await desk.run(job.id)
    assert provider.applied == []


async def test_what_is_paused_while_a_dispatch_is_prepared_does_not_leave(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unguarded: whether anything holds back is read at the beginning of the transaction; a pause that is committed,
    and confirmed to its operator, before the mark is not seen."""
    provider, allowing = Provider(), EffectTable.allow

    async def meanwhile(self: EffectTable, *given: Any, **more: Any) -> Any:
        await desk.sql("INSERT INTO signoff.pauses (id, reason, created_by) VALUES (gen_random_uuid(), 'stop', 'olga')")
        return await allowing(self, *given, **more)

    monkeypatch.setattr(EffectTable, "allow", meanwhile)
    desk = Desk(store, provider.tool())
    await desk.open()
    assert provider.applied == []


# --- compensations -----------------------------------------------------------------------------------------------


async def test_a_compensation_that_was_refused_is_not_replayed_once_another_has_succeeded(database_url: str) -> None:
    """Unguarded: after a refused one another may be asked for; then the refused one can still be replayed."""
    async with open_api(database_url, pool_size=10) as api:
        api.tokens = {**api.tokens, **await hire(api.store)}
        desk = await paid(api)
        desk.bank.closed = True
        refused = await desk.done(await desk.ask())
        assert refused["status"] == "failed"
        desk.bank.closed = False
        assert (await desk.done(await desk.ask()))["status"] == "succeeded"
        answer = await desk.api.post("olga", f"/v1/effects/{refused['operation_id']}/replay", {"reason": "it failed"})
        await desk.shop.alone.run(refused["operation_id"])
        assert desk.bank.done == [("pay", 30), ("p-1", 30)], answer.text
