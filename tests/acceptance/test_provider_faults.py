"""What outside services can do to a call, and what the ledger, the agent and an operator make of it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from examples.support_desk.faults import Fault, FaultKind
from examples.support_desk.payments import Payments
from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.jobs import JobStatus
from signoff.domain.operating import Finding
from tests.support.desk import APPROVE, Desk, answer_of
from tests.support.desk_agents import spec
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

UNKNOWN = (FaultKind.error_before, FaultKind.error_after, FaultKind.drop_reply)


async def test_a_definite_refusal_is_told_to_the_agent_and_ends_well(calm_desk: Desk) -> None:
    calm_desk.payments.faults.ask(Fault(FaultKind.decline, about="D-1"))
    job_id = await calm_desk.submit("Refund 10.00 on order D-1 because it came late.")
    job = await calm_desk.until(job_id)

    assert "the bank declined it" in answer_of(job)
    assert (await calm_desk.effect(job_id, "refund")).status is EffectStatus.failed
    assert (await calm_desk.results(job_id))["refund"].status == "error"
    assert _paid(calm_desk, "D-1") == []


@pytest.mark.parametrize("kind", UNKNOWN)
async def test_a_keyed_call_of_unknown_outcome_is_sent_again_with_the_same_key(
    calm_desk: Desk, kind: FaultKind
) -> None:
    order = f"K-{UNKNOWN.index(kind)}"
    calm_desk.payments.faults.ask(Fault(kind, about=order))
    job_id = await calm_desk.submit(f"Refund 10.00 on order {order} because it came late.")
    answer_of(await calm_desk.until(job_id))

    effect = await calm_desk.effect(job_id, "refund")
    assert (effect.status, effect.attempts, effect.doubt_since) == (EffectStatus.succeeded, 2, None)
    requests = [one for one in calm_desk.payments.requests() if one["request"]["order_id"] == order]
    assert [one["key"] for one in requests] == [effect.idempotency_key] * 2
    assert len(_paid(calm_desk, order)) == 1
    path = await calm_desk.sql(
        "SELECT to_status FROM signoff.effect_events WHERE operation_id = %s ORDER BY position", effect.operation_id
    )
    assert [row["to_status"] for row in path] == ["in_doubt", "retry_wait", "succeeded"]


async def test_a_provider_that_can_not_be_reached_holds_the_job_until_an_operator_replays(
    desk: Desk, tmp_path: Path
) -> None:
    port = _unused_port()
    worker = desk.start_worker(SIGNOFF_AGENTS=spec("impatient"), SUPPORT_DESK_PAYMENTS_URL=f"http://127.0.0.1:{port}")
    job_id = await desk.submit("Refund 10.00 on order A-1001 because it came late.", agent="impatient")
    held = await desk.until(job_id, JobStatus.awaiting_operator)
    dead = await desk.effect(job_id, "refund")

    assert held.error_code == "effect_held"
    assert dead.operation_id in str(held.error_message)
    assert (dead.status, dead.attempts, dead.doubt_since) == (EffectStatus.dead, 2, None)
    with Payments(tmp_path / "later.jsonl", port=port) as payments:
        await desk.replay(dead)
        answer_of(await desk.until(job_id))
        assert [paid["key"] for paid in payments.applied()] == [dead.idempotency_key], "nothing new: it never happened"
    assert (await desk.effect(job_id, "refund")).status is EffectStatus.succeeded
    assert worker.exit_code is None


@pytest.mark.parametrize("way", ["applied", "not_applied", "skip"])
async def test_a_mail_in_doubt_waits_for_an_operator_and_the_job_goes_on_with_what_that_one_says(
    calm_desk: Desk, way: str
) -> None:
    address = f"{way.replace('_', '')}@example.com"
    kind = FaultKind.error_after if way == "applied" else FaultKind.error_before
    calm_desk.mailbox.faults.ask(Fault(kind, about=address))
    job_id = await calm_desk.submit(f"Email {address} that the parcel is on its way.")
    await calm_desk.decide((await calm_desk.pending_review(job_id)).id, APPROVE)
    await calm_desk.until(job_id, JobStatus.awaiting_operator)
    mail = await calm_desk.effect(job_id, "send_email", EffectStatus.in_doubt)
    if way == "skip":
        await calm_desk.skip(mail, "Ada was phoned.")
    else:
        await calm_desk.resolve(mail, Finding(way))
    answer = answer_of(await calm_desk.until(job_id))
    after = await calm_desk.effect(job_id, "send_email")

    assert after.status is (EffectStatus.skipped if way == "skip" else EffectStatus.succeeded)
    assert after.doubt_since is None
    assert after.attempts == (2 if way == "not_applied" else 1)
    said = {
        "applied": "An operator says that it was done.",
        "not_applied": f"Mailed {address}",
        "skip": "[Not the tool's answer: an operator skipped this call and put this in its place.]\nAda was phoned.",
    }
    assert said[way] in answer
    mails = [one for one in calm_desk.mailbox.mails() if one["to"] == [address]]
    assert len(mails) == (0 if way == "skip" else 1)


async def test_a_failed_call_that_is_replayed_after_its_job_ended_runs_alone_under_a_new_key(calm_desk: Desk) -> None:
    calm_desk.payments.faults.ask(Fault(FaultKind.decline, about="R-1"))
    job_id = await calm_desk.submit("Refund 10.00 on order R-1 because it came late.")
    job = await calm_desk.until(job_id)
    failed = await calm_desk.effect(job_id, "refund", EffectStatus.failed)
    history = await calm_desk.messages(job_id)
    await calm_desk.replay(failed)
    replayed = await calm_desk.effect(job_id, "refund", EffectStatus.succeeded)

    assert (failed.generation, replayed.generation, replayed.attempts) == (0, 1, 2)
    assert _keys(calm_desk, "R-1") == [failed.idempotency_key, replayed.idempotency_key]
    assert len(_paid(calm_desk, "R-1")) == 1
    assert await calm_desk.job(job_id) == job
    assert await calm_desk.messages(job_id) == history
    told = await calm_desk.sql("SELECT type, actor FROM signoff.events WHERE job_id = %s ORDER BY position", job_id)
    assert [row["type"] for row in told[-2:]] == ["signoff.effect.settled.v1", "signoff.effect.succeeded.v1"]


async def test_a_call_that_runs_alone_is_tried_again_like_any_other(calm_desk: Desk) -> None:
    for kind in (FaultKind.decline, FaultKind.drop_reply):
        calm_desk.payments.faults.ask(Fault(kind, about="R-2"))
    job_id = await calm_desk.submit("Refund 10.00 on order R-2 because it came late.")
    await calm_desk.until(job_id)
    await calm_desk.replay(await calm_desk.effect(job_id, "refund", EffectStatus.failed))
    replayed: Effect = await calm_desk.effect(job_id, "refund", EffectStatus.succeeded)

    assert _keys(calm_desk, "R-2")[1:] == [replayed.idempotency_key] * 2
    assert len(_paid(calm_desk, "R-2")) == 1


async def test_a_lone_call_that_comes_to_nothing_is_in_doubt_and_not_denied(calm_desk: Desk) -> None:
    address = "lone@example.com"
    for kind in (FaultKind.decline, FaultKind.error_after):
        calm_desk.mailbox.faults.ask(Fault(kind, about=address))
    job_id = await calm_desk.submit(f"Email {address} that the parcel is on its way.")
    await calm_desk.decide((await calm_desk.pending_review(job_id)).id, APPROVE)
    job = await calm_desk.until(job_id)
    await calm_desk.replay(await calm_desk.effect(job_id, "send_email", EffectStatus.failed))
    doubted = await calm_desk.effect(job_id, "send_email", EffectStatus.in_doubt)
    await calm_desk.resolve(doubted, Finding.applied)

    await eventually(lambda: any(mail["to"] == [address] for mail in calm_desk.mailbox.mails()))
    assert (await calm_desk.effect(job_id, "send_email")).status is EffectStatus.succeeded
    assert await calm_desk.job(job_id) == job


def _paid(desk: Desk, order: str) -> list[str]:
    return [paid["key"] for paid in desk.refunds() if paid["order_id"] == order]


def _keys(desk: Desk, order: str) -> list[str]:
    return [one["key"] for one in desk.payments.requests() if one["request"]["order_id"] == order]


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
