"""The support desk's outside services and the tools that use them, over real sockets."""

from __future__ import annotations

import asyncio
import smtplib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.support_desk.agent import agent, refund, send_email
from examples.support_desk.faults import Fault, FaultKind
from examples.support_desk.mailbox import Mailbox
from examples.support_desk.payments import Payments
from signoff.workers.current import CurrentEffect, running
from signoff.workers.outcomes import NotApplied, Refused
from tests.support.eventually import eventually

pytestmark = pytest.mark.anyio

PAYMENT = {"order_id": "A-1001", "amount": 42.5, "reason": "late"}
MAIL = {"to": "ada@example.com", "subject": "Hej", "body": "All is wéll."}


@pytest.fixture
def payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    with Payments(tmp_path / "payments.jsonl") as service:
        monkeypatch.setenv("SUPPORT_DESK_PAYMENTS_URL", service.url)
        yield service


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with Mailbox(tmp_path / "mail.jsonl") as service:
        monkeypatch.setenv("SUPPORT_DESK_SMTP_HOST", service.host)
        monkeypatch.setenv("SUPPORT_DESK_SMTP_PORT", str(service.port))
        yield service


async def post(payments: Payments, key: str | None, body: Any = PAYMENT, path: str = "/refunds") -> httpx.Response:
    async with httpx.AsyncClient(base_url=payments.url, trust_env=False) as client:
        return await client.post(path, json=body, headers={"Idempotency-Key": key} if key else {})


async def pay(key: str = "op_1.0", **changes: Any) -> Any:
    with running(CurrentEffect("op_1", key, 1)):
        return await refund.ainvoke({**PAYMENT, **changes})


async def mail(operation_id: str = "op_1", **changes: Any) -> Any:
    with running(CurrentEffect(operation_id, f"{operation_id}.0", 1)):
        return await send_email.ainvoke({**MAIL, **changes})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- the payments service ----------------------------------------------------------------------------------


async def test_one_key_pays_once(payments: Payments) -> None:
    first, second = await post(payments, "k"), await post(payments, "k")
    assert (first.status_code, first.json()) == (second.status_code, second.json()) == (201, first.json())
    assert payments.applied() == [{"key": "k", "id": "re_0001", **PAYMENT}]
    assert [entry["status"] for entry in payments.requests()] == [201, 201]


async def test_one_key_with_another_body_is_a_conflict(payments: Payments) -> None:
    await post(payments, "k")
    assert (await post(payments, "k", {**PAYMENT, "amount": 1.0})).status_code == 409
    assert len(payments.applied()) == 1


async def test_twenty_at_once_pay_once(payments: Payments) -> None:
    payments.faults.ask(Fault(FaultKind.delay_before, seconds=0.2))
    answers = await asyncio.gather(*(post(payments, "k") for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert sum(answer.status_code == 201 for answer in answers) >= 1
    assert len(payments.applied()) == 1


@pytest.mark.parametrize(
    ("key", "body", "status"),
    [
        (None, PAYMENT, 400),
        ("k", {**PAYMENT, "amount": 0}, 422),
        ("k", {**PAYMENT, "amount": "5"}, 422),
        ("k", {**PAYMENT, "amount": True}, 422),
        ("k", {"order_id": "A-1"}, 422),
        ("k", None, 422),
        ("k", {**PAYMENT, "amount": 10_001}, 402),
    ],
)
async def test_what_is_refused_pays_nothing(payments: Payments, key: str | None, body: Any, status: int) -> None:
    assert (await post(payments, key, body)).status_code == status
    assert payments.applied() == []


async def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    with Payments(tmp_path / "log") as before:
        first = await post(before, "k")
        declined = await post(before, "d", {**PAYMENT, "amount": 10_001})
    with Payments(tmp_path / "log") as after:
        assert (await post(after, "k")).json() == first.json()
        assert (await post(after, "d", {**PAYMENT, "amount": 10_001})).status_code == declined.status_code == 402
        assert (await post(after, "other")).json()["id"] == "re_0002"
        assert len(after.applied()) == 2


@pytest.mark.parametrize(
    ("kind", "first", "second", "paid_before_the_second"),
    [
        (FaultKind.error_before, 500, 201, 0),
        (FaultKind.error_after, 500, 201, 1),
        (FaultKind.decline, 402, 402, 0),
        (FaultKind.delay_before, 201, 201, 1),
        (FaultKind.delay_after, 201, 201, 1),
    ],
)
async def test_a_fault_does_what_it_says(
    payments: Payments, kind: FaultKind, first: int, second: int, paid_before_the_second: int
) -> None:
    assert (await post(payments, None, {"kind": kind, "about": "A-1001"}, "/faults")).status_code == 200
    assert (await post(payments, "other", {**PAYMENT, "order_id": "A-1002"})).status_code == 201
    assert (await post(payments, "k")).status_code == first
    assert len(payments.applied()) == 1 + paid_before_the_second
    assert (await post(payments, "k")).status_code == second


async def test_a_fault_that_is_none_is_refused(payments: Payments) -> None:
    wrong: list[Any] = [{"kind": "explode"}, {"kind": "decline", "color": 1}, [], None]
    for raw in wrong:
        assert (await post(payments, None, raw, "/faults")).status_code == 422


# --- the refund tool ---------------------------------------------------------------------------------------


async def test_a_refund_tells_its_reference(payments: Payments) -> None:
    assert await pay() == "Refunded 42.50 on order A-1001 as re_0001."
    assert [paid["key"] for paid in payments.applied()] == ["op_1.0"]


async def test_a_declined_refund_is_refused(payments: Payments) -> None:
    with pytest.raises(Refused, match="declined"):
        await pay(amount=10_001.0)
    with pytest.raises(Refused, match="above 0"):
        await pay(key="other", amount=-1.0)


async def test_a_payments_service_that_is_away_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_DESK_PAYMENTS_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(NotApplied):
        await pay()


async def test_a_lost_answer_is_neither_yes_nor_no(payments: Payments) -> None:
    payments.faults.ask(Fault(FaultKind.drop_reply))
    payments.faults.ask(Fault(FaultKind.error_before))
    with pytest.raises(httpx.RemoteProtocolError):
        await pay()
    with pytest.raises(httpx.HTTPStatusError):
        await pay(key="other")
    assert await pay() == "Refunded 42.50 on order A-1001 as re_0001."
    assert len(payments.applied()) == 1


# --- the mail tool -----------------------------------------------------------------------------------------


async def test_a_mail_arrives_with_the_operations_id(mailbox: Mailbox) -> None:
    assert await mail() == "Mailed ada@example.com: Hej."
    (kept,) = mailbox.mails()
    assert kept["message_id"] == "<op_1@support-desk.example>"
    assert (kept["to"], kept["subject"], kept["body"]) == (["ada@example.com"], "Hej", "All is wéll.")


@pytest.mark.parametrize(
    "changes", [{"to": "x@nobody.invalid"}, {"subject": "a\nBcc: b@example.com"}, {"to": ""}, {"to": "a@b.c, d@e.f"}]
)
async def test_a_mail_that_can_not_be_sent_is_refused(mailbox: Mailbox, changes: dict[str, str]) -> None:
    with pytest.raises(Refused):
        await mail(**changes)
    assert mailbox.mails() == []


async def test_a_mail_server_that_says_never_has_refused(mailbox: Mailbox) -> None:
    mailbox.faults.ask(Fault(FaultKind.decline))
    with pytest.raises(Refused):
        await mail()


async def test_a_mail_server_that_is_away_has_done_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_DESK_SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("SUPPORT_DESK_SMTP_PORT", str(free_port()))
    with pytest.raises(NotApplied):
        await mail()


@pytest.mark.parametrize("kind", [FaultKind.drop_reply, FaultKind.error_after])
async def test_a_mail_without_an_answer_is_neither_sent_nor_not(mailbox: Mailbox, kind: FaultKind) -> None:
    mailbox.faults.ask(Fault(kind))
    with pytest.raises((smtplib.SMTPServerDisconnected, smtplib.SMTPDataError)):
        await mail()
    await eventually(lambda: len(mailbox.mails()) == 1)


# --- the agent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "verdict"),
    [
        ("lookup_order", {"order_id": "A-1001"}, "allow"),
        ("refund", {**PAYMENT, "amount": 20.0}, "allow"),
        ("refund", {**PAYMENT, "amount": 20.01}, "review"),
        ("refund", {**PAYMENT, "amount": -5.0}, "review"),
        ("refund", {"order_id": "A-1001"}, "review"),
        ("send_email", MAIL, "review"),
        ("ask_customer", {"question": "Which?"}, "review"),
        ("shell", {}, "deny"),
    ],
)
def test_the_policy_of_the_desk(tool: str, args: dict[str, Any], verdict: str) -> None:
    assert agent.loaded_policy.judge(tool, args, job={}, environment="development").verdict == verdict


def test_a_question_can_be_answered_and_never_approved() -> None:
    judgement = agent.loaded_policy.judge("ask_customer", {"question": "?"}, job={}, environment="development")
    assert [str(word) for word in judgement.decisions] == ["respond", "reject"]


async def test_orders_are_looked_up() -> None:
    lookup = agent.tools_by_name["lookup_order"]
    assert "ada@example.com" in await lookup.ainvoke({"order_id": "A-1001"})
    assert "no order" in await lookup.ainvoke({"order_id": "A-9"})
