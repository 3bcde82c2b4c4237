"""`effect.run` in the nodes of an author's own graph: the same policy, people and ledger as any other call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.types import interrupt

from signoff.domain.effects import EffectStatus
from signoff.domain.errors import AgentInvalid
from signoff.domain.jobs import JobStatus
from signoff.domain.policy import Policy, Rule, allow, deny, review
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.workers import Agent, Refused, Rejected, effect
from signoff.workers.faults import Point
from signoff.workers.serving import serve
from tests.support.api import open_store
from tests.support.own_graph import Books, Node, Office, both

pytestmark = pytest.mark.anyio

S = EffectStatus
APPROVE = {"type": "approve"}
REVIEWED = [review("pay", reviewers=["finance"]), allow("*")]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def test_what_the_policy_allows_runs_and_its_result_is_returned(store: PostgresStore) -> None:
    books, node = Books(), Node(both)
    office = Office(store, books, node, [allow("*")])
    job = await office.open()
    assert (job.status, await office.told_at_last(job)) == (JobStatus.succeeded, "noted a, paid ada 3")
    assert books.done == ["note a", "pay ada 3"]


async def test_a_call_that_needs_a_person_pauses_there_and_what_was_done_before_is_served(store: PostgresStore) -> None:
    books, node = Books(), Node(both)
    office = Office(store, books, node, REVIEWED)
    job = await office.open()
    assert (job.status, books.done) == (JobStatus.awaiting_review, ["note a"])
    item = await office.item(job.id)
    assert (item.tool, item.args, item.reviewers) == ("pay", {"to": "ada", "amount": 3}, ("finance",))

    await office.say(job.id, APPROVE)
    job = await office.run(job.id)
    assert (job.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 3"])
    assert node.entered == 2


async def test_a_reviewer_changes_the_call(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(both), REVIEWED)
    job = await office.open()
    await office.say(job.id, {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ada", "amount": 2}}})
    job = await office.run(job.id)
    assert (books.done, await office.told_at_last(job)) == (["note a", "pay ada 2"], "noted a, paid ada 2")


async def test_a_reviewer_answers_in_its_place(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(both), REVIEWED)
    job = await office.open()
    await office.say(job.id, {"type": "respond", "message": "she has it already"})
    job = await office.run(job.id)
    assert (books.done, await office.told_at_last(job)) == (["note a"], "noted a, she has it already")


async def test_the_node_hears_of_a_rejection_and_goes_on(store: PostgresStore) -> None:
    async def work() -> str:
        try:
            return str(await effect.run("pay", {"to": "ada"}, key="k"))
        except Rejected as no:
            return f"{no.reason} / {no.next_step} / {no.reviewer}"

    books = Books()
    office = Office(store, books, Node(work), REVIEWED)
    job = await office.open()
    await office.say(job.id, {"type": "reject", "message": "not today", "then": "ask"})
    job = await office.run(job.id)
    assert (books.done, await office.told_at_last(job)) == ([], "not today / ask / rita")


@pytest.mark.parametrize(
    ("to", "rules", "says"),
    [
        ("ada", [deny("pay"), allow("*")], "The policy does not allow this call"),
        ("nobody", [allow("*")], "there is no such account"),
    ],
)
async def test_the_node_hears_of_a_refusal(store: PostgresStore, to: str, rules: list[Rule], says: str) -> None:
    async def work() -> str:
        try:
            return str(await effect.run("pay", {"to": to}, key="k"))
        except Refused as no:
            return str(no)

    books = Books()
    office = Office(store, books, Node(work), rules)
    job = await office.open()
    assert says in await office.told_at_last(job)
    assert books.done == []


async def test_waits_and_reviews_in_one_node_do_not_take_each_others_answers(store: PostgresStore) -> None:
    books = Books(busy=2)
    office = Office(store, books, Node(both), REVIEWED)
    job = await office.open()
    await office.say(job.id, APPROVE)
    job = await office.run(job.id)
    for _ in range(2):
        assert (job.status, books.done) == (JobStatus.queued, ["note a"])
        await office.hurry()
        job = await office.run(job.id)
    assert (job.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 3"])


async def test_a_key_stands_for_one_call(store: PostgresStore) -> None:
    async def work() -> str:
        first = await effect.run("note", {"what": "a"}, key="k")
        again = await effect.run("note", {"what": "a"}, key="k")
        await effect.run("note", {"what": "b"}, key="k")
        return f"{first} {again}"

    books = Books()
    job = await Office(store, books, Node(work), [allow("*")]).open()
    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "digest_mismatch")
    assert books.done == ["note a"]


class DiesOnce:
    """The worker is lost at the second time that a call has been recorded."""

    def __init__(self) -> None:
        self.recorded = 0

    async def reach(self, point: Point) -> None:
        self.recorded += point is Point.after_record
        if point is Point.after_record and self.recorded == 1:
            raise RuntimeError("lost")


async def test_a_run_that_is_lost_between_two_effects_repeats_none(store: PostgresStore) -> None:
    books, node = Books(), Node(both)
    office = Office(store, books, node, [allow("*")], faults=DiesOnce())
    job = await office.open()
    assert (job.status, books.done) == (JobStatus.queued, ["note a"])
    await office.hurry()
    job = await office.run(job.id)
    assert (job.status, books.done, node.entered) == (JobStatus.succeeded, ["note a", "pay ada 3"], 2)


async def test_an_interrupt_of_the_nodes_own_waits_for_an_operator(store: PostgresStore) -> None:
    async def work() -> str:
        return str(interrupt("what now?"))

    job = await Office(store, Books(), Node(work), [allow("*")]).open()
    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "cannot_resume")


@pytest.mark.parametrize(
    ("name", "args", "key", "says"),
    [
        ("burn", {}, "k", "There is no tool 'burn'"),
        ("pay", {"amount": 1}, "k", "'to' is a required property"),
        ("pay", {"to": "ada"}, "", "the key of an effect"),
    ],
)
async def test_what_can_not_be_run_is_said_to_the_node(
    store: PostgresStore, name: str, args: dict[str, Any], key: str, says: str
) -> None:
    async def work() -> str:
        try:
            return str(await effect.run(name, args, key=key))
        except Exception as problem:
            return str(problem)

    office = Office(store, Books(), Node(work), [allow("*")])
    assert says in await office.told_at_last(await office.open())


async def test_outside_a_run_there_is_no_effect() -> None:
    with pytest.raises(RuntimeError, match="for the nodes of an agent"):
        await effect.run("pay", {"to": "ada"}, key="k")


async def test_a_second_job_of_the_thread_may_use_the_key_again_and_is_served(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(both), [allow("*")])
    first = await office.open()
    second = await office.run((await office.submit(thread_id=first.thread_id)).id)
    assert (second.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 3"])


def test_what_is_no_graph_is_not_served() -> None:
    agent = Agent.from_graph(name="a", build=lambda _: "no graph", tools=Books().tools, policy=Policy([allow("*")]))
    with pytest.raises(AgentInvalid, match="gave a str, not a graph"):
        serve(agent, Settings())
