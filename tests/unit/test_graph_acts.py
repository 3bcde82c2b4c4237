"""The graph: calls that wait in the middle of acting, and where runs end."""

from __future__ import annotations

import pytest

from signoff.workers.messages import open_calls
from tests.support.graph_runs import APPROVE, GraphRun
from tests.support.models import calling, is_complete, scripted

pytestmark = pytest.mark.anyio

HOLD = {"kind": "hold"}
WAIT = {"kind": "wait", "retry_at": "2030-01-01T00:00:00+00:00"}
PAY, READ = ("pay", {"amount": 5}), ("read", {"key": "a"})


async def held(*pauses: dict[str, str]) -> GraphRun:
    """A run whose payment is approved, and then waits; its sibling does not."""
    run = GraphRun(scripted(calling(READ, PAY), "Done."))
    run.executor.pauses[5] = list(pauses)
    await run.say()
    await run.decide(APPROVE)
    return run


@pytest.mark.parametrize("pause", [HOLD, WAIT])
async def test_a_call_that_waits_pauses_after_its_siblings_are_done(pause: dict[str, str]) -> None:
    run = await held(pause)
    value = (await run.pause()).value
    assert value["kind"] == pause["kind"]
    assert value["operation_id"].startswith("op_")
    assert run.executor.ran == [READ]
    assert len(run.model.asked) == 1


async def test_a_call_that_is_settled_goes_on_and_its_sibling_does_not_run_again() -> None:
    run = await held(HOLD)
    run.executor.pauses[5].clear()
    await run.resume(await run.pause(), {"settled": True})
    assert run.executor.ran == [READ, PAY]
    assert is_complete(await run.messages())
    assert (await run.messages())[-1].text == "Done."


async def test_a_call_may_pause_again_and_again() -> None:
    run = await held(WAIT, HOLD)
    await run.resume(await run.pause(), {"due": True})
    run.executor.pauses[5].pop(0)
    await run.resume(await run.pause(), {"due": True})
    assert (await run.pause()).value["kind"] == "hold"
    run.executor.pauses[5].pop(0)
    await run.resume(await run.pause(), {"settled": True})
    assert run.executor.ran == [READ, PAY]


async def test_two_calls_wait_each_for_itself() -> None:
    run = GraphRun(scripted(calling(("read", {"key": "a"}), ("read", {"key": "b"})), "Done."))
    run.executor.pauses.update({"a": [HOLD], "b": [HOLD]})
    await run.say()
    first, second = await run.pauses()
    assert first.value["operation_id"] != second.value["operation_id"]
    run.executor.pauses["a"].clear()
    await run.resume(first, {"settled": True})
    assert [interrupt.id for interrupt in await run.pauses()] == [second.id]
    run.executor.pauses["b"].clear()
    await run.resume(second, {"settled": True})
    assert sorted(args["key"] for _, args in run.executor.ran) == ["a", "b"]


async def test_the_step_limit_ends_the_run_before_the_gate() -> None:
    run = GraphRun(scripted(*(calling(READ) for _ in range(4))), max_rounds=3)
    await run.say()
    assert len(run.executor.ran) == 3
    assert len(run.model.asked) == 4
    assert [tool for _, tool in open_calls(await run.messages())] == ["read"]


async def test_calls_without_ids_are_found_open_at_the_step_limit() -> None:
    nameless = calling({"name": "read", "args": {"key": "a"}, "id": None, "type": "tool_call"})
    run = GraphRun(scripted(nameless), max_rounds=0)
    await run.say()
    assert len(open_calls(await run.messages())) == 1


async def test_the_rounds_are_counted_for_each_job() -> None:
    run = GraphRun(scripted(calling(READ), "One.", calling(READ), "Two."), max_rounds=1)
    await run.say()
    await run.say()
    assert (await run.messages())[-1].text == "Two."
    assert (await run.state())["rounds"] == 1


async def test_a_plain_answer_is_no_round() -> None:
    run = GraphRun(scripted("Hello."), max_rounds=0)
    await run.say()
    assert (await run.state())["rounds"] == 0
    assert run.kept == 0


async def test_the_model_is_not_asked_while_a_call_has_no_result() -> None:
    run = GraphRun(scripted(calling(READ), "Never."), max_rounds=0)
    await run.say()
    with pytest.raises(RuntimeError, match="without a result"):
        await run.say("Go on")
