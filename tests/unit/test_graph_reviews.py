"""The graph: which calls pause, and what each answer makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from signoff.domain import review
from signoff.workers.graph import repeats_of
from signoff.workers.messages import open_calls
from tests.support.graph_runs import APPROVE, EXPIRED, RULES, GraphRun, edit, reject, respond
from tests.support.models import calling, is_complete, scripted

pytestmark = pytest.mark.anyio

PAY = ("pay", {"amount": 5})


async def paused(*calls: tuple[str, dict[str, Any]], then: tuple[Any, ...] = ("Done.",)) -> GraphRun:
    """A run that waits for a review of these calls, with what the model says afterwards."""
    run = GraphRun(scripted(calling(*calls), *then))
    await run.say()
    return run


async def only_result(run: GraphRun) -> ToolMessage:
    (result,) = await run.results()
    return result


async def test_an_allowed_call_runs_without_a_pause() -> None:
    run = GraphRun(scripted(calling(("read", {"key": "a"})), "It is a."))
    await run.say()
    assert await run.pauses() == []
    assert run.executor.ran == [("read", {"key": "a"})]
    assert (await run.messages())[-1].text == "It is a."


async def test_calls_that_need_a_review_pause_once_together() -> None:
    run = await paused(("read", {"key": "a"}), PAY, ("pay", {"amount": 6}), ("drop", {"table": "t"}))
    assert [(item["tool"], item["args"]) for item in await run.items()] == [PAY, ("pay", {"amount": 6})]
    assert len(run.model.asked) == 1


async def test_allowed_calls_do_not_wait_for_the_review_of_their_siblings() -> None:
    run = await paused(("read", {"key": "a"}), PAY)
    assert run.executor.ran == [("read", {"key": "a"})]
    await run.decide(APPROVE)
    assert run.executor.ran == [("read", {"key": "a"}), PAY]
    assert len(run.model.asked) == 2
    assert is_complete(await run.messages())


async def test_the_model_is_asked_once_when_the_reviewed_siblings_of_an_allowed_call_are_rejected() -> None:
    run = await paused(("read", {"key": "a"}), PAY)
    await run.decide(reject())
    assert run.executor.ran == [("read", {"key": "a"})]
    assert len(run.model.asked) == 2
    assert is_complete(await run.messages())


async def test_the_pause_says_what_a_reviewer_must_know() -> None:
    rule = review(
        "pay", name="money", reviewers=["leads"], decisions=["approve", "reject"], deadline_seconds=60,
        approval_valid_for_seconds=30, description="Money leaves.",
    )  # fmt: skip
    run = GraphRun(scripted(calling(PAY)), rules=[rule])
    await run.say()
    (item,) = await run.items()
    assert item["decisions"] == ["approve", "reject"]
    assert (item["rule"], item["reviewers"], item["description"]) == ("money", ["leads"], "Money leaves.")
    assert (item["deadline_seconds"], item["approval_valid_for_seconds"]) == (60, 30)


async def test_an_answer_that_left_no_mark_is_kept_before_the_model_is_asked_again() -> None:
    run = GraphRun(scripted(calling(("no_such_tool", {})), "There is none."))
    await run.say()
    assert run.kept == 1


async def test_an_answer_that_pauses_is_kept_by_the_park() -> None:
    run = await paused(PAY)
    assert run.kept == 0


async def test_an_approved_call_runs_as_it_is() -> None:
    run = await paused(PAY)
    (item,) = await run.items()
    await run.decide(APPROVE)
    assert run.executor.ran == [PAY]
    assert run.executor.calls[0]["operation_id"] == item["operation_id"]
    assert (await only_result(run)).content == "ran pay"


async def test_allowed_calls_run_beside_the_approved_ones() -> None:
    run = await paused(("read", {"key": "a"}), PAY, ("pay", {"amount": 6}))
    await run.decide(reject(), APPROVE)
    assert sorted(run.executor.ran) == [("pay", {"amount": 6}), ("read", {"key": "a"})]


async def test_an_edited_call_runs_with_the_new_arguments_alone() -> None:
    run = await paused(PAY)
    (item,) = await run.items()
    await run.decide(edit(amount=3))
    (ran,) = run.executor.calls
    assert (ran["args"], ran["edits"]) == ({"amount": 3}, 1)
    assert ran["operation_id"] != item["operation_id"]
    assert ran["digest"] != item["digest"]
    result = await only_result(run)
    assert str(result.content).startswith("[A reviewer changed this call.")
    assert '"amount": 3' in str(result.content)


async def test_a_response_is_the_calls_result() -> None:
    run = await paused(PAY)
    await run.decide(respond("It is paid already"))
    result = await only_result(run)
    assert (result.content, result.status) == ("It is paid already", "success")
    assert run.executor.ran == []


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("stop", "Do not try again. Tell the user what was not done."),
        ("ask", "Ask the user how to go on"),
        ("revise", "You may propose a revised call"),
        (None, "Do not try again"),
    ],
)
async def test_a_rejection_says_what_did_not_run_why_and_what_may_follow(then: str | None, said: str) -> None:
    run = await paused(PAY)
    await run.decide(reject("Too much", then))
    result = await only_result(run)
    assert result.status == "error"
    for words in ("pay did not run", "Reason: Too much", said):
        assert words in str(result.content)
    assert run.executor.ran == []


async def test_an_expired_call_is_told_as_expired() -> None:
    run = await paused(PAY)
    await run.decide(EXPIRED)
    result = await only_result(run)
    assert result.status == "error"
    assert "before its deadline" in str(result.content)
    assert "reviewer" not in str(result.content)
    assert run.executor.ran == []


@pytest.mark.parametrize("answer", [{"items": {}}, {}, None, "approve", {"items": {"op_other": APPROVE}}])
async def test_a_call_without_a_decision_counts_as_rejected(answer: Any) -> None:
    run = await paused(PAY)
    await run.resume(await run.pause(), answer)
    assert "counts as a rejection" in str((await only_result(run)).content)
    assert run.executor.ran == []
    assert len((await run.state())["refused"]) == 1


@pytest.mark.parametrize("outcome", [{"type": "shrug"}, {"type": "open"}, {"type": "cancelled"}])
async def test_an_outcome_that_nobody_knows_counts_as_rejected(outcome: dict[str, Any]) -> None:
    run = await paused(PAY)
    await run.decide(outcome)
    assert run.executor.ran == []
    assert (await only_result(run)).status == "error"


async def test_a_rejected_call_is_refused_without_asking_until_the_user_speaks() -> None:
    run = await paused(PAY, then=(calling(PAY, id="m2"), calling(("pay", {"amount": 4})), "Well.", calling(PAY)))
    await run.decide(reject("Too much", "revise"))
    assert [item["args"] for item in await run.items()] == [{"amount": 4}]
    assert "Exactly this call was rejected before" in str((await run.results())[-1].content)
    await run.decide(APPROVE)
    await run.say("Do pay 5 after all")
    assert [item["args"] for item in await run.items()] == [{"amount": 5}]


async def test_a_refused_call_that_is_proposed_again_and_again_ends_the_run_with_what_else_was_proposed() -> None:
    again = calling(PAY, ("read", {"key": "a"}))
    run = await paused(PAY, then=(calling(PAY), calling(PAY), again, "Never."))
    await run.decide(reject("No", "revise"))
    assert len(run.model.asked) == 4
    assert run.executor.ran == []
    (call,) = [call for call in (await run.state())["calls"] if call["tool"] == "pay"]
    assert repeats_of(call, (await run.state())["refused"]) == 3
    assert [tool for _, tool in open_calls(await run.messages())] == ["read"]


async def test_two_equal_calls_that_are_rejected_together_are_no_repeat() -> None:
    run = await paused(PAY, PAY)
    await run.decide(reject("No", "revise"), reject("No", "revise"))
    (digest,) = {call["digest"] for call in (await run.state())["calls"]}
    assert (await run.state())["refused"] == [digest]


async def test_what_time_is_to_allow_goes_on_to_the_executor() -> None:
    run = await paused(PAY)
    await run.decide({**EXPIRED, "at_deadline": "approve"})
    assert run.executor.ran == [PAY]


async def test_the_pause_carries_the_rules_terms_where_there_are_any() -> None:
    run = await paused(PAY)
    (plain,) = await run.items()
    assert (plain["terms"], plain["shown"], plain["unseen"]) == (None, None, None)
    rules = [review("pay", reviewers=["leads"], approvals=2, hide=["note"], show=["args.amount"])]
    run = GraphRun(scripted(calling(PAY), "Done."), rules=rules)
    await run.say()
    (item,) = await run.items()
    assert item["terms"] == {"approvals": 2, "hidden": ["note"]}
    assert item["shown"] == {"args.amount": 5}


async def test_after_stop_nothing_more_is_asked_of_reviewers() -> None:
    run = await paused(PAY, then=(calling(("pay", {"amount": 4})), calling(("read", {"key": "a"})), "Well."))
    await run.decide(reject("No", "stop"))
    assert await run.pauses() == []
    assert "told you to stop" in str((await run.results())[1].content)
    assert run.executor.ran == [("read", {"key": "a"})]


async def test_an_expired_call_may_be_asked_again() -> None:
    run = await paused(PAY, then=(calling(PAY),))
    await run.decide(EXPIRED)
    assert [item["args"] for item in await run.items()] == [{"amount": 5}]


async def test_a_call_that_needs_a_review_by_nobody_is_refused() -> None:
    run = GraphRun(scripted(calling(("read", {"key": "a"})), "Well."), rules=[review("pay", reviewers=["leads"])])
    await run.say()
    assert "The policy does not allow this call" in str((await only_result(run)).content)
    assert run.executor.ran == []


async def test_a_denied_call_is_told_and_does_not_pause() -> None:
    run = GraphRun(scripted(calling(("drop", {"table": "t"})), "Well."))
    await run.say()
    result = await only_result(run)
    assert result.status == "error"
    assert "drop did not run" in str(result.content)
    assert run.executor.ran == []


async def test_history_is_complete_each_time_the_model_is_asked() -> None:
    run = await paused(("read", {"key": "a"}), PAY, ("drop", {"table": "t"}), ("pay", {"amount": 6}))
    await run.decide(edit(amount=1), reject("No"))
    assert [is_complete(history) for history in run.model.asked] == [True, True]
    assert is_complete(await run.messages())


async def test_the_model_is_told_how_to_take_a_refusal() -> None:
    run = await paused(PAY)
    system = run.model.asked[0][0]
    assert system.type == "system"
    assert str(system.text).startswith("Be kind.")
    assert "never say or imply that it did" in str(system.text)
    assert system not in await run.messages()


async def test_the_policy_is_asked_with_the_jobs_facts() -> None:
    rules = [review("pay", when="job.id == 'j' && environment == 'test'", reviewers=["leads"]), *RULES[:1]]
    run = GraphRun(scripted(calling(PAY)), rules=rules)
    await run.say()
    assert len(await run.items()) == 1
