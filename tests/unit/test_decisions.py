"""Decisions as they arrive: read strictly, refused by name."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from signoff.domain.decisions import Answer, NextStep, parse_answers
from signoff.domain.errors import EditIncomplete, InvalidRequest, MessageRequired, SignoffError
from signoff.domain.policy import DecisionType


def one(raw: Any) -> Answer:
    (answer,) = parse_answers({"decisions": [raw]})
    return answer


def test_langchains_four_forms_are_read_by_position() -> None:
    answers = parse_answers(
        {
            "decisions": [
                {"type": "approve"},
                {"type": "edit", "edited_action": {"name": "refund", "args": {"amount": 1}}},
                {"type": "reject", "message": "too much", "then": "stop"},
                {"type": "respond", "message": "blue"},
            ]
        }
    )
    assert [answer.type for answer in answers] == list(DecisionType)
    assert all(answer.by_position for answer in answers)
    assert (answers[1].edited_name, answers[1].edited_args) == ("refund", {"amount": 1})
    assert (answers[2].message, answers[2].then) == ("too much", NextStep.stop)


def test_items_are_named_by_item_id_or_tool_call_id() -> None:
    item_id = uuid4()
    assert one({"type": "approve", "item_id": str(item_id)}).item_id == item_id
    assert one({"type": "approve", "tool_call_id": "call-1"}).tool_call_id == "call-1"
    assert not one({"type": "approve", "tool_call_id": "call-1"}).by_position


@pytest.mark.parametrize("body", [None, [], "approve", {}, {"decisions": None}, {"decisions": {}}, {"decisions": []}])
def test_a_body_without_decisions_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_answers(body)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (None, InvalidRequest),
        ("approve", InvalidRequest),
        ({}, InvalidRequest),
        ({"type": "accept"}, InvalidRequest),
        ({"type": ["approve"]}, InvalidRequest),
        ({"type": {}}, InvalidRequest),
        ({"type": "approve", "message": "fine"}, InvalidRequest),
        ({"type": "approve", "edited_action": {"name": "a", "args": {}}}, InvalidRequest),
        ({"type": "approve", "item_id": "7"}, InvalidRequest),
        ({"type": "approve", "item_id": 7}, InvalidRequest),
        ({"type": "approve", "tool_call_id": 7}, InvalidRequest),
        ({"type": "reject", "message": 7}, InvalidRequest),
        ({"type": "reject", "message": "a\0b"}, InvalidRequest),
        ({"type": "reject", "message": "\ud800"}, InvalidRequest),
        ({"type": "reject", "message": "x" * 20_001}, InvalidRequest),
        ({"type": "reject", "then": "again"}, InvalidRequest),
        ({"type": "reject", "then": {}}, InvalidRequest),
        ({"type": "respond"}, MessageRequired),
        ({"type": "respond", "message": "  "}, MessageRequired),
        ({"type": "edit"}, EditIncomplete),
        ({"type": "edit", "edited_action": None}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": "refund"}}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": "refund", "args": []}}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": 1, "args": {}}}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": "refund", "args": {}, "id": 1}}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": "refund", "args": {"a": "\0"}}}, EditIncomplete),
        ({"type": "edit", "edited_action": {"name": "refund", "args": {"a": float("nan")}}}, EditIncomplete),
    ],
)
def test_a_bad_decision_is_refused_with_its_place(raw: Any, error: type[SignoffError]) -> None:
    with pytest.raises(error) as refused:
        one(raw)
    assert type(refused.value) is error
    assert "decisions[0]" in refused.value.message


def test_some_by_position_and_some_by_name_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="none does"):
        parse_answers({"decisions": [{"type": "approve"}, {"type": "approve", "tool_call_id": "call-1"}]})


def test_fields_beside_decisions_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="'comment'"):
        parse_answers({"decisions": [{"type": "approve"}], "comment": "x"})
