"""`effect.run` where a thread is forked or repaired, where a key comes again, and where a node gets in its own way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from signoff.domain.fork_points import KeptDecisions
from signoff.domain.forking import fork_job
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.policy import Policy, allow, review
from signoff.domain.repairing import repair_job
from signoff.infra.hints import NoHints
from signoff.infra.postgres.store import PostgresStore
from signoff.workers import Agent, Rejected, Unknown, effect
from tests.support.api import open_store
from tests.support.own_graph import Books, Node, Office, State, both
from tests.support.parked import AGENT, OPERATOR
from tests.support.runners import Workshop

pytestmark = pytest.mark.anyio

APPROVE = {"type": "approve"}
EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "ada", "amount": 2}}}
REVIEWED = [review("pay", reviewers=["finance"]), allow("*")]


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    async with open_store(database_url, pool_size=10) as services:
        yield services.store


async def forked(office: Office, job: Job, decisions: KeptDecisions = KeptDecisions.ask) -> Job:
    done = await fork_job(office.store, NoHints(), job.id, OPERATOR, "another try", decisions=decisions)
    return await office.run(UUID(done.outcome["job_id"]))


async def decided(office: Office, decision: dict[str, Any]) -> Job:
    job = await office.open()
    await office.say(job.id, decision)
    return await office.run(job.id)


@pytest.mark.parametrize(("decision", "done"), [(APPROVE, "pay ada 3"), (EDIT, "pay ada 2")])
async def test_a_fork_is_served_what_was_done(store: PostgresStore, decision: dict[str, Any], done: str) -> None:
    books = Books()
    office = Office(store, books, Node(both), REVIEWED)
    source = await decided(office, decision)
    fork = await forked(office, source)
    assert (fork.status, books.done) == (JobStatus.succeeded, ["note a", done])
    assert await office.told_at_last(fork) == await office.told_at_last(source)


async def no_is_fine() -> str:
    try:
        return await both()
    except Rejected as no:
        return str(no.reason)


async def test_a_fork_asks_again_about_what_was_refused_or_keeps_it(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(no_is_fine), REVIEWED)
    source = await decided(office, {"type": "reject", "message": "not today"})
    kept = await forked(office, source, KeptDecisions.keep)
    assert (kept.status, await office.told_at_last(kept)) == (JobStatus.succeeded, "not today")

    fork = await forked(office, source)
    assert (fork.status, books.done) == (JobStatus.awaiting_review, ["note a"])
    await office.say(fork.id, APPROVE)
    fork = await office.run(fork.id)
    assert (fork.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 3"])


async def test_a_repaired_thread_asks_again_in_its_node(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(both), REVIEWED)
    job = await office.open()
    await repair_job(store, NoHints(), job.id, OPERATOR, "a test")
    job = await office.run(job.id)
    assert (job.status, books.done) == (JobStatus.awaiting_review, ["note a"])
    await office.say(job.id, APPROVE)
    job = await office.run(job.id)
    assert (job.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 3"])


async def test_a_key_that_an_earlier_job_used_is_served_as_it_was_edited(store: PostgresStore) -> None:
    books = Books()
    office = Office(store, books, Node(both), REVIEWED)
    first = await decided(office, EDIT)
    second = await office.run((await office.submit(thread_id=first.thread_id)).id)
    assert (second.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 2"])


async def test_a_pause_that_a_node_catches_is_not_taken_for_an_end(store: PostgresStore) -> None:
    async def catches() -> str:
        try:
            return await both()
        except Exception:
            return "all went well"

    books = Books()
    job = await Office(store, books, Node(catches), REVIEWED).open()
    assert (job.status, job.error_code, books.done) == (JobStatus.awaiting_operator, "cannot_resume", ["note a"])
    assert "has caught the pause" in str(job.error_message)


async def test_nor_is_a_breakpoint(store: PostgresStore) -> None:
    def build(checkpointer: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        return Node(both).build(checkpointer).compile(checkpointer=checkpointer, interrupt_before=["work"])

    agent = Agent.from_graph(name=AGENT, build=build, tools=Books().tools, policy=Policy([allow("*")]))
    shop = Workshop(store, [], agent=agent)
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    assert (job.status, job.error_code) == (JobStatus.awaiting_operator, "cannot_resume")
    assert "before its end, at work" in str(job.error_message)


def office_of(store: PostgresStore, node: Node, *tools: Any) -> Workshop:
    agent = Agent.from_graph(name=AGENT, build=node.build, tools=tools, policy=Policy([allow("*")]))
    return Workshop(store, [], agent=agent)


async def text_of(shop: Workshop) -> str:
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    return str((job.result or {}).get("text"))


async def test_doubt_that_is_told_is_told_as_doubt(store: PostgresStore) -> None:
    @effect("opaque", on_doubt="tell_agent")
    @tool
    def lose() -> str:
        """Loses its answer."""
        raise Unknown("the line was cut")

    async def work() -> str:
        try:
            return str(await effect.run("lose", {}, key="k"))
        except Unknown as lost:
            return f"unknown: {lost}"

    assert "unknown: Nobody knows whether lose did" in await text_of(office_of(store, Node(work), lose))


async def test_a_tool_has_no_effects_of_its_own(store: PostgresStore) -> None:
    said: list[str] = []

    @effect("read")
    @tool
    async def outer() -> str:
        """Tries."""
        try:
            await effect.run("outer", {}, key="inner")
        except RuntimeError as problem:
            said.append(str(problem))
        return "done"

    async def work() -> str:
        return str(await effect.run("outer", {}, key="k"))

    assert await text_of(office_of(store, Node(work), outer)) == "done"
    assert "not for tools" in said[0]


def nested(books: Books, entered: list[str]) -> Agent:
    """A graph whose one node is a graph of two: the second of them pauses."""

    async def first(state: State) -> dict[str, Any]:
        entered.append("first")
        return {"messages": [AIMessage(str(await effect.run("note", {"what": "a"}, key="first")))]}

    async def second(state: State) -> dict[str, Any]:
        entered.append("second")
        return {"messages": [AIMessage(str(await effect.run("pay", {"to": "ada"}, key="second")))]}

    def build(checkpointer: Any) -> StateGraph[Any]:
        inner: StateGraph[Any] = StateGraph(State)
        inner.add_node("first", first)
        inner.add_node("second", second)
        inner.add_edge(START, "first")
        inner.add_edge("first", "second")
        outer: StateGraph[Any] = StateGraph(State)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        return outer

    return Agent.from_graph(name=AGENT, build=build, tools=books.tools, policy=Policy(REVIEWED))


async def test_a_pause_inside_a_subgraph_is_forked_where_it_is(store: PostgresStore) -> None:
    books, entered = Books(), list[str]()
    shop = Workshop(store, [], agent=nested(books, entered))
    await shop.enrol()
    source = await shop.run((await shop.submit()).id)
    await shop.decide(source.id, {"type": "reject"})
    source = await shop.run(source.id)
    assert entered == ["first", "second", "second"]

    done = await fork_job(store, NoHints(), source.id, OPERATOR, "another try")
    fork = await shop.run(UUID(done.outcome["job_id"]))
    assert (fork.status, entered[3:]) == (JobStatus.awaiting_review, ["second"])
    await shop.decide(fork.id, APPROVE)
    fork = await shop.run(fork.id)
    assert (fork.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 1"])


async def test_a_repaired_thread_begins_its_subgraph_anew(store: PostgresStore) -> None:
    books, entered = Books(), list[str]()
    shop = Workshop(store, [], agent=nested(books, entered))
    await shop.enrol()
    job = await shop.run((await shop.submit()).id)
    await repair_job(store, NoHints(), job.id, OPERATOR, "a test")
    job = await shop.run(job.id)
    assert (job.status, entered) == (JobStatus.awaiting_review, ["first", "second", "first", "second"])
    await shop.decide(job.id, APPROVE)
    job = await shop.run(job.id)
    assert (job.status, books.done) == (JobStatus.succeeded, ["note a", "pay ada 1"])
