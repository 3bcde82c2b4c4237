"""`verify`: nothing is found in what the real code wrote, and whatever is planted is found, by its name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from signoff.domain.cancelling import cancel_job
from signoff.domain.operating import Settlement, replay_effect, skip_effect
from signoff.domain.policy import allow
from signoff.domain.verifying import Checked
from signoff.infra.effect_results import pack_text
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.verify.checks import Scope
from signoff.infra.verify.whole import STATED, all_checks, verify
from tests.support.api import open_store
from tests.support.parked import OPERATOR, PRODUCER
from tests.support.paying import Provider
from tests.support.paying_desk import PayingDesk, paid
from tests.support.runners import ENVIRONMENT

pytestmark = pytest.mark.anyio

SCOPE = Scope(timedelta(hours=1), 5)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url) as services:
        yield services.store


async def found(store: PostgresStore) -> dict[str, list[str]]:
    return wrong(await verify(store, SCOPE))


def wrong(checks: list[Checked]) -> dict[str, list[str]]:
    """What does not hold: the messages by the name of the check."""
    said = {check.name: [f"{one.subject}: {one.message}" for one in check.violations] for check in checks}
    return {name: messages for name, messages in said.items() if messages}


async def busy(store: PostgresStore) -> None:
    """A little of everything, by the code itself."""
    for effect_class, behaves in (("opaque", "ok"), ("opaque", "refuse"), ("keyed", "lost"), ("opaque", "lost")):
        await paid(store, effect_class, behaves)
    waits = await PayingDesk(store, Provider(behaves=["busy"]), "opaque", "bob", rules=[allow("*")]).open()
    await cancel_job(store, NoHints(), waits.id, PRODUCER)
    desk = PayingDesk(store, Provider(), "opaque", "eve")
    rejected = await desk.open()
    await desk.say(rejected.id, {"type": "reject", "message": "no"})
    await desk.run(rejected.id)
    await PayingDesk(store, Provider(), "opaque", "zoe").open()


async def settled(store: PostgresStore) -> None:
    async with store.connection() as conn:
        rows = await (await conn.execute("SELECT operation_id, status FROM signoff.effects")).fetchall()
    for row in rows:
        settlement = Settlement(OPERATOR, "by hand")
        if row["status"] == "in_doubt":
            await skip_effect(
                store, NoHints(), row["operation_id"], settlement, pack_text("done"), environment=ENVIRONMENT
            )
        if row["status"] == "failed":
            await replay_effect(store, NoHints(), row["operation_id"], settlement)
            await PayingDesk(store, Provider(), "opaque").alone.run(row["operation_id"])


async def test_nothing_is_found_in_what_the_code_wrote(store: PostgresStore) -> None:
    await busy(store)
    assert await found(store) == {}
    await settled(store)
    assert await found(store) == {}
    looked_at = {check.name: check.rows for check in await verify(store, SCOPE)}
    assert looked_at["calls have their digests"] > 8
    assert looked_at["each effect's history leads to where it is"] == 5


EFFECT_OF_TWO = "(SELECT operation_id FROM signoff.attempts WHERE number = 2)"
FAILED = "(SELECT operation_id FROM signoff.effects WHERE status = 'failed')"
OF_SUCCEEDED = "job_id IN (SELECT id FROM signoff.jobs WHERE status = 'succeeded')"
A_DAY_AGO = "clock_timestamp() - interval '1 day'"
PLANTED = (
    (
        "answers are used, or their job has ended otherwise",
        f"UPDATE signoff.reviews SET resumed_at = NULL WHERE {OF_SUCCEEDED}",
    ),
    ("what was allowed is an effect", "DELETE FROM signoff.effects WHERE status = 'failed'"),
    ("no review outlives its job", f"UPDATE signoff.reviews SET status = 'pending' WHERE {OF_SUCCEEDED}"),
    ("items and their reviews agree", "UPDATE signoff.items SET status = 'open' WHERE status = 'decided'"),
    (
        "items and their reviews agree",
        "UPDATE signoff.items SET decision_id = gen_random_uuid() WHERE status = 'decided'",
    ),
    ("only what was answered is used", "UPDATE signoff.reviews SET resumed_at = created_at WHERE status = 'pending'"),
    (
        "a decision ends the revision that it was made on",
        "UPDATE signoff.items SET revision = 2 WHERE status = 'decided'",
    ),
    (
        "a decision stands for one effect",
        "UPDATE signoff.effects SET decision_id = (SELECT decision_id FROM signoff.effects"
        " WHERE decision_id IS NOT NULL LIMIT 1) WHERE decision_id IS NOT NULL",
    ),
    ("a decision covers what was sent", "UPDATE signoff.decisions SET type = 'reject'"),
    ("a decision covers what was sent", "UPDATE signoff.decisions SET counts = false"),
    ("a decision covers what was sent", "UPDATE signoff.decisions SET digest = 'another'"),
    (
        "what ran by a rule was asked of nobody before",
        "UPDATE signoff.effects SET decision_id = NULL, rule = 'r', policy_digest = 'p'",
    ),
    ("persons decide, and never about what they asked for", "UPDATE signoff.jobs SET submitted_by = 'rita'"),
    (
        "persons decide, and never about what they asked for",
        "UPDATE signoff.principals SET kind = 'service', rights = '{}' WHERE name = 'rita'",
    ),
    (
        "persons decide, and never about what they asked for",
        """UPDATE signoff.items SET terms = '{"requested_by": "rita"}' WHERE status = 'decided'""",
    ),
    ("as many people as it needs, and nobody twice", """UPDATE signoff.items SET terms = '{"approvals": 2}'"""),
    ("somebody said that it happened", "UPDATE signoff.attempts SET outcome = 'unknown' WHERE outcome = 'succeeded'"),
    (
        "what may have happened is not denied",
        f"UPDATE signoff.attempts SET outcome = 'unknown' WHERE operation_id IN {FAILED}",
    ),
    (
        "a state and its newest try agree",
        f"UPDATE signoff.attempts SET outcome = 'succeeded' WHERE operation_id IN {FAILED}",
    ),
    (
        "it is not recorded twice",
        f"UPDATE signoff.attempts SET outcome = 'succeeded' WHERE operation_id IN {EFFECT_OF_TWO}",
    ),
    (
        "what has ended has a time of its end, and nothing else has",
        "UPDATE signoff.effects SET ended_at = NULL WHERE status = 'succeeded'",
    ),
    (
        "persons alone change what has ended, or put something in its place",
        "INSERT INTO signoff.effect_events (operation_id, from_status, to_status, actor, reason)"
        " SELECT operation_id, 'failed', 'planned', 'mallory', 'why not' FROM signoff.effects WHERE status = 'failed'",
    ),
    (
        "each effect's history leads to where it is",
        "UPDATE signoff.effects SET status = 'skipped' WHERE status = 'succeeded'",
    ),
    ("each effect's history leads to where it is", "DELETE FROM signoff.effect_events"),
    (
        "a job is claimed as often as it may be",
        "UPDATE signoff.jobs SET status = 'running', lease_until = 'infinity', tries = 99"
        " WHERE status = 'awaiting_review'",
    ),
    ("tries are counted", "DELETE FROM signoff.attempts WHERE number = 1"),
    ("who waits for a review has one", "UPDATE signoff.reviews SET status = 'superseded' WHERE status = 'pending'"),
    (
        "who waits for an operator has a reason",
        "UPDATE signoff.jobs SET error_code = NULL WHERE status = 'awaiting_operator'",
    ),
    (
        "who waits for an operator has a reason",
        "UPDATE signoff.effects SET status = 'skipped', doubt_since = NULL WHERE status = 'in_doubt'",
    ),
    (
        "due jobs are taken",
        f"UPDATE signoff.jobs SET status = 'queued', run_at = {A_DAY_AGO} WHERE status = 'awaiting_review'",
    ),
    (
        "lost workers are noticed",
        f"UPDATE signoff.jobs SET status = 'running', lease_until = {A_DAY_AGO} WHERE status = 'awaiting_review'",
    ),
    (
        "who waits for its thread has somebody before it",
        f"UPDATE signoff.jobs SET status = 'waiting', created_at = {A_DAY_AGO} WHERE status = 'awaiting_review'",
    ),
    (
        "what was sent has somebody who hears the answer",
        f"UPDATE signoff.effects SET status = 'dispatched', last_dispatched_at = {A_DAY_AGO} WHERE status = 'in_doubt'",
    ),
    (
        "what is to be sent will be",
        f"UPDATE signoff.effects SET status = 'retry_wait', created_at = {A_DAY_AGO}, last_dispatched_at = {A_DAY_AGO},"
        " retry_at = NULL WHERE status = 'succeeded'",
    ),
    ("deadlines are kept", f"UPDATE signoff.items SET deadline_at = {A_DAY_AGO} WHERE status = 'open'"),
    (
        "fences only grow",
        f"UPDATE signoff.attempts SET fence = 99 WHERE number = 1 AND operation_id IN {EFFECT_OF_TWO}",
    ),
    ("no try is ahead of its job", "UPDATE signoff.effects SET fence = 99 WHERE status = 'succeeded'"),
    ("a thread's head is there", "UPDATE signoff.threads SET head_checkpoint_id = 'gone'"),
    (
        "a thread has one history",
        "INSERT INTO langgraph.checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)"
        " SELECT thread_id, '', 'beside', checkpoint, metadata FROM langgraph.checkpoints c"
        " JOIN signoff.threads t ON t.id = c.thread_id AND t.head_checkpoint_id = c.checkpoint_id",
    ),
    (
        "a state of an effect that others wait for is told",
        "DELETE FROM signoff.events WHERE type LIKE 'signoff.effect.%'",
    ),
    (
        "the end of a job, or what holds it, is told",
        "DELETE FROM signoff.events WHERE type = 'signoff.job.succeeded.v1'",
    ),
    ("a review that waits was told", "DELETE FROM signoff.events WHERE type = 'signoff.review.requested.v1'"),
    ("a job's events have no gap", "DELETE FROM signoff.events WHERE sequence = 2"),
    ("a job's events have no gap", "UPDATE signoff.jobs SET event_sequence = 99"),
    ("events are sent", f"UPDATE signoff.events SET at = {A_DAY_AGO}"),
    (
        "calls have their digests",
        """UPDATE signoff.effects SET args = '{"to": "mallory"}' WHERE status = 'succeeded'""",
    ),
    ("calls have their digests", """UPDATE signoff.items SET args = '{"to": "mallory"}' WHERE status = 'open'"""),
    ("decisions and the audit agree", "DELETE FROM signoff.audit WHERE act = 'item.decided'"),
    ("decisions and the audit agree", "DELETE FROM signoff.decisions"),
    ("attempts and the audit agree", "DELETE FROM signoff.audit WHERE act = 'attempt.dispatched'"),
    (
        "operator_acts and the audit agree",
        "INSERT INTO signoff.operator_acts (actor, request_id, act, subject, reason, digest, body, outcome)"
        " VALUES ('olga', 'r-1', 'skip', 'op_1', 'why not', 'd', '{}', '{}')",
    ),
    ("each step of an effect is in the audit", "DELETE FROM signoff.audit WHERE act = 'effect.moved'"),
    (
        "what was sent is what the audit saw",
        f"UPDATE signoff.effects SET digest = '{'a' * 64}' WHERE status = 'failed'",
    ),
)


async def test_whatever_is_planted_is_found(store: PostgresStore) -> None:
    await busy(store)
    missed = []
    async with store.connection() as conn:
        for name, statement in PLANTED:
            async with conn.transaction(force_rollback=True):
                # As whoever owns the database: no trigger is in the way, and no reference.
                await conn.execute("SET LOCAL session_replication_role = replica")
                planted = (await conn.execute(statement)).rowcount
                seen = wrong([checked async for checked in all_checks(conn, SCOPE)])
            if not planted or name not in seen:
                missed.append((name, statement, planted, sorted(seen)))
    assert missed == []


def test_something_is_planted_for_every_check() -> None:
    computed = {
        "calls have their digests",
        "each effect's history leads to where it is",
        "as many people as it needs, and nobody twice",
    }
    assert {name for name, _ in PLANTED} == {check.name for check in STATED} | computed
