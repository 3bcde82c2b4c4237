"""Retention: what a call said and what came back goes; that it was, by whom, and how it ended, stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import psycopg
import pytest
from langchain_core.messages import ToolMessage
from psycopg.types.json import Json

from signoff.domain.deciding import decide_review
from signoff.domain.decisions import parse_answers
from signoff.domain.effects import SUCCESS, Effect, Outcome, Step, Terms
from signoff.domain.errors import EffectPurged, StoreUnavailable
from signoff.domain.policy import allow
from signoff.domain.running import fail, finish
from signoff.infra.hints import CeleryHints, NoHints
from signoff.infra.postgres import results_aside, retention
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.postgres.views_results import show_result
from signoff.infra.settings import Settings
from signoff.workers.dispatcher import TakeBackLapsed
from signoff.workers.faults import NoFaults, Point
from signoff.workers.forgetting import PurgeOldEffects
from signoff.workers.results import pack
from tests.support.api import open_store
from tests.support.parked import FAILED, IN_DOUBT, OPERATOR, REVIEWER, Parked, claimed, parked, refund
from tests.support.till import Shop, Till

pytestmark = pytest.mark.anyio

AT_ONCE = Terms(retention=timedelta())
TABLES = ("effects", "items", "decisions", "revisions", "evidence", "results_aside")
PRIVATE = "Ada-1815"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


async def approved(store: PostgresStore, type: str = "approve") -> tuple[Parked, str]:
    """A refund that names somebody, approved, or edited so that it names them still."""
    args = {"order": PRIVATE, "amount": 30}
    job = await parked(store, refund(args=args, description=f"Refund of {PRIVATE}", shown={"customer": PRIVATE}))
    answer: dict[str, Any] = {"type": type}
    if type == "edit":
        answer["edited_action"] = {"name": "refund", "args": {**args, "amount": 20}}
    answers = parse_answers({"decisions": [answer]})
    decided = await decide_review(store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test")
    return job, decided.decisions[0].operation_id


REVISION = """
INSERT INTO signoff.revisions (item_id, revision, proposed_by, operation_id, edits, tool, args, digest, description,
    rule, reason, policy_digest, allowed_decisions, reviewers, shown)
SELECT id, 2, 'rita', operation_id, 1, tool, args, digest, description, rule, reason, '', allowed_decisions, reviewers,
    shown FROM signoff.items
"""


async def carried_out(
    store: PostgresStore, job: Parked, operation: str, terms: Terms = AT_ONCE, step: Step = SUCCESS, *, end: bool = True
) -> None:
    """Sent, and come to `step`, with late evidence and a result aside; the job has ended with `end`."""
    running = await claimed(store, job.job_id)
    result = pack(ToolMessage(f"Refunded {PRIVATE}", tool_call_id=""))
    async with store.begin() as tx:
        await tx.jobs.fence(running)
        effect = await tx.effects.lock(operation)
        assert effect is not None
        effect = await tx.effects.dispatch(effect, terms, fence=running.fence, worker="worker-1")
        outcome = Outcome.succeeded if step is SUCCESS else Outcome.unknown
        given = result if step is SUCCESS else None
        assert await tx.effects.move(effect, step, actor="w", result=given, reference="re_1", outcome=outcome)
        await tx.doubt.keep_evidence(effect, "worker-2", Outcome.succeeded, None, result, settled=False)
        await results_aside.keep(tx.conn, operation, result)
        if end:
            await (finish(tx, running, {"answer": "Done."}) if step is SUCCESS else fail(tx, running, "x", "y"))


async def purge(store: PostgresStore) -> None:
    assert await PurgeOldEffects(store).step() is False


async def mentions(store: PostgresStore) -> set[str]:
    """The tables that still hold what is private."""
    async with store.connection() as conn:
        found = set()
        for table in TABLES:
            rows = await (await conn.execute(f"SELECT t::text AS row FROM signoff.{table} t")).fetchall()
            if any(PRIVATE in row["row"] or PRIVATE.encode().hex() in row["row"] for row in rows):
                found.add(table)
        return found


async def effect_of(store: PostgresStore, operation: str) -> Effect:
    async with store.begin() as tx:
        effect = await tx.effects.lock(operation)
    assert effect is not None
    return effect


@pytest.mark.parametrize("type", ["approve", "edit"])
async def test_the_payload_goes_wherever_it_stands_and_the_tombstone_stays(store: PostgresStore, type: str) -> None:
    job, operation = await approved(store, type)
    await execute(store, REVISION)
    await carried_out(store, job, operation)
    assert await mentions(store) == set(TABLES)
    before = await effect_of(store, operation)
    await purge(store)
    assert await mentions(store) == set()
    after = await effect_of(store, operation)
    assert after.purged_at is not None
    assert (after.args, after.result) == ({}, None)
    for name in ("operation_id", "digest", "status", "provider_reference", "attempts", "generation"):
        assert getattr(after, name) == getattr(before, name)
    async with store.connection() as conn:
        shown = await show_effect(conn, operation, OPERATOR)
        with pytest.raises(EffectPurged):
            await show_result(conn, operation, OPERATOR)
    assert shown["authority"]["reviewer"] == "rita"
    assert len(shown["attempt_log"]) == len(shown["history"]) == 1


async def test_what_comes_back_even_later_goes_too(store: PostgresStore) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation)
    await purge(store)
    effect = await effect_of(store, operation)
    late = pack(ToolMessage(PRIVATE, tool_call_id=""))
    async with store.begin() as tx:
        await tx.doubt.keep_evidence(effect, "worker-3", Outcome.succeeded, None, late, settled=False)
    assert await mentions(store) == {"evidence"}
    await purge(store)
    assert await mentions(store) == set()


async def test_the_purge_is_in_the_audit_with_digests_alone(store: PostgresStore) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation)
    await purge(store)
    await purge(store)
    (row,) = await acts(store, "effect.purged")
    assert (row["actor"], row["job_id"], row["body"]["operation"]) == ("dispatcher", job.job_id, operation)
    (ended,) = await acts(store, "attempt.ended")
    assert row["body"]["result"] == ended["body"]["result"]


async def acts(store: PostgresStore, act: str) -> list[dict[str, Any]]:
    async with store.connection() as conn:
        rows = await conn.execute("SELECT actor, job_id, body FROM signoff.audit WHERE act = %s", (act,))
        return await rows.fetchall()


@pytest.mark.parametrize(
    ("terms", "step", "end"),
    [
        (Terms(retention=timedelta(days=1)), SUCCESS, True),
        (Terms(), SUCCESS, True),
        (AT_ONCE, SUCCESS, False),
        (AT_ONCE, IN_DOUBT[0], True),
    ],
    ids=["not yet", "kept always", "the job goes on", "in doubt"],
)
async def test_what_is_kept(store: PostgresStore, terms: Terms, step: Step, end: bool) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation, terms, step, end=end)
    await purge(store)
    effect = await effect_of(store, operation)
    assert effect.purged_at is None
    assert effect.args == {"order": PRIVATE, "amount": 30}


async def test_what_has_failed_goes_too_and_can_not_come_back(store: PostgresStore) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation, step=FAILED[0])
    await purge(store)
    assert await mentions(store) == set()
    for change in ("status = 'planned', ended_at = NULL", "args = '{}'", "result = 'x', result_type = 'json'"):
        with pytest.raises(psycopg.errors.CheckViolation):
            await execute(store, f"UPDATE signoff.effects SET {change}")


async def test_other_calls_of_the_job_are_left_alone(store: PostgresStore) -> None:
    job = await parked(store, refund(30), refund(40))
    answers = parse_answers({"decisions": [{"type": "approve"}, {"type": "approve"}]})
    decided = await decide_review(store, NoHints(), job.review_id, answers, REVIEWER, door="test", environment="test")
    await carried_out(store, job, decided.decisions[0].operation_id)
    await purge(store)
    async with store.begin() as tx:
        (review,) = await tx.reviews.of_job(job.job_id)
    assert [item.args for item in review.items] == [{}, {"order": "A-1", "amount": 40}]


class LostAfterRecord(NoFaults):
    """The worker is lost once, after it has recorded the effect, and before that is in a checkpoint."""

    def __init__(self) -> None:
        self.lost = False

    async def reach(self, point: Point) -> None:
        if point is Point.after_record and not self.lost:
            self.lost = True
            raise StoreUnavailable("lost")


async def test_a_run_that_comes_by_a_tombstone_is_told_and_does_nothing(store: PostgresStore) -> None:
    till = Till()
    shop = Shop(store, till, [allow("*")], faults=LostAfterRecord())
    job = await shop.open()
    assert job.status == "running"
    async with store.begin() as tx:
        effects = await (await tx.conn.execute("SELECT operation_id, status FROM signoff.effects")).fetchall()
        assert [row["status"] for row in effects] == ["succeeded"]
        await retention.purge(tx.conn, effects[0]["operation_id"], [])
    await shop.sql("UPDATE signoff.jobs SET lease_until = clock_timestamp()")
    await TakeBackLapsed(store, cast(CeleryHints, NoHints()), Settings()).step()
    job = await shop.run(job.id)
    assert job.status == "succeeded"
    assert till.paid == [("ada", 30)]
    assert await shop.told(job) == "[This call was carried out; its result is no longer kept.]"


# --- nobody else changes what is append-only ---------------------------------------------------------------------


async def execute(store: PostgresStore, statement: str, *parameters: Any) -> None:
    async with store.connection() as conn:
        await conn.execute(statement, parameters)


async def refused(store: PostgresStore, statement: str, *parameters: Any) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="is append-only"):
        await execute(store, statement, *parameters)


async def test_nothing_is_purged_before_its_effect(store: PostgresStore) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation)
    await refused(store, "UPDATE signoff.decisions SET args = NULL, purged_at = now()")
    await refused(store, "UPDATE signoff.evidence SET result = NULL, result_type = NULL, purged_at = now()")


@pytest.mark.parametrize(
    "change",
    [
        "args = NULL",
        "purged_at = now()",
        "args = '{}', purged_at = now()",
        "args = NULL, purged_at = now(), reviewer = 'ravi'",
        "args = NULL, purged_at = now(), message = 'x'",
    ],
)
async def test_a_purge_takes_the_payload_and_nothing_else(store: PostgresStore, change: str) -> None:
    job, operation = await approved(store)
    await carried_out(store, job, operation)
    purged = "UPDATE signoff.effects SET args = NULL, result = NULL, result_type = NULL, purged_at = now()"
    await execute(store, purged)
    await refused(store, f"UPDATE signoff.decisions SET {change}")
    await execute(store, "UPDATE signoff.decisions SET args = NULL, purged_at = now()")
    await refused(store, "UPDATE signoff.decisions SET args = %s", Json({"amount": 1}))
    await refused(store, "UPDATE signoff.decisions SET purged_at = NULL")
    await refused(store, "DELETE FROM signoff.decisions")
