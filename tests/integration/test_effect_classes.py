"""What each class makes of an answer that is lost, against a provider that keeps its own log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool

from signoff.domain.cancelling import cancel_job
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import StoreUnavailable
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.operating import Settlement, skip_effect
from signoff.domain.policy import Rule, allow, review
from signoff.domain.probing import probe_effect
from signoff.infra.effect_results import pack_text
from signoff.infra.hints import NoHints
from signoff.infra.postgres.restoring import mark_restored
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Changed, Refused, current_effect, effect
from signoff.workers.dispatcher import DoubtLapsedEffects
from signoff.workers.faults import Faults, Point
from signoff.workers.guarding import Stop
from tests.support.api import open_store
from tests.support.models import calling
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.paying import Provider
from tests.support.runners import ENVIRONMENT
from tests.support.till import Shop

pytestmark = pytest.mark.anyio

S = EffectStatus
APPROVE = {"type": "approve"}
QUIET = "UPDATE signoff.effects SET last_dispatched_at = last_dispatched_at - interval '2 hours'"
TAKEN_OVER = (
    "UPDATE signoff.jobs SET status = 'queued', run_at = clock_timestamp() + interval '1 hour', fence = fence + 1,"
    " lease_until = NULL"
)
HANDLED = "CREATE TABLE IF NOT EXISTS public.bookings (what text)"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


class Desk(Shop):
    """A worker over these tools, whose model calls the first of them and then says that it is done."""

    def __init__(
        self,
        store: PostgresStore,
        *tools: BaseTool,
        rules: tuple[Rule, ...] = (allow("*"),),
        calls: bool = True,
        faults: Faults | None = None,
    ) -> None:
        call = [calling((tools[0].name, {"to": "ada"}))] if calls else []
        super(Shop, self).__init__(store, tools, *call, "Done.", rules=rules, faults=faults)

    async def again(self, job: Job) -> Job:
        """Once every wait is over."""
        await self.hurry()
        return await self.run(job.id)

    async def only(self, job: Job) -> Any:
        (found,) = await self.effects(job.id)
        return found


# --- in our own database ---------------------------------------------------------------------------------------


def booking(*problems: Exception, before: Any = None) -> BaseTool:
    """Books in our own database; the first times it fails after it has written."""
    left = list(problems)

    @effect("transactional", first_delay=timedelta(seconds=1))
    @tool
    async def book(to: str) -> str:
        """Books."""
        await current_effect().connection.execute("INSERT INTO public.bookings VALUES (%s)", (to,))
        if before is not None:
            await before()
        if left:
            raise left.pop(0)
        return "booked"

    return book


async def booked(desk: Desk) -> int:
    (row,) = await desk.sql("SELECT count(*) AS rows FROM public.bookings")
    return int(row["rows"])


@pytest.fixture
async def bookings(store: PostgresStore) -> PostgresStore:
    async with store.connection() as conn:
        await conn.execute(HANDLED)
    return store


async def test_an_effect_in_our_database_is_committed_with_its_record(bookings: PostgresStore) -> None:
    desk = Desk(bookings, booking())
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status, await booked(desk)) == (JobStatus.succeeded, S.succeeded, 1)
    assert await desk.told(job) == "booked"


async def test_one_that_fails_has_left_nothing_and_is_tried_again(bookings: PostgresStore) -> None:
    desk = Desk(bookings, booking(RuntimeError("who knows"), ValueError("again")))
    job = await desk.open()
    waiting = await desk.only(job)
    assert (waiting.status, waiting.doubt_since, await booked(desk)) == (S.retry_wait, None, 0)
    job = await desk.again(await desk.again(job))
    assert (job.status, (await desk.only(job)).attempts, await booked(desk)) == (JobStatus.succeeded, 3, 1)


async def test_one_that_is_refused_has_left_nothing(bookings: PostgresStore) -> None:
    desk = Desk(bookings, booking(Refused("full")))
    job = await desk.open()
    assert ((await desk.only(job)).status, await booked(desk)) == (S.failed, 0)


async def test_a_worker_that_lost_its_lease_writes_nothing(bookings: PostgresStore) -> None:
    async def take_over() -> None:
        await desk.sql(TAKEN_OVER)

    desk = Desk(bookings, booking(before=take_over))
    job = await desk.open()
    assert await booked(desk) == 0
    assert (await desk.only(job)).status is S.dispatched

    await DoubtLapsedEffects(bookings).step()
    lapsed = await desk.only(job)
    assert (lapsed.status, lapsed.doubt_since) == (S.retry_wait, None), "it is certain that nothing happened"
    await desk.sql("UPDATE signoff.jobs SET run_at = clock_timestamp()")
    second = Desk(bookings, booking(), calls=False)
    assert (await second.run(job.id)).status is JobStatus.succeeded
    assert await booked(second) == 1


async def test_a_commit_whose_answer_is_lost_counts_once(
    bookings: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(bookings, booking())
    lose_the_answer_to(bookings, "public.bookings", monkeypatch)
    job = await desk.open()
    assert (job.status, await booked(desk)) == (JobStatus.succeeded, 1)
    assert (await desk.only(job)).attempts == 1


def lose_the_answer_to(store: PostgresStore, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first transaction that leaves rows in `table` is committed, and its caller is told that it failed."""
    begin, lost = store.begin, [True]

    @asynccontextmanager
    async def losing() -> AsyncIterator[Any]:
        async with begin() as tx:
            yield tx
            row = await (await tx.conn.execute(f"SELECT count(*) AS rows FROM {table}")).fetchone()
        assert row is not None
        if row["rows"] and lost and lost.pop():
            raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store, "begin", losing)


# --- providers that can be asked ---------------------------------------------------------------------------------


async def test_the_provider_says_that_it_happened(store: PostgresStore) -> None:
    provider = Provider(behaves=["lost"])
    desk = Desk(store, provider.tool("queryable"))
    job = await desk.again(await desk.open())
    found = await desk.only(job)
    assert (job.status, found.status, found.provider_reference) == (JobStatus.succeeded, S.succeeded, "p-1")
    assert (provider.applied, len(provider.asked), await desk.told(job)) == (["ada"], 1, "paid ada")
    assert await desk.sql("SELECT finding, reference FROM signoff.probes") == [
        {"finding": "applied", "reference": "p-1"}
    ]


async def test_not_found_counts_after_the_quiet_period_only(store: PostgresStore) -> None:
    provider = Provider(behaves=["later"])
    desk = Desk(store, provider.tool("queryable"))
    job = await desk.again(await desk.open())
    waits = await desk.only(job)
    assert (job.status, waits.status, provider.keys) == (JobStatus.queued, S.in_doubt, provider.keys[:1])
    assert (await desk.sql("SELECT waits_for FROM signoff.effects")) == [{"waits_for": "answer"}]

    provider.arrive()  # later than the first question
    job = await desk.again(job)
    assert (job.status, provider.applied, len(provider.keys)) == (JobStatus.succeeded, ["ada"], 1)


async def test_what_did_not_happen_is_sent_again(store: PostgresStore) -> None:
    provider = Provider(behaves=["dropped"])
    desk = Desk(store, provider.tool("queryable"))
    job = await desk.open()
    await desk.sql(QUIET)
    job = await desk.again(job)
    assert (job.status, provider.applied, len(provider.keys)) == (JobStatus.succeeded, ["ada"], 2)
    assert len(set(provider.keys)) == 1


async def test_the_provider_says_that_it_refused(store: PostgresStore) -> None:
    provider = Provider(behaves=["dropped"], finds=["refused"])
    desk = Desk(store, provider.tool("queryable"))
    job = await desk.again(await desk.open())
    assert (job.status, (await desk.only(job)).status, provider.applied) == (JobStatus.succeeded, S.failed, [])


async def test_a_provider_that_can_not_say_is_asked_later_and_at_last_a_person_is(store: PostgresStore) -> None:
    nobody_knows: list[Any] = [RuntimeError("down"), "unknown", "nonsense"]
    provider = Provider(behaves=["lost"], finds=nobody_knows)
    desk = Desk(store, provider.tool("queryable", max_elapsed=timedelta(hours=1)))
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.queued, S.in_doubt)
    job = await desk.again(job)
    await desk.sql(QUIET)
    job = await desk.again(job)
    assert (job.status, len(provider.asked), provider.keys) == (JobStatus.awaiting_operator, 3, provider.keys[:1])

    operation = (await desk.only(job)).operation_id
    await probe_effect(store, NoHints(), operation, Settlement(OPERATOR, "their status page is green again"))
    await desk.alone.run(operation)
    job = await desk.run(job.id)
    assert (job.status, provider.applied) == (JobStatus.succeeded, ["ada"])


async def test_doubt_that_outlives_its_job_is_asked_about_by_itself(store: PostgresStore) -> None:
    provider = Provider(behaves=["dropped"])
    desk = Desk(store, provider.tool("queryable"))
    job = await desk.open()
    await cancel_job(store, NoHints(), job.id, PRODUCER)
    await desk.sql(QUIET)
    async with store.begin() as tx:
        ((_, operation),) = await tx.effects.take_due_alone(timedelta(), 10)
    await desk.alone.run(operation)
    assert ((await desk.only(job)).status, len(provider.keys)) == (S.cancelled, 1), "nothing is sent for it any more"


# --- how an effect that ends badly goes on -------------------------------------------------------------------------


async def test_a_refusal_holds_the_job_where_its_tool_wants_that(store: PostgresStore) -> None:
    provider = Provider(behaves=["refuse"])
    desk = Desk(store, provider.tool("opaque", on_refusal="hold"))
    job = await desk.open()
    failed = await desk.only(job)
    assert (job.status, failed.status, failed.holds) == (JobStatus.awaiting_operator, S.failed, True)
    assert (await desk.again(job)).status is JobStatus.awaiting_operator

    await skip_effect(
        store,
        NoHints(),
        failed.operation_id,
        Settlement(OPERATOR, "by hand"),
        pack_text("paid by hand"),
        environment=ENVIRONMENT,
    )
    job = await desk.run(job.id)
    assert job.status is JobStatus.succeeded
    assert "paid by hand" in await desk.told(job)


async def test_doubt_is_told_where_its_tool_wants_that(store: PostgresStore) -> None:
    provider = Provider(behaves=["lost"])
    desk = Desk(store, provider.tool("opaque", on_doubt="tell_agent"))
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.succeeded, S.in_doubt)
    assert "Nobody knows" in await desk.told(job)


async def test_what_used_up_its_tries_is_told_where_its_tool_wants_that(store: PostgresStore) -> None:
    provider = Provider(behaves=["busy"])
    desk = Desk(store, provider.tool("opaque", max_attempts=1, on_dead="tell_agent"))
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status) == (JobStatus.succeeded, S.dead)
    assert "could not be carried out" in await desk.told(job)


async def test_the_time_that_a_provider_asks_for_wins(store: PostgresStore) -> None:
    provider = Provider(behaves=["busy"], retry_after=timedelta(minutes=40))
    desk = Desk(store, provider.tool("opaque", longest_delay=timedelta(seconds=1)))
    job = await desk.open()
    waits = await desk.only(job)
    assert waits.retry_at is not None
    assert waits.first_dispatched_at is not None
    assert timedelta(minutes=39) < waits.retry_at - waits.first_dispatched_at < timedelta(minutes=41)


async def test_a_time_beyond_the_budget_is_not_waited_for(store: PostgresStore) -> None:
    provider = Provider(behaves=["busy"], retry_after=timedelta(minutes=90))
    desk = Desk(store, provider.tool("opaque", max_elapsed=timedelta(hours=1)))
    job = await desk.open()
    found = await desk.only(job)
    assert (job.status, found.status) == (JobStatus.awaiting_operator, S.dead)
    assert (
        "1:00:00" in (await desk.sql("SELECT reason FROM signoff.effect_events WHERE to_status = 'dead'"))[0]["reason"]
    )


# --- prechecks ------------------------------------------------------------------------------------------------------


class Balance:
    """What a payment relies on."""

    def __init__(self, amount: int) -> None:
        self.amount = amount

    async def check(self, args: Mapping[str, Any]) -> None:
        if self.amount < 30:
            raise Changed(f"the balance is {self.amount}")


PEOPLE = (review("*", reviewers=["finance"]),)


async def test_what_has_changed_goes_back_to_review_and_says_what(store: PostgresStore) -> None:
    provider, balance = Provider(), Balance(50)
    desk = Desk(store, provider.tool("opaque", precheck=balance.check), rules=PEOPLE)
    job = await desk.open()
    balance.amount = 20
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    assert (job.status, provider.applied) == (JobStatus.awaiting_review, [])
    assert (await desk.item(job.id)).reason == "something has changed: the balance is 20"

    balance.amount = 10  # the reviewer has seen another change than this
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    assert (job.status, provider.applied) == (JobStatus.awaiting_review, [])

    await desk.say(job.id, APPROVE)  # knowing of exactly this
    job = await desk.run(job.id)
    assert (job.status, provider.applied) == (JobStatus.succeeded, ["ada"])


async def test_a_precheck_that_fails_lets_nothing_leave(store: PostgresStore) -> None:
    def broken(args: Mapping[str, Any]) -> None:
        raise ConnectionError("down")

    provider = Provider()
    desk = Desk(store, provider.tool("opaque", precheck=broken))
    job = await desk.open()
    assert (provider.applied, (await desk.only(job)).status) == ([], S.revoked)
    assert "the precheck failed" in await desk.told(job)


async def test_a_repeat_of_what_was_sent_is_not_checked(store: PostgresStore) -> None:
    """What the first try did may be the very change."""
    provider, balance = Provider(behaves=["lost"]), Balance(50)
    tool_ = provider.tool("keyed", window=timedelta(hours=24), precheck=balance.check)
    desk = Desk(store, tool_, rules=PEOPLE)
    job = await desk.open()
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    balance.amount = 20
    job = await desk.again(job)
    assert (job.status, len(set(provider.keys)), len(provider.keys)) == (JobStatus.succeeded, 1, 2)


# --- answers that come late -----------------------------------------------------------------------------------------


def losing_its_lease(desk: list[Desk], effect_class: str = "opaque", **terms: Any) -> BaseTool:
    """Pays, and its worker loses the lease before it hears of that."""

    @effect(effect_class, **terms)
    @tool
    async def pay(to: str) -> str:
        """Pays."""
        await desk[0].sql(TAKEN_OVER)
        return f"paid {to}"

    return pay


async def test_an_answer_that_comes_late_is_kept_and_settles_the_doubt(store: PostgresStore) -> None:
    here: list[Desk] = []
    here.append(Desk(store, losing_its_lease(here)))
    (desk,) = here
    job = await desk.open()
    found = await desk.only(job)
    assert found.status is S.succeeded
    assert await desk.sql("SELECT attempt, outcome, settled FROM signoff.evidence") == [
        {"attempt": 1, "outcome": "succeeded", "settled": True}
    ]
    second = Desk(store, Provider().tool(), calls=False)
    assert (await second.again(job)).status is JobStatus.succeeded
    assert await second.told(job) == "paid ada"
    assert await desk.sql("SELECT FROM signoff.alarms") == []


async def test_a_call_that_is_under_way_as_the_lease_is_lost_is_heard_out(store: PostgresStore) -> None:
    @effect("opaque")
    @tool
    async def pay(to: str) -> str:
        """Pays, and hears of the lost lease before it is answered."""
        await desk.sql(TAKEN_OVER)
        guard = desk.heartbeat.held[-1].guard
        guard.stop(Stop.lost)
        await guard.cut_off.wait()
        return f"paid {to}"

    desk = Desk(store, pay)
    job = await desk.open()
    assert (await desk.only(job)).status is S.succeeded
    assert await desk.sql("SELECT outcome FROM signoff.evidence") == [{"outcome": "succeeded"}]


async def test_an_answer_that_comes_after_another_was_sent_raises_an_alarm(store: PostgresStore) -> None:
    provider = Provider()

    @effect("keyed", window=timedelta(hours=24))
    @tool
    async def pay(to: str) -> str:
        """Pays, so slowly that another worker takes over and has paid before it is heard of."""
        paid = provider.request(to)
        if len(provider.keys) == 1:
            await desk.sql(TAKEN_OVER)
            await DoubtLapsedEffects(store).step()
            await second.again(job)
        return paid

    desk = Desk(store, pay)
    second = Desk(store, pay, calls=False)
    await desk.enrol()
    job = await desk.submit()
    await desk.run(job.id)
    assert len(provider.keys) == 2
    (alarm,) = await desk.sql("SELECT kind, message FROM signoff.alarms")
    assert alarm["kind"] == "duplicate"
    assert "1 more time" in alarm["message"]
    assert (await desk.only(job)).status is S.succeeded


async def test_a_late_success_against_what_the_ledger_says_raises_an_alarm(store: PostgresStore) -> None:
    here: list[Desk] = []

    @effect("opaque")
    @tool
    async def pay(to: str) -> str:
        """Pays, while an operator who sees nothing of it settles that it was not."""
        await here[0].sql(TAKEN_OVER)
        await here[0].sql(
            "UPDATE signoff.effects SET status = 'cancelled', ended_at = clock_timestamp(), doubt_since = NULL"
        )
        return f"paid {to}"

    here.append(Desk(store, pay))
    job = await here[0].open()
    (alarm,) = await here[0].sql("SELECT kind FROM signoff.alarms")
    assert alarm["kind"] == "contradiction"
    assert (await here[0].only(job)).status is S.cancelled


# --- results that are too large ------------------------------------------------------------------------------------


async def test_a_large_result_is_kept_aside_and_the_agent_is_told_its_beginning(store: PostgresStore) -> None:
    @effect("opaque", max_result_bytes=1000)
    @tool
    async def pay(to: str) -> str:
        """Says much."""
        return "x" * 5000

    desk = Desk(store, pay)
    job = await desk.open()
    told = await desk.told(job)
    assert job.status is JobStatus.succeeded
    assert told.startswith("x" * 900)
    assert "x" * 1001 not in told
    assert f"signoff effects result {(await desk.only(job)).operation_id}" in told
    (aside,) = await desk.sql("SELECT octet_length(result) AS bytes FROM signoff.results_aside")
    assert aside["bytes"] > 5000


# --- what holds effects back -----------------------------------------------------------------------------------------

PAUSE = "INSERT INTO signoff.pauses (id, tool, reason, created_by) VALUES (gen_random_uuid(), 'pay', 'night', 'olga')"
GO_ON = "UPDATE signoff.pauses SET ended_at = clock_timestamp(), ended_by = 'olga'"


async def test_a_pause_stops_dispatch_and_not_decisions(store: PostgresStore) -> None:
    provider = Provider()
    desk = Desk(store, provider.tool(), rules=PEOPLE)
    job = await desk.open()
    await desk.sql(PAUSE)
    await desk.say(job.id, APPROVE)
    job = await desk.run(job.id)
    held = await desk.only(job)
    assert (job.status, held.status, provider.applied) == (JobStatus.queued, S.planned, [])
    assert await desk.sql("SELECT waits_for FROM signoff.effects") == [{"waits_for": "pause"}]

    await desk.sql(GO_ON)
    job = await desk.again(job)
    assert (job.status, provider.applied) == (JobStatus.succeeded, ["ada"])


class EndsThePause:
    """While the run that it holds back is on the way to its park."""

    desk: Desk | None = None

    async def reach(self, point: Point) -> None:
        if point is Point.before_park and self.desk is not None:
            await self.desk.sql(GO_ON)
            await self.desk.sql("UPDATE signoff.effects SET retry_at = clock_timestamp()")


async def test_a_pause_that_ends_before_the_run_has_parked_is_not_waited_for(store: PostgresStore) -> None:
    provider, faults = Provider(), EndsThePause()
    desk = Desk(store, provider.tool(), faults=faults)
    faults.desk = desk
    await desk.enrol()
    await desk.sql(PAUSE)
    job = await desk.run((await desk.submit()).id)
    assert (job.status, provider.applied) == (JobStatus.succeeded, ["ada"])


async def test_a_provider_that_fails_again_and_again_is_left_alone_for_a_while(store: PostgresStore) -> None:
    provider = Provider(behaves=["busy", "busy", "ok"])
    tool_ = provider.tool("opaque", circuit_failures=2, first_delay=timedelta(seconds=1))
    desk = Desk(store, tool_)
    job = await desk.again(await desk.open())
    assert len(provider.keys) == 2
    job = await desk.again(job)
    assert (job.status, len(provider.keys)) == (JobStatus.queued, 2), "the circuit is open"
    assert await desk.sql("SELECT waits_for FROM signoff.effects") == [{"waits_for": "circuit"}]

    await desk.sql("UPDATE signoff.providers SET open_until = clock_timestamp()")
    job = await desk.again(job)
    assert (job.status, provider.applied) == (JobStatus.succeeded, ["ada"])
    assert await desk.sql("SELECT failures, opened_at FROM signoff.providers") == [{"failures": 0, "opened_at": None}]


async def test_no_more_calls_leave_than_the_limit_says(store: PostgresStore) -> None:
    provider = Provider()
    desk = Desk(store, provider.tool("opaque", per_minute=1.0))
    first, second = await desk.open(), await desk.submit()
    assert first.status is JobStatus.succeeded
    other = Desk(store, provider.tool("opaque", per_minute=1.0))
    job = await other.run(second.id)
    assert (job.status, len(provider.keys)) == (JobStatus.queued, 1)
    assert (await other.only(job)).status is S.planned


# --- backups that were restored ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect_class", "sent"), [("opaque", 0), ("keyed", 0), ("read", 1)], ids=["opaque", "keyed", "read"]
)
async def test_a_job_of_before_a_restore_sends_nothing_that_may_have_left(
    store: PostgresStore, effect_class: str, sent: int
) -> None:
    provider = Provider()
    terms = {"window": timedelta(hours=24)} if effect_class == "keyed" else {}
    desk = Desk(store, provider.tool(effect_class, **terms))
    await desk.enrol()
    job = await desk.submit()
    async with store.begin() as tx:
        await mark_restored(tx.conn, await tx.now(), "the disk was lost", "olga")
    job = await desk.again(job)
    assert len(provider.keys) == sent
    if not sent:
        assert (job.status, (await desk.only(job)).status) == (JobStatus.awaiting_operator, S.in_doubt)
        assert (await desk.again(job)).status is JobStatus.awaiting_operator


# --- what was found last ----------------------------------------------------------------------------------------


async def test_a_constraint_that_the_commit_alone_checks_leaves_nothing(bookings: PostgresStore) -> None:
    async with bookings.connection() as conn:
        await conn.execute("DROP TABLE public.bookings")
        await conn.execute("CREATE TABLE public.bookings (what text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        await conn.execute("INSERT INTO public.bookings VALUES ('ada')")

    @effect("transactional", max_attempts=1)
    @tool
    async def book(to: str) -> str:
        """Books what is booked already."""
        await current_effect().connection.execute("INSERT INTO public.bookings VALUES (%s)", (to,))
        return "booked"

    desk = Desk(bookings, book)
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status, await booked(desk)) == (
        JobStatus.awaiting_operator,
        S.dead,
        1,
    )


async def test_a_try_that_was_not_made_uses_up_none(store: PostgresStore) -> None:
    provider = Provider()

    class StandsStill:
        async def reach(self, point: Point) -> None:
            if point is Point.after_dispatch and not provider.keys and desk.heartbeat.held:
                desk.heartbeat.held[-1].guard.renew(-1e9)

    desk = Desk(store, provider.tool("opaque", max_attempts=1), faults=StandsStill())
    job = await desk.open()
    assert (job.status, (await desk.only(job)).status, provider.keys) == (JobStatus.queued, S.retry_wait, [])
    second = Desk(store, provider.tool("opaque", max_attempts=1), calls=False)
    assert (await second.again(job)).status is JobStatus.succeeded
    assert provider.applied == ["ada"]
