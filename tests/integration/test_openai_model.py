"""A real provider's client in a whole worker: langchain-openai against a server that speaks its wire format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import DecisionNotAllowed
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.reviews import Review
from signoff.infra.embedded import EmbeddedPostgres
from tests.support.databases import ConfiguredServer
from tests.support.desk import APPROVE, Desk, answer_of
from tests.support.openai_agent import agent, responding
from tests.support.openai_server import Call, Conversation, Message, OpenAIServer, Raw, Says, fails
from tests.support.surroundings import Surroundings, open_surroundings

pytestmark = pytest.mark.anyio

MODEL = "gpt-4.1-mini"
TRIES = 2
# What the client does by itself with an error that may pass: it asks twice more.
REQUESTS_OF_A_TRY = 3
DONE = Says("Done.")


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module")
def around(
    postgres_server: EmbeddedPostgres | ConfiguredServer,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Surroundings]:
    with open_surroundings(postgres_server.url, template_database, tmp_path_factory.mktemp("openai")) as opened:
        yield opened


@pytest.fixture(scope="module")
async def desk(around: Surroundings, openai: OpenAIServer) -> AsyncIterator[Desk]:
    """A desk with one worker, whose model is a name."""
    async with around.desk() as desk:
        async with desk.store.begin() as tx:
            for one in (agent, responding):
                await tx.agents.register(one.name, one.describe(), one.loaded_policy)
        desk.start_worker(
            SIGNOFF_AGENTS="tests.support.openai_agent:agent,tests.support.openai_agent:responding",
            SIGNOFF_MODEL=f"openai:{MODEL}",
            SIGNOFF_MAX_TRIES=str(TRIES),
            OPENAI_BASE_URL=openai.base_url,
            OPENAI_API_KEY="sk-of-a-test",
        )
        yield desk


async def test_a_model_by_name_is_asked_in_its_own_words_and_its_calls_run(desk: Desk, openai: OpenAIServer) -> None:
    talk = openai.expect("How many?", Says(calls=[_stock("pens", "call_1"), _stock("cups", "call_2")]), Says("Seven."))
    job = await _done(desk, "How many?")

    assert answer_of(job) == "Seven."
    assert [request["model"] for request in talk.requests] == [MODEL] * 2
    assert [tool["function"]["name"] for tool in talk.requests[0]["tools"]] == ["stock", "order"]
    assert talk.histories[0][0]["role"] == "system"
    assert "You buy for a shop." in talk.histories[0][0]["content"]
    assert _results(talk) == {"call_1": "7 of pens", "call_2": "7 of cups"}


async def test_an_approved_call_goes_back_as_it_came(desk: Desk, openai: OpenAIServer) -> None:
    talk = openai.expect("Order pens", Says("I shall.", [_order("pens", 3, "call_a")]), DONE)
    job = await _done(desk, "Order pens", APPROVE)

    assert answer_of(job) == "Done."
    assert _calls(talk) == [("call_a", {"item": "pens", "number": 3})]
    assert _results(talk) == {"call_a": "ordered 3 of pens"}


async def test_an_edited_call_goes_back_with_the_arguments_that_ran(desk: Desk, openai: OpenAIServer) -> None:
    talk = openai.expect("Order cups", Says(calls=[_order("cups", 300, "call_e")]), DONE)
    args = {"item": "cups", "number": 3}
    await _done(desk, "Order cups", {"type": "edit", "edited_action": {"name": "order", "args": args}})

    assert _calls(talk) == [("call_e", args)]
    assert len([one for one in talk.histories[-1] if one["role"] == "assistant"]) == 1
    assert "ordered 3 of cups" in _results(talk)["call_e"]
    assert "A reviewer changed this call" in _results(talk)["call_e"]


async def test_a_refused_and_an_answered_call_of_one_message_have_a_result_each(
    desk: Desk, openai: OpenAIServer
) -> None:
    calls = [_order("ink", 1, "call_x"), _stock("ink", "call_y"), _order("glue", 2, "call_z")]
    talk = openai.expect("Order both", Says(calls=calls), DONE)
    refused = {"type": "reject", "message": "too dear", "then": "stop"}
    job = await _done(desk, "Order both", refused, {"type": "respond", "message": "Ann has some."})

    results = _results(talk)
    assert [call_id for call_id, _ in _calls(talk)] == ["call_x", "call_y", "call_z"]
    assert "order did not run" in results["call_x"]
    assert "too dear" in results["call_x"]
    assert (results["call_y"], results["call_z"]) == ("7 of ink", "Ann has some.")
    assert set(await desk.effects(job.id)) == {"stock"}


async def test_arguments_that_are_no_json_go_to_a_person_who_can_only_refuse_or_answer(
    desk: Desk, openai: OpenAIServer
) -> None:
    broken = '{"item": "pens", "number": '
    talk = openai.expect("Order badly", Says(calls=[Call("order", broken, "call_b")]), DONE)
    job_id, review = await _asked(desk, "Order badly")
    (item,) = review.items
    assert (item.args, item.unreadable_args) == (None, broken)
    assert [str(word) for word in item.allowed_decisions] == ["reject", "respond"]
    with pytest.raises(DecisionNotAllowed):
        await desk.decide(review.id, APPROVE)
    await desk.decide(review.id, {"type": "respond", "message": "Say how many."})

    answer_of(await desk.until(job_id))
    assert _results(talk) == {"call_b": "Say how many."}
    assert await desk.effects(job_id) == {}


@pytest.mark.parametrize("arguments", ["null", '{"item": "a\\u0000", "number": 1}', '{"item": "a", "number": 1e999}'])
async def test_arguments_that_no_tool_could_take_run_nothing(desk: Desk, openai: OpenAIServer, arguments: str) -> None:
    words = f"Order {arguments}"
    talk = openai.expect(words, Says(calls=[Call("order", arguments, "call_n")]), DONE)
    job_id = await desk.submit(words, agent=agent.name)
    job = await desk.until(job_id, JobStatus.awaiting_review, JobStatus.succeeded)
    if job.status is JobStatus.awaiting_review:
        review = await desk.pending_review(job_id)
        await desk.decide(review.id, {"type": "reject"})

    answer_of(await desk.until(job_id))
    assert list(_results(talk)) == ["call_n"]
    assert await desk.effects(job_id) == {}


@pytest.mark.parametrize("given", [None, "", "twice"])
async def test_calls_without_an_id_of_their_own_are_given_one(
    desk: Desk, openai: OpenAIServer, given: str | None
) -> None:
    words = f"Order with {given!r}"
    talk = openai.expect(words, Says(calls=[_order("a", 1, given), _order("b", 2, given)]), DONE)
    await _done(desk, words, APPROVE, APPROVE)

    ids = [call_id for call_id, _ in _calls(talk)]
    assert len(set(ids)) == 2
    assert [_results(talk)[call_id] for call_id in ids] == ["ordered 1 of a", "ordered 2 of b"]


@pytest.mark.parametrize("trouble", [fails(429), fails(500)], ids=["too many requests", "server error"])
async def test_an_error_that_passes_is_the_clients_own_affair(desk: Desk, openai: OpenAIServer, trouble: Raw) -> None:
    words = f"Try at {trouble.status}"
    talk = openai.expect(words, trouble, trouble, DONE)
    job = await _done(desk, words)

    assert answer_of(job) == "Done."
    assert (job.fence, len(talk.requests)) == (1, REQUESTS_OF_A_TRY)


@pytest.mark.parametrize(
    "unreadable",
    [
        Raw(200, b'{"id": "x", "choices": [{"mess'),
        # JSON, and no arguments: the client gives up on the whole answer.
        Says(calls=[Call("order", "[1, 2]", "call_l")]),
        Says(calls=[Call("order", '"pens"', "call_s")]),
    ],
    ids=["cut off", "a list", "a text"],
)
async def test_an_answer_that_the_client_can_not_read_is_asked_for_once_more_by_the_job(
    desk: Desk, openai: OpenAIServer, unreadable: Raw | Says
) -> None:
    words = f"Say it again: {unreadable}"
    talk = openai.expect(words, unreadable, DONE)
    job = await _done(desk, words)

    assert answer_of(job) == "Done."
    assert (job.fence, len(talk.requests)) == (2, 2)


@pytest.mark.parametrize(
    ("trouble", "requests"),
    [
        (fails(500), TRIES * REQUESTS_OF_A_TRY),
        (fails(401), TRIES),
        (Raw(200, b"<html>\0 a proxy's page</html>", "text/html"), TRIES),
        (Raw(200, b'{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'), TRIES),
    ],
    ids=["server error", "key refused", "not of the api", "no choice"],
)
async def test_a_model_that_stays_away_leaves_the_job_to_an_operator(
    desk: Desk, openai: OpenAIServer, trouble: Raw, requests: int
) -> None:
    words = f"Never {trouble.status} {len(trouble.body)}"
    talk = openai.expect(words, *[trouble] * requests, DONE)
    job_id = await desk.submit(words, agent=agent.name)
    held = await desk.until(job_id, JobStatus.awaiting_operator)

    assert (held.error_code, held.fence, len(talk.requests)) == ("model_failed", TRIES, requests)
    assert "sk-of-a-test" not in str(held.error_message)
    await desk.retry(job_id)
    assert answer_of(await desk.until(job_id)) == "Done."


async def test_a_model_of_the_responses_api_gets_a_changed_call_back_as_it_ran(
    desk: Desk, openai: OpenAIServer
) -> None:
    calls = [_order("cups", 300, "call_r"), _order("ink", 1, "call_s")]
    talk = openai.expect("Order by Responses", Says("I shall.", calls), DONE)
    args = {"item": "cups", "number": 3}
    edit = {"type": "edit", "edited_action": {"name": "order", "args": args}}
    job = await _done(desk, "Order by Responses", edit, {"type": "reject"}, agent=responding.name)

    assert answer_of(job) == "Done."
    assert talk.requests[0]["model"] == "codex-mini-latest"
    items = talk.histories[-1]
    called = {item["call_id"]: json.loads(item["arguments"]) for item in items if item.get("type") == "function_call"}
    told = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    assert called == {"call_r": args, "call_s": {"item": "ink", "number": 1}}
    assert "ordered 3 of cups" in told["call_r"]
    assert "order did not run" in told["call_s"]


async def _asked(desk: Desk, words: str) -> tuple[Any, Review]:
    job_id = await desk.submit(words, agent=agent.name)
    return job_id, await desk.pending_review(job_id)


async def _done(desk: Desk, words: str, *decisions: dict[str, Any], agent: str = agent.name) -> Job:
    job_id = await desk.submit(words, agent=agent)
    if decisions:
        await desk.decide((await desk.pending_review(job_id)).id, *decisions)
    job = await desk.until(job_id)
    effects = await desk.effects(job_id)
    assert {effect.status for effect in effects.values()} <= {EffectStatus.succeeded}
    return job


def _stock(item: str, call_id: str | None) -> Call:
    return Call("stock", json.dumps({"item": item}), call_id)


def _order(item: str, number: int, call_id: str | None) -> Call:
    return Call("order", json.dumps({"item": item, "number": number}), call_id)


def _calls(talk: Conversation) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the last history that the model was asked with: (id, arguments)."""
    calls = [call for message in talk.histories[-1] for call in message.get("tool_calls", ())]
    return [(call["id"], json.loads(call["function"]["arguments"])) for call in calls]


def _results(talk: Conversation) -> dict[str, str]:
    """The results in that history, by the id of their call; the server has seen to it that each call has one."""
    found: list[Message] = [message for message in talk.histories[-1] if message["role"] == "tool"]
    return {message["tool_call_id"]: message["content"] for message in found}
