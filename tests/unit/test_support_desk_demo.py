"""The demo's own judgement: it must see what went wrong, and decide as its plan or its person says."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from examples.support_desk.demo_checks import Books, check
from examples.support_desk.demo_people import Plan, Terminal
from examples.support_desk.demo_script import JOBS, Expected
from examples.support_desk.demo_tables import show_books, show_checks

REFUND = {"order_id": "A-1", "amount": 5.0, "reason": "late"}
MAIL = {"to": "a@b.example", "subject": "Hi", "body": "All is well."}
EXPECTED = Expected(refunds=(("A-1", 5.0),), mails=("a@b.example",))


def effect(operation_id: str, tool: str, args: dict[str, Any], **fields: Any) -> dict[str, Any]:
    authority = {"decision_id": "d", "reviewer": "rita", "rule": None}
    common = {"job_id": "j", "generation": 0, "status": "succeeded", "attempts": 1, "created_at": "1"}
    return {**common, "operation_id": operation_id, "tool": tool, "args": args, "authority": authority, **fields}


def item(operation_id: str, word: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"operation_id": operation_id, "decision": {"type": word, "args": args}}


@pytest.fixture
def books() -> Books:
    """A refund and a mail, each once, and a mail that was rejected."""
    items = [item("op_1", "approve", REFUND), item("op_2", "edit", MAIL), item("op_3", "reject", MAIL)]
    return Books(
        numbers={"j": 1},
        jobs=[{"job_id": "j", "status": "succeeded"}],
        reviews=[{"items": items}],
        effects=[effect("op_1", "refund", REFUND), effect("op_2", "send_email", MAIL)],
        refunds=[{"id": "re_1", "key": "op_1.0", **REFUND}],
        payment_requests=[{"key": "op_1.0"}],
        mails=[
            {
                "message_id": "<op_2@support-desk.example>",
                "to": ["a@b.example"],
                "subject": "Hi",
                "body": "All is well.",
            }
        ],
    )


def failed(books: Books) -> list[str]:
    return [done.what for done in check(books, EXPECTED) if not done.passed]


def test_good_books_pass(books: Books) -> None:
    assert failed(books) == []


def spoiled(books: Books) -> Iterator[tuple[str, Books]]:
    refund, mail = books.refunds[0], books.mails[0]
    yield "paid twice", replace(books, refunds=[refund, refund])
    yield "paid under another key", replace(books, refunds=[refund, {**refund, "key": "op_9.0"}])
    yield "never paid", replace(books, refunds=[])
    yield "another amount", replace(books, refunds=[{**refund, "amount": 6.0}])
    yield "mailed twice", replace(books, mails=[mail, mail])
    yield "never mailed", replace(books, mails=[])
    yield "rejected and mailed", replace(books, mails=[mail, {**mail, "message_id": "<op_3@support-desk.example>"}])
    yield "rejected and in the ledger", replace(books, effects=[*books.effects, effect("op_3", "send_email", MAIL)])
    yield "rejected and asked for", replace(books, payment_requests=[{"key": "op_3.0"}])
    yield "not ended well", replace(books, jobs=[{"job_id": "j", "status": "failed"}])
    in_doubt = [effect("op_1", "refund", REFUND, status="in_doubt"), books.effects[1]]
    yield "approved, and in doubt", replace(books, effects=in_doubt)
    other = [effect("op_1", "refund", {**REFUND, "amount": 6.0}), books.effects[1]]
    yield "ran with other arguments", replace(books, effects=other)


def test_whatever_is_wrong_is_seen(books: Books) -> None:
    unseen = [what for what, bad in spoiled(books) if not failed(bad)]
    assert unseen == []


def test_the_books_can_be_shown(books: Books) -> None:
    console = Console(file=io.StringIO(), width=200)
    show_books(console, books)
    show_checks(console, check(replace(books, refunds=[]), EXPECTED))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("op_1", "rita", "All is well.", "✗ each refund in the ledger", "✓ every job"):
        assert words in text


# --- who decides -------------------------------------------------------------------------------------------


def asked(tool: str, args: dict[str, Any], *decisions: str) -> dict[str, Any]:
    fields = {"item_id": "i", "description": "Look.", "unreadable_args": None}
    return {"items": [{**fields, "tool": tool, "args": args, "allowed_decisions": list(decisions)}]}


REVIEWED = asked("refund", REFUND, "approve", "edit", "reject")
EDITED = {
    "type": "edit",
    "item_id": "i",
    "edited_action": {"name": "refund", "args": {**REFUND, "amount": 45.0}},
}


def test_the_plan_decides_as_written() -> None:
    assert Plan().decide(JOBS[1], REVIEWED) == [{"type": "approve", "item_id": "i"}]
    assert Plan().decide(JOBS[2], REVIEWED) == [EDITED]


def test_the_plan_rejects_what_it_does_not_foresee() -> None:
    (decision,) = Plan().decide(JOBS[0], REVIEWED)
    assert (decision["type"], decision["then"]) == ("reject", "stop")


def at_the_terminal(job: int, review: dict[str, Any], typed: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    (decision,) = Terminal(Console(file=io.StringIO())).decide(JOBS[job], review)
    return decision


@pytest.mark.parametrize(
    ("job", "typed", "decision"),
    [
        (2, "\n\n\n\n", EDITED),
        (2, "shrug\napprove\n", {"type": "approve", "item_id": "i"}),
        (1, "reject\nToo much\n", {"type": "reject", "item_id": "i", "message": "Too much"}),
        (
            1,
            "edit\n\nmuch\n7.5\n\n",
            {**EDITED, "edited_action": {"name": "refund", "args": {**REFUND, "amount": 7.5}}},
        ),
    ],
)
def test_a_person_decides_by_typing(
    job: int, typed: str, decision: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at_the_terminal(job, REVIEWED, typed, monkeypatch) == decision


def test_a_person_answers_for_the_customer(monkeypatch: pytest.MonkeyPatch) -> None:
    question = asked("ask_customer", {"question": "Which?"}, "respond", "reject")
    decision = at_the_terminal(4, question, "\nA-1004\n", monkeypatch)
    assert decision == {"type": "respond", "item_id": "i", "message": "A-1004"}


def test_arguments_with_brackets_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    review = asked("refund", {**REFUND, "reason": "[bold]x[/] [/red]"}, "approve", "reject")
    assert at_the_terminal(1, review, "\n", monkeypatch)["type"] == "approve"
