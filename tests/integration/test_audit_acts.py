"""Every act leaves its row, in the transaction of the act, whoever wrote it and however."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest

from signoff.domain.audit_chain import Row
from signoff.domain.effects import Outcome
from signoff.infra.postgres.audit import of_job
from signoff.infra.postgres.store import PostgresStore
from tests.support.api import Api, open_api
from tests.support.audit import acts, approved, executed
from tests.support.parked import IN_DOUBT, claimed, parked, submitted, tried

pytestmark = pytest.mark.anyio

APPEND_ONLY = {
    "audit",
    "audit_seals",
    "decisions",
    "effect_events",
    "evidence",
    "review_acts",
    "revisions",
}
GUARDS = """
SELECT c.relname AS name, bool_or(tgtype & 16 > 0) AND bool_or(tgtype & 8 > 0) AND bool_or(tgtype & 32 > 0) AS whole
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE p.proname IN ('refuse_change', 'refuse_change_but_purge') AND t.tgenabled = 'O' AND t.tgqual IS NULL
GROUP BY c.relname
"""


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


async def test_a_job_that_is_approved_and_executed(api: Api) -> None:
    job = await approved(api)
    await executed(api.store, job.job_id)
    rows = await acts(api.store, job.job_id)
    assert [(row["act"], row["actor"]) for row in rows] == [
        ("job.accepted", "shop"),
        ("item.proposed", "desk"),
        ("item.decided", "rita"),
        ("attempt.dispatched", "worker-1"),
        ("attempt.ended", "worker-1"),
    ]
    by_act = {row["act"]: row for row in rows}
    digests = {by_act[act]["digest"] for act in ("item.proposed", "item.decided", "attempt.dispatched")}
    assert len(digests) == 1
    assert None not in digests
    decided, dispatched = by_act["item.decided"]["body"], by_act["attempt.dispatched"]["body"]
    assert (decided["type"], decided["door"], decided["tool"]) == ("approve", "http", "refund")
    assert dispatched["decision"] == decided["decision"]
    assert dispatched["operation"] == decided["operation"] == by_act["attempt.ended"]["body"]["operation"]
    assert by_act["attempt.ended"]["body"]["outcome"] == "succeeded"
    assert by_act["attempt.ended"]["body"]["reference"] == "re_1"
    assert "A-1" not in str(rows), "digests only"


async def test_what_was_shown_can_be_computed_again(api: Api) -> None:
    job = await parked(api.store)
    async with api.store.connection() as conn:
        cursor = await conn.execute(
            "SELECT i.id::text AS item, encode(signoff.shown_digest(i, r.policy_digest), 'hex') AS shown"
            " FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id"
        )
        (again,) = await cursor.fetchall()
    (proposed,) = [row for row in await acts(api.store, job.job_id) if row["act"] == "item.proposed"]
    assert (proposed["body"]["item"], proposed["shown"]) == (again["item"], again["shown"])


async def test_what_is_rolled_back_leaves_nothing(api: Api) -> None:
    before = await acts(api.store)
    async with api.store.begin() as tx, tx.conn.transaction(force_rollback=True):
        await tx.principals.revoke("rita")
        cursor = await tx.conn.execute("SELECT FROM signoff.audit WHERE act = 'principal.revoked'")
        assert cursor.rowcount == 1
    assert await acts(api.store) == before


async def test_a_cancelled_job_names_who_cancelled_it(api: Api) -> None:
    job = await parked(api.store)
    assert (await api.post("olga", f"/v1/jobs/{job.job_id}/cancel", {"reason": "a test"})).status_code == 200
    told = [(row["act"], row["actor"]) for row in await acts(api.store, job.job_id)]
    assert set(told[2:]) == {("review.cancelled", "olga"), ("job.cancelled", "olga"), ("operator.job.cancel", "olga")}


async def test_a_running_job_that_is_to_be_cancelled(api: Api) -> None:
    job = await claimed(api.store, (await submitted(api.store)).id)
    assert (await api.post("shop", f"/v1/jobs/{job.id}/cancel")).status_code == 200
    told = [(row["act"], row["actor"]) for row in await acts(api.store, job.id)]
    assert told == [("job.accepted", "shop"), ("job.cancel_requested", "shop")]


async def test_doubt_that_an_operator_settles(api: Api) -> None:
    job = await approved(api)
    (decided,) = [row["body"] for row in await acts(api.store, job.job_id) if row["act"] == "item.decided"]
    await tried(api.store, job.job_id, decided["operation"], *IN_DOUBT, outcome=Outcome.unknown)
    body = {"finding": "applied", "reason": "The bank says so.", "reference": "re_7"}
    answer = await api.post("olga", f"/v1/effects/{decided['operation']}/resolve", body)
    assert answer.status_code == 200, answer.text
    rows = await acts(api.store, job.job_id)
    held, (moved,) = (
        {row["act"] for row in rows},
        [row for row in rows if row["act"] == "effect.moved" and row["actor"] == "olga"],
    )
    assert held >= {"job.held", "job.queued_again"}
    assert (moved["body"]["from"], moved["body"]["to"], moved["body"]["reference"]) == ("in_doubt", "succeeded", "re_7")


async def test_administration_is_told_without_secrets(api: Api) -> None:
    token = uuid4()
    async with api.store.begin() as tx:
        await tx.conn.execute("SELECT set_config('signoff.actor', 'ada', true)")
        await tx.principals.add_token(token, "rita", b"hashed-secret")
        await tx.principals.revoke_token(token)
        await tx.conn.execute("UPDATE signoff.tokens SET last_used_at = clock_timestamp()")
        await tx.conn.execute("UPDATE signoff.tokens SET hash = 'another-secret' WHERE id = %s", (token,))
        await tx.principals.revoke("sam")
    rows = (await acts(api.store))[-4:]
    assert [(row["act"], row["actor"]) for row in rows] == [
        ("token.created", "ada"),
        ("token.revoked", "ada"),
        ("token.changed", "ada"),
        ("principal.revoked", "ada"),
    ]
    assert rows[0]["body"] == {"id": str(token), "principal": "rita"}
    assert rows[2]["body"]["changed"] == ["hash"]
    assert rows[3]["body"]["name"] == "sam"
    everything = str(await acts(api.store))
    assert "secret" not in everything
    assert b"hashed".hex() not in everything


async def test_without_a_name_it_was_the_database_user(api: Api) -> None:
    (first, *_) = await acts(api.store)
    assert first["act"] == "principal.created"
    assert first["actor"].startswith("database:")


async def test_the_acts_of_a_job_come_in_pages(api: Api) -> None:
    job = await approved(api)
    async with api.store.connection() as conn:
        rows: list[Row] = [*await of_job(conn, job.job_id, 0, 3)]
        rest = [*await of_job(conn, job.job_id, rows[-1].position, 3)]
    assert [row.act for row in rows + rest] == ["job.accepted", "item.proposed", "item.decided"]


async def test_what_is_append_only_is_guarded_whole(api: Api) -> None:
    async with api.store.connection() as conn:
        rows = await (await conn.execute(GUARDS)).fetchall()
    assert {row["name"] for row in rows if row["whole"]} == {row["name"] for row in rows} >= APPEND_ONLY


async def test_nothing_empties_what_is_append_only(api: Api) -> None:
    for table in sorted(APPEND_ONLY):
        await refused(api.store, f"TRUNCATE signoff.{table} CASCADE", "is append-only")


async def test_rows_are_neither_changed_nor_removed_nor_written_by_hand(api: Api) -> None:
    await approved(api)
    for table, column in (("audit", "actor"), ("decisions", "reviewer"), ("audit_seals", "sealed_at")):
        await refused(api.store, f"UPDATE signoff.{table} SET {column} = {column}", "is append-only")
        await refused(api.store, f"DELETE FROM signoff.{table}", "is append-only")
    by_hand = "INSERT INTO signoff.audit (act, actor, body) VALUES ('item.decided', 'rita', '{}')"
    await refused(api.store, by_hand, "is written by the database itself")


async def refused(store: PostgresStore, statement: str, why: str) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match=why):
        async with store.connection() as conn:
            await conn.execute(statement)


async def test_a_subscription_is_told_of_but_not_where_it_has_got_to(api: Api) -> None:
    async with api.store.connection() as conn:
        await conn.execute(
            "INSERT INTO signoff.subscriptions (id, name, kind, target, event_types, created_by, cursor_tx,"
            " cursor_position) VALUES (%s, 'ops', 'slack', 'https://hooks.example/secret', '{*}', 'olga', '0', 0)",
            (uuid4(),),
        )
        await conn.execute("UPDATE signoff.subscriptions SET cursor_position = 7")
        await conn.execute("UPDATE signoff.subscriptions SET target = 'https://hooks.example/other-secret'")
        await conn.execute(
            "UPDATE signoff.subscriptions"
            " SET disabled_at = clock_timestamp(), disabled_by = 'sender', disabled_reason = '410'"
        )
    rows = (await acts(api.store))[-3:]
    assert [(row["act"], row["actor"]) for row in rows if row["act"] != "subscription.changed"] == [
        ("subscription.created", "olga"),
        ("subscription.disabled", "sender"),
    ]
    assert rows[1]["body"]["changed"] == ["target"]
    assert "secret" not in str(rows)


async def test_what_is_done_beside_deciding(api: Api) -> None:
    job = await approved(api)
    async with api.store.connection() as conn:
        await conn.execute(
            "INSERT INTO signoff.review_acts (review_id, act, actor, message) VALUES (%s, 'commented', 'ravi', 'hm')",
            (job.review_id,),
        )
        await conn.execute(
            "INSERT INTO signoff.revisions (item_id, revision, proposed_by, operation_id, edits, tool, args, digest,"
            " description, rule, reason, policy_digest, allowed_decisions, reviewers)"
            " SELECT id, 2, 'rita', 'op_2', 1, tool, args, digest, description, rule, reason, 'p', allowed_decisions,"
            " reviewers FROM signoff.items"
        )
        await conn.execute(
            "INSERT INTO signoff.evidence (operation_id, fence, worker, outcome, result)"
            " SELECT operation_id, 1, 'worker-2', 'succeeded', 'refunded' FROM signoff.effects"
        )
    commented, revised, kept = (await acts(api.store, job.job_id))[-3:]
    assert (commented["act"], commented["actor"]) == ("review.commented", "ravi")
    assert commented["body"] == {"review": str(job.review_id), "message": hashlib.sha256(b"hm").hexdigest()}
    assert (revised["act"], revised["actor"], revised["body"]["revision"]) == ("item.revised", "rita", 2)
    assert None not in (revised["digest"], revised["shown"])
    assert (kept["act"], kept["actor"]) == ("evidence.kept", "worker-2")
    assert kept["body"]["result"] == hashlib.sha256(b"refunded").hexdigest()
