"""The graph: an edit changes a message everywhere that it repeats the call, and does not add another message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.support.graph_runs import APPROVE, GraphRun, edit
from tests.support.models import calling, scripted

pytestmark = pytest.mark.anyio

BEFORE = json.dumps({"amount": 5})


async def edited(message: AIMessage, *outcomes: dict[str, Any]) -> AIMessage:
    """The message as history has it after these decisions, and as the model was told it."""
    run = GraphRun(scripted(message, "Done."))
    await run.say()
    await run.decide(*(outcomes or (edit(amount=3),)))
    answers = await run.answers()
    assert len(answers) == 2
    told = [message for message in run.model.asked[1] if isinstance(message, AIMessage)]
    assert told == answers[:1]
    return answers[0]


async def test_the_message_keeps_its_id_and_place() -> None:
    message = await edited(calling(("pay", {"amount": 5}), id="m1"))
    assert message.id == "m1"
    assert message.tool_calls == [{"name": "pay", "args": {"amount": 3}, "id": "c0", "type": "tool_call"}]


async def test_only_the_edited_call_changes() -> None:
    message = await edited(calling(("pay", {"amount": 5}), ("pay", {"amount": 6})), edit(amount=3), APPROVE)
    assert [call["args"] for call in message.tool_calls] == [{"amount": 3}, {"amount": 6}]


async def test_blocks_as_anthropic_sends_them() -> None:
    blocks: list[str | dict[Any, Any]] = [
        {"type": "text", "text": "I will pay 5."},
        {"type": "tool_use", "id": "c0", "name": "pay", "input": {"amount": 5}, "partial_json": BEFORE},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"key": "a"}},
    ]
    message = await edited(calling(("pay", {"amount": 5}), ("read", {"key": "a"}), content=blocks))
    assert message.content == [
        blocks[0],
        {"type": "tool_use", "id": "c0", "name": "pay", "input": {"amount": 3}},
        blocks[2],
    ]


async def test_blocks_as_openai_responses_sends_them() -> None:
    block = {"type": "function_call", "id": "fc_1", "call_id": "c0", "name": "pay", "arguments": BEFORE}
    message = await edited(calling(("pay", {"amount": 5}), content=[block]))
    assert message.content == [{**block, "arguments": '{"amount": 3}'}]


async def test_blocks_in_langchains_own_form() -> None:
    block = {"type": "tool_call", "id": "c0", "name": "pay", "args": {"amount": 5}}
    message = await edited(calling(("pay", {"amount": 5}), content=[block]))
    assert message.content == [{**block, "args": {"amount": 3}}]


async def test_calls_in_additional_kwargs() -> None:
    raw = {"id": "c0", "type": "function", "function": {"name": "pay", "arguments": BEFORE}}
    message = await edited(calling(("pay", {"amount": 5}), additional_kwargs={"tool_calls": [raw], "other": 1}))
    assert message.additional_kwargs == {
        "tool_calls": [{**raw, "function": {"name": "pay", "arguments": '{"amount": 3}'}}],
        "other": 1,
    }


async def test_a_call_that_became_another_tools_has_its_name_everywhere() -> None:
    raw = {"id": "c0", "type": "function", "function": {"name": "pay", "arguments": BEFORE}}
    blocks: list[str | dict[Any, Any]] = [
        {"type": "tool_use", "id": "c0", "name": "pay", "input": {"amount": 5}},
        {"type": "function_call", "id": "fc_1", "call_id": "c0", "name": "pay", "arguments": BEFORE},
        {"type": "tool_call", "id": "c0", "name": "pay", "args": {"amount": 5}},
    ]
    proposed = calling(("pay", {"amount": 5}), content=blocks, additional_kwargs={"tool_calls": [raw]})
    message = await edited(proposed, {**edit(key="a"), "tool": "read"})
    assert message.tool_calls == [{"name": "read", "args": {"key": "a"}, "id": "c0", "type": "tool_call"}]
    assert "pay" not in f"{message.content} {message.additional_kwargs}"
    assert str([message.content, message.additional_kwargs]).count("'name': 'read'") == 4


async def test_an_approved_message_stays_as_the_model_wrote_it() -> None:
    block = {"type": "function_call", "id": "fc_1", "call_id": "c0", "name": "pay", "arguments": BEFORE}
    written = calling(("pay", {"amount": 5}), content=[block], id="m1", response_metadata={"model_name": "x"})
    assert await edited(written, APPROVE) == written
