"""Reviewers hear of it: mail and Slack, tried again and logged like webhooks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from examples.support_desk.faults import Fault, FaultKind
from examples.support_desk.mailbox import Mailbox
from signoff.domain.canonical import call_digest
from signoff.domain.events import EventType, NewEvent
from signoff.infra.mail import Relay
from tests.support.outgoing import Outgoing, database_of_module, open_outgoing
from tests.support.parked import parked, refund
from tests.support.receiver import Answer
from tests.support.savers import Server

pytestmark = pytest.mark.anyio

LEADS = "leads@shop.test"


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    with Mailbox(tmp_path / "mail.jsonl") as mailbox:
        yield mailbox


@pytest.fixture(scope="module")
def database(postgres_server: Server, template_database: str) -> Iterator[str]:
    with database_of_module(postgres_server, template_database) as url:
        yield url


@pytest.fixture
async def out(database: str, mailbox: Mailbox) -> AsyncIterator[Outgoing]:
    async with open_outgoing(database) as out:
        out.relay = Relay("127.0.0.1", mailbox.port, "signoff@shop.test", starttls=False)
        yield out


async def mail_to(out: Outgoing, target: str = LEADS, **fields: object) -> None:
    await out.subscribe("leads", kind="mail", target=target, filter={"groups": ["finance"]}, **fields)


async def test_a_reviewer_is_told_by_mail(out: Outgoing, mailbox: Mailbox) -> None:
    out.public_url = "https://signoff.test"
    await mail_to(out)
    args = {"order": "A-1", "amount": 30, "iban": "DE-secret"}
    job = await parked(out.store, refund(args=args, digest=call_digest("refund", args)))
    await parked(out.store, refund(reviewers=["directors"]))
    await out.send()
    (mail,) = mailbox.mails()
    assert (mail["to"], mail["subject"]) == ([LEADS], "Please review: refund")
    assert "A refund" in mail["body"]
    assert f"https://signoff.test/v1/reviews/{job.review_id}" in mail["body"]
    assert "DE-secret" not in mail["body"]


async def test_a_mail_that_is_refused_for_now_comes_again_as_the_same(out: Outgoing, mailbox: Mailbox) -> None:
    await mail_to(out)
    await parked(out.store)
    mailbox.faults.ask(Fault(FaultKind.error_after, about=LEADS))
    await out.send()
    (row,) = await out.sendings()
    assert (row["status"], row["last_status"], row["last_error"]) == ("pending", 451, "the mail server answered 451")
    await out.later()
    await out.send()
    assert await out.statuses() == ["sent"]
    first, second = mailbox.mails()
    assert first["message_id"] == second["message_id"] != "None"


@pytest.mark.parametrize("target", ["gone@shop.invalid", LEADS])
async def test_a_mail_that_is_refused_for_good(out: Outgoing, mailbox: Mailbox, target: str) -> None:
    await mail_to(out, target)
    await parked(out.store)
    mailbox.faults.ask(Fault(FaultKind.decline, about=LEADS))
    await out.send()
    (row,) = await out.sendings()
    assert row["status"] == "dead"
    assert row["last_status"] == (554 if target == LEADS else 550)


async def test_no_mail_server(out: Outgoing, mailbox: Mailbox) -> None:
    await mail_to(out)
    await parked(out.store)
    for relay, error in (
        (None, "SIGNOFF_SMTP_HOST"),
        (Relay("127.0.0.1", 1, "signoff@shop.test", starttls=False), "can't be reached"),
        (Relay("127.0.0.1", mailbox.port, "signoff@shop.test", starttls=True), "does not offer"),
    ):
        out.relay = relay
        await out.send()
        (row,) = await out.sendings()
        assert row["status"] == "pending"
        assert error in row["last_error"]
        await out.later()
    assert mailbox.mails() == []


async def test_a_reviewer_is_told_in_slack(out: Outgoing) -> None:
    await out.subscribe("leads", kind="slack", template="{tool}: {description}", filter={"rule": ["refunds"]})
    await parked(out.store, refund(description="<!channel> A & B"))
    out.receiver.answers.append(Answer(429, {"Retry-After": "1"}))
    await out.send()
    await out.later()
    await out.send()
    assert [json.loads(request.body) for request in out.receiver.log] == [
        {"text": "refund: &lt;!channel&gt; A &amp; B"}
    ] * 2
    assert out.receiver.log[0].headers["content-type"] == "application/json"
    assert "webhook-signature" not in out.receiver.log[0].headers


async def test_who_is_asked_now_is_told(out: Outgoing) -> None:
    """The event of a rung names one item, and whom it asks."""
    for group in ("finance", "directors"):
        kind = ["signoff.review.escalated.v1"]
        template = group + ": {tool}, {description}"
        await out.subscribe(group, kind="slack", event_types=kind, filter={"groups": [group]}, template=template)
    job = await parked(out.store, refund(), refund(tool="send_email", description="A mail"))
    items = await out.rows("SELECT id FROM signoff.items WHERE review_id = %s ORDER BY ordinal", job.review_id)
    data = {"review_id": str(job.review_id), "item_id": str(items[1]["id"]), "reviewers": ["directors"]}
    async with out.store.begin() as tx:
        event = NewEvent(EventType.review_escalated, f"reviews/{job.review_id}", "signoff", data, job.job_id)
        await tx.events.append(event)
    await out.send()
    assert [json.loads(request.body)["text"] for request in out.receiver.log] == ["directors: send_email, A mail"]
