"""The deterministic model: what it reads, what it says about results, and that it always comes to an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from signoff.workers import refusals
from signoff.workers.demo_model import MOST_ROUNDS, DemoModel


@tool
def lookup_order(order_id: str) -> str:
    """Looks an order up."""
    raise NotImplementedError


@tool
def refund(order_id: str, amount: float, reason: str) -> str:
    """Pays money back."""
    raise NotImplementedError


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Writes to somebody."""
    raise NotImplementedError


@tool
def ask_customer(question: str) -> str:
    """Asks the customer."""
    raise NotImplementedError


TOOLS: list[BaseTool] = [lookup_order, refund, send_email, ask_customer]


def ask(*messages: AnyMessage | str, tools: list[BaseTool] | None = None) -> AIMessage:
    history = [HumanMessage(message) if isinstance(message, str) else message for message in messages]
    return DemoModel().bind_tools(TOOLS if tools is None else tools).invoke([SystemMessage("Be good."), *history])


def calls(message: AIMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


def told(message: AIMessage, *texts: str, status: Any = "success") -> list[ToolMessage]:
    return [
        ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status=status)
        for call, text in zip(message.tool_calls, texts, strict=True)
    ]


def after(request: str, *texts: str, status: Any = "success") -> AIMessage:
    """The model's next message once the calls of the first have these results."""
    first = ask(request)
    return ask(request, first, *told(first, *texts, status=status))


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Where is order A-1001?", [("lookup_order", {"order_id": "A-1001"})]),
        ("Please look up A-7.", [("lookup_order", {"order_id": "A-7"})]),
        (
            "Refund 42.50 on order A-1001 because the parcel came late.",
            [("refund", {"order_id": "A-1001", "amount": 42.5, "reason": "The parcel came late"})],
        ),
        (
            "refund 12 on A-1002",
            [("refund", {"order_id": "A-1002", "amount": 12.0, "reason": "The customer asked for it"})],
        ),
        (
            "Write to ada@example.com about her voucher: it is valid until May.",
            [
                (
                    "send_email",
                    {"to": "ada@example.com", "subject": "About her voucher", "body": "It is valid until May."},
                )
            ],
        ),
        ("Email the customer of A-1001 that all is well.", [("lookup_order", {"order_id": "A-1001"})]),
        (
            "I want my money back",
            [
                (
                    "ask_customer",
                    {"question": "We would like to help with the refund. Which order and amount is it about?"},
                )
            ],
        ),
        (
            "Where is A-1? Refund 5 on A-1 and tell eve@example.com that we are sorry and that we try harder.",
            [
                ("lookup_order", {"order_id": "A-1"}),
                ("refund", {"order_id": "A-1", "amount": 5.0, "reason": "The customer asked for it"}),
                (
                    "send_email",
                    {
                        "to": "eve@example.com",
                        "subject": "About your request",
                        "body": "We are sorry and that we try harder.",
                    },
                ),
            ],
        ),
    ],
)
def test_what_it_reads(request_text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    assert calls(ask(request_text)) == expected


def test_what_it_cannot_read_gets_a_list_of_what_it_can() -> None:
    answer = ask("Sing a song", tools=[lookup_order])
    assert not answer.tool_calls
    assert "Where is order A-1001?" in str(answer.text)
    assert "Refund" not in str(answer.text)


def test_without_a_tool_that_it_knows_it_says_so() -> None:
    assert "none of my tools" in str(ask("Refund 5 on A-1", tools=[]).text)


def test_ids_follow_from_the_history() -> None:
    request = "Refund 5 on A-1 and where is A-2?"
    first = ask(request)
    assert ask(request).tool_calls == first.tool_calls
    assert ask(request).id == first.id
    again = ask(request, first, *told(first, "ok", "ok"), AIMessage("done"), request)
    ids = [call["id"] for call in [*first.tool_calls, *again.tool_calls]]
    assert len(set(ids)) == 4
    assert again.id != first.id


def test_a_mail_to_the_customer_of_an_order_takes_the_address_from_the_lookup() -> None:
    second = after("Email the customer of A-1001 that all is well.", "A-1001, of Ada <ada@example.com>, shipped")
    args = {"to": "ada@example.com", "subject": "About your order A-1001", "body": "All is well."}
    assert calls(second) == [("send_email", args)]


def test_a_mail_without_an_address_is_reported_as_not_done() -> None:
    answer = after("Email the customer of A-1001 that all is well.", "no such order", status="error")
    assert not answer.tool_calls
    assert "Not done: the mail about order A-1001" in str(answer.text)


def test_a_success_is_reported_in_its_own_words() -> None:
    assert str(after("Where is A-1?", "A-1 is in Oslo").text) == "A-1 is in Oslo"


def test_a_changed_call_is_reported_as_changed() -> None:
    text = refusals.edited("refund", {"order_id": "A-1", "amount": 30.0, "reason": "late"}) + "Refunded 30.00"
    answer = after("Refund 42.50 on A-1", text)
    assert str(answer.text).startswith("Refunded 30.00 (A reviewer changed this call.")


def test_a_rejection_is_reported_as_not_done() -> None:
    text = refusals.rejected("refund", "The parcel came in time", "stop")
    answer = after("Refund 42.50 on A-1", text, status="error")
    assert not answer.tool_calls
    assert str(answer.text).startswith("Not done: refund(order_id='A-1', amount=42.5")
    assert "The parcel came in time" in str(answer.text)
    assert "Do not try again" not in str(answer.text)


def test_an_answer_of_the_customer_is_reported() -> None:
    assert str(after("I want my money back", "Order A-3").text) == "The customer's answer: Order A-3"


def test_what_was_not_understood_is_said_beside_what_was_done() -> None:
    assert "Not understood: Sing!" in str(after("Where is A-1? Sing!", "in Oslo").text)


def test_a_lower_number_in_the_reason_is_proposed_once() -> None:
    request = "Refund 42.50 on A-1"
    first = ask(request)
    no = refusals.rejected("refund", "At most EUR 20, please", "revise")
    second = ask(request, first, *told(first, no, status="error"))
    assert [args["amount"] for _, args in calls(second)] == [20.0]
    lower = refusals.rejected("refund", "at most 10", "revise")
    third = ask(request, first, *told(first, no, status="error"), second, *told(second, lower, status="error"))
    assert not third.tool_calls
    assert str(third.text).count("Not done") == 2


@pytest.mark.parametrize(
    ("reason", "then"),
    [("at most 20", "stop"), ("at most 20", "ask"), ("not today", "revise"), ("at most 99", "revise")],
)
def test_nothing_is_proposed_anew_without_leave_and_a_lower_number(reason: str, then: str) -> None:
    assert not after("Refund 42.50 on A-1", refusals.rejected("refund", reason, then), status="error").tool_calls


REQUESTS = [
    "Refund 50 on A-1",
    "Email the customer of A-1 that all is well",
    "Where is A-1?",
    "I want my money back",
    "Refund 60 on A-1 and email the customer of A-1 that it is paid",
]
RESULTS = [
    ("ok, ada@example.com", "success"),
    ("boom", "error"),
    (refusals.rejected("refund", "at most 20", "revise"), "error"),
    (refusals.rejected("refund", "at most 5", "revise"), "error"),
    (refusals.rejected("refund", None, "ask"), "error"),
]


@given(st.sampled_from(REQUESTS), st.lists(st.sampled_from(RESULTS), min_size=12, max_size=12))
def test_it_always_comes_to_an_end(request_text: str, outcomes: list[tuple[str, str]]) -> None:
    history: list[AnyMessage] = [HumanMessage(request_text)]
    left = iter(outcomes)
    for _ in range(MOST_ROUNDS + 1):
        answer = ask(*history)
        if not answer.tool_calls:
            break
        history.append(answer)
        for call in answer.tool_calls:
            text, status = next(left)
            history.append(ToolMessage(text, tool_call_id=call["id"] or "", status=status))
    assert not answer.tool_calls
    assert str(answer.text)
