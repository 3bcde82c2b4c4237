"""The graph: what a model can get wrong, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolCall
from langchain_core.messages import ToolMessage as Result

from signoff.domain import allow, review
from signoff.workers.graph import ModelFailed
from signoff.workers.messages import open_calls
from tests.support.graph_runs import APPROVE, GraphRun, edit, reject, respond
from tests.support.models import calling, is_complete, scripted

pytestmark = pytest.mark.anyio

HUGE = 2**64


def unreadable(text: str | None = '{"amount": ', tool: str | None = "pay", call_id: str | None = "c0") -> AIMessage:
    call = InvalidToolCall(name=tool, args=text, id=call_id, error="no JSON", type="invalid_tool_call")
    return AIMessage("", invalid_tool_calls=[call])


def call(tool: str, args: dict[str, Any], call_id: str | None) -> ToolCall:
    return ToolCall(name=tool, args=args, id=call_id, type="tool_call")


async def said(message: AIMessage, *more: Any, **options: Any) -> GraphRun:
    run = GraphRun(scripted(message, *more), **options)
    await run.say()
    return run


@pytest.mark.parametrize(
    ("tool", "args", "words"),
    [
        ("fly", {}, "There is no tool 'fly'"),
        ("pay", {}, "'amount' is a required property"),
        ("pay", {"amount": "much"}, "amount: 'much' is not of type 'integer'"),
        ("pay", {"amount": 5, "to": "me"}, "'to' was unexpected"),
        ("read", {"key": 5}, "key: 5 is not of type 'string'"),
    ],
)
async def test_a_call_that_does_not_fit_is_an_error_result(tool: str, args: dict[str, Any], words: str) -> None:
    run = await said(calling((tool, args)), "Well.", rules=[allow("read"), review("*", reviewers=["leads"])])
    assert await run.pauses() == []
    (result,) = await run.results()
    assert result.status == "error"
    assert words in str(result.content)
    assert run.executor.ran == []


@pytest.mark.parametrize("rules", [[allow("pay")], [review("pay", reviewers=["leads"])]])
async def test_unreadable_arguments_go_to_a_person_who_may_reject_or_respond(rules: list[Any]) -> None:
    fallback = [*rules, review("read", reviewers=["leads"])]
    run = await said(unreadable(), "Well.", rules=fallback)
    if rules[0].verdict == "allow":
        # Nobody is named who could be asked.
        assert "names no reviewers" in str((await run.results())[0].content)
        return
    (item,) = await run.items()
    assert (item["decisions"], item["args"], item["unreadable_args"]) == (["reject", "respond"], None, '{"amount": ')


@pytest.mark.parametrize("outcome", [APPROVE, edit(amount=1), reject("No"), respond("Leave it"), None])
async def test_unreadable_arguments_never_run(outcome: dict[str, Any] | None) -> None:
    run = await said(unreadable(), "Well.")
    await run.decide(outcome)
    assert run.executor.ran == []
    assert is_complete(await run.messages())


async def test_readable_and_unreadable_calls_share_one_review() -> None:
    message = calling(("pay", {"amount": 5}))
    message.invalid_tool_calls = unreadable(call_id="c9").invalid_tool_calls
    run = await said(message, "Well.")
    assert [item["ordinal"] for item in await run.items()] == [0, 1]
    await run.decide(APPROVE, respond("Leave it"))
    assert run.executor.ran == [("pay", {"amount": 5})]


async def test_an_unreadable_call_of_no_tool_is_an_error_result() -> None:
    run = await said(unreadable(text=None, tool=None, call_id=None), "Well.")
    assert "There is no tool ''" in str((await run.results())[0].content)
    assert is_complete(await run.messages())


@pytest.mark.parametrize("amount", [HUGE, -HUGE, float("nan"), float("inf")])
async def test_numbers_that_can_not_be_stored_count_as_unreadable(amount: Any) -> None:
    block = {"type": "tool_use", "id": "c0", "name": "pay", "input": {"amount": amount}}
    run = await said(calling(("pay", {"amount": amount}), content=[block]), "Well.")
    (item,) = await run.items()
    assert item["args"] is None
    assert item["decisions"] == ["reject", "respond"]
    await run.decide(reject("No"))
    assert is_complete(await run.messages())


@pytest.mark.parametrize("amount", [2**64 - 1, -(2**63)])
async def test_the_largest_integers_that_can_be_stored_are_read(amount: int) -> None:
    run = await said(calling(("pay", {"amount": amount})), "Well.")
    assert (await run.items())[0]["args"] == {"amount": amount}


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
async def test_text_that_can_not_be_stored_is_scrubbed(bad: str) -> None:
    run = await said(AIMessage(bad, additional_kwargs={bad: [bad]}, response_metadata={"x": bad}, id=bad))
    message = (await run.answers())[0]
    scrubbed = "a\ufffdb"
    assert (message.text, message.id) == (scrubbed, scrubbed)
    assert (message.additional_kwargs, message.response_metadata["x"]) == ({scrubbed: [scrubbed]}, scrubbed)


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
async def test_arguments_with_such_text_count_as_unreadable(bad: str) -> None:
    run = await said(calling(("pay", {"amount": 5, "note": bad})), "Well.")
    (item,) = await run.items()
    assert item["args"] is None
    assert bad not in str(item["unreadable_args"])


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
async def test_names_and_ids_of_calls_are_scrubbed(bad: str) -> None:
    run = await said(calling(call(bad, {}, bad), call("pay", {"amount": 5}, f"{bad}2")), "Well.")
    (item,) = await run.items()
    assert item["tool_call_id"] == "a\ufffdb2"
    assert bad not in "".join(str(message) for message in await run.messages())


@pytest.mark.parametrize("ids", [(None, None), ("x", "x"), ("x", None), ("", ""), ("m1-1", None), ("x", "x", "x")])
async def test_each_call_has_an_id_of_its_own(ids: tuple[str | None, ...]) -> None:
    calls = [call("pay", {"amount": place}, call_id) for place, call_id in enumerate(ids)]
    run = await said(calling(*calls, id="m1"), "Done.")
    await run.decide(*([APPROVE] * len(ids)))
    assert sorted(args["amount"] for _, args in run.executor.ran) == list(range(len(ids)))
    message = (await run.answers())[0]
    own = [call["id"] for call in message.tool_calls]
    assert all(own)
    assert len(set(own)) == len(ids)
    assert sorted(result.tool_call_id for result in await run.results()) == sorted(own)  # type: ignore[type-var]
    assert is_complete(await run.messages())


async def test_the_same_call_id_again_is_another_call() -> None:
    run = await said(calling(("read", {"key": "a"})), calling(("read", {"key": "b"})), "Done.")
    assert [args for _, args in run.executor.ran] == [{"key": "a"}, {"key": "b"}]
    assert len({call["operation_id"] for call in run.executor.calls}) == 2


async def test_the_same_message_id_again_is_another_message() -> None:
    run = await said(calling(("read", {"key": "a"}), id="m"), calling(("read", {"key": "b"}), id="m"), "Done.")
    assert len(await run.answers()) == 3
    assert len({call["operation_id"] for call in run.executor.calls}) == 2
    assert is_complete(await run.messages())


def test_an_open_call_is_found_though_its_id_was_answered_before() -> None:
    first, second = calling(("read", {"key": "a"})), calling(("pay", {"amount": 5}))
    history: list[AnyMessage] = [HumanMessage("Go"), first, Result("a", tool_call_id="c0"), second]
    assert open_calls(history) == [("c0", "pay")]
    assert open_calls([*history, Result("paid", tool_call_id="c0")]) == []


async def test_a_model_that_fails_is_a_failure_of_the_model() -> None:
    with pytest.raises(ModelFailed, match="ValueError: no JSON"):
        await GraphRun(scripted(ValueError("no JSON"))).say()
