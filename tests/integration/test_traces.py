"""One trace for one job: submitted over HTTP, parked at a review, gone on by another run, with its effect."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from langchain_core.tools import tool
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from signoff.domain.errors import SettingsInvalid
from signoff.domain.policy import review
from signoff.infra.hints import NoHints
from signoff.infra.redis.intake import TakeJobs
from signoff.infra.settings import Settings
from signoff.infra.telemetry.otel import OtelTracing
from signoff.infra.telemetry.tracing import ADDRESSES, NO_TRACING, Tracing, span, start_tracing
from signoff.workers import effect, intake
from tests.support.api import Api, hand_out_tokens, open_store, until
from tests.support.models import calling
from tests.support.parked import AGENT
from tests.support.runners import Workshop
from tests.support.streams import open_world

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"
SECRET = "the account of ada lovelace"


@effect("opaque")
@tool
def pay(to: str) -> str:
    """Pays."""
    return f"paid {to}"


@effect("opaque")
@tool
def fail(to: str) -> str:
    """Fails, and quotes its arguments."""
    raise RuntimeError(f"no such account: {to}")


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exported: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    yield OtelTracing(provider)
    provider.shutdown()


@asynccontextmanager
async def traced(database_url: str, tracing: Tracing) -> AsyncIterator[Api]:
    async with open_store(database_url) as services:
        yield Api(replace(services, tracing=tracing), await hand_out_tokens(services))


async def submitted(api: Api, **headers: str) -> UUID:
    answer = await api.post("shop", "/v1/jobs", {"agent": AGENT, "input": "Go"}, **headers)
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["job_id"])


async def traceparents(api: Api) -> list[str | None]:
    async with api.store.connection() as conn:
        rows = await (await conn.execute("SELECT traceparent FROM signoff.jobs ORDER BY created_at")).fetchall()
    return [row["traceparent"] for row in rows]


def named(spans: Sequence[ReadableSpan]) -> Mapping[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for one in spans:
        found.setdefault(one.name, []).append(one)
    return found


def facts(one: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("signoff."): value for name, value in (one.attributes or {}).items()}


async def test_one_trace_from_the_caller_to_the_effect(
    database_url: str, tracing: Tracing, exported: InMemorySpanExporter
) -> None:
    async with traced(database_url, tracing) as api:
        shop = Workshop(
            api.store, [pay], calling(("pay", {"to": SECRET})), "Done.", rules=[review("pay", reviewers=["finance"])]
        )
        shop.runner._tracing = tracing
        await shop.enrol()
        job_id = await submitted(api, traceparent=CALLER)
        await shop.run(job_id)
        await shop.decide(job_id, {"type": "approve"})
        assert (await shop.run(job_id)).status == "succeeded"
        async with api.store.connection() as conn:
            asked = await (await conn.execute("SELECT id, created_at, decided_at FROM signoff.reviews")).fetchone()
            sent = await (await conn.execute("SELECT operation_id FROM signoff.effects")).fetchone()
    assert asked is not None
    assert sent is not None

    spans = exported.get_finished_spans()
    assert {format(one.context.trace_id, "032x") for one in spans} == {TRACE}
    by_name = named(spans)
    assert {name: len(found) for name, found in by_name.items()} == {
        "accept job": 1,
        "run job": 2,
        "call model": 2,
        "review": 1,
        "attempt effect": 1,
    }
    (accepted,) = by_name["accept job"]
    assert accepted.parent is not None
    assert format(accepted.parent.span_id, "016x") == CALLER.split("-")[2]
    assert facts(accepted) == {"door": "http", "job_id": str(job_id), "agent": AGENT}
    first, second = by_name["run job"]
    assert [one.parent and one.parent.span_id for one in (first, second)] == [accepted.context.span_id] * 2
    assert [facts(one)["fence"] for one in (first, second)] == [1, 2]

    (attempt,) = by_name["attempt effect"]
    assert facts(attempt) == {
        "operation_id": sent["operation_id"],
        "attempt": 1,
        "tool": "pay",
        "outcome": "succeeded",
    }
    (waited,) = by_name["review"]
    assert waited.parent is not None
    assert waited.parent.span_id == second.context.span_id
    assert facts(waited) == {"review_id": str(asked["id"]), "status": "decided"}
    assert waited.start_time == round(asked["created_at"].timestamp() * 1e6) * 1000
    assert waited.end_time == round(asked["decided_at"].timestamp() * 1e6) * 1000


async def test_neither_arguments_nor_results_nor_messages_are_in_a_span(
    database_url: str, tracing: Tracing, exported: InMemorySpanExporter
) -> None:
    async with traced(database_url, tracing) as api:
        shop = Workshop(api.store, [fail], calling(("fail", {"to": SECRET})), RuntimeError(SECRET))
        shop.runner._tracing = tracing
        await shop.enrol()
        job_id = await submitted(api)
        await shop.run(job_id)
    spans = named(exported.get_finished_spans())
    assert facts(spans["attempt effect"][0])["outcome"] == "unknown"
    assert not any(SECRET in one.to_json() for found in spans.values() for one in found)
    # A submission without a caller's trace begins one.
    assert spans["accept job"][0].parent is None


async def test_an_error_is_told_by_its_type(tracing: Tracing, exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="ada"), tracing.running(None, job_id="j"), span("call model"):
        raise ValueError(SECRET)
    inner, _ = exported.get_finished_spans()
    assert (inner.status.is_ok, inner.status.description, inner.events) == (False, "ValueError", ())


@pytest.mark.parametrize("nonsense", ["00-nonsense", "", 7])
async def test_the_same_by_task_and_what_cannot_be_read_begins_a_trace(
    database_url: str, tracing: Tracing, nonsense: Any
) -> None:
    async with traced(database_url, tracing) as api:
        body = {"agent": AGENT, "input": "Go"}
        await intake.submit_job(api.services, "task-1", body, None, CALLER)
        await intake.submit_job(api.services, "task-2", body, None, nonsense)
        first, second = await traceparents(api)
    assert first is not None
    assert second is not None
    assert first.split("-")[1] == TRACE
    assert len(second.split("-")[1]) == 32
    assert second.split("-")[1] != TRACE


async def test_the_same_by_stream(database_url: str, redis_url: str, tracing: Tracing) -> None:
    async with open_world(database_url, redis_url) as world:
        taker = TakeJobs(world.store, NoHints(), redis_url, Settings(), tracing)
        body = json.dumps({"agent": AGENT, "input": "Go"})
        await world.redis.xadd("signoff:jobs", {"job": body, "traceparent": CALLER})
        await until(taker.step)
        await taker.close()
        (row,) = await world.rows("SELECT traceparent FROM signoff.jobs")
    assert row["traceparent"].split("-")[1] == TRACE


async def test_without_tracing_nothing_is_stored_whatever_the_caller_sends(database_url: str) -> None:
    async with traced(database_url, NO_TRACING) as api:
        await submitted(api, traceparent=CALLER)
        assert await traceparents(api) == [None]


def test_it_is_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ADDRESSES:
        monkeypatch.delenv(name, raising=False)
    assert start_tracing(Settings()) is NO_TRACING
    assert span("call model") is span("attempt effect", tool="pay"), "one that does nothing, for all"
    monkeypatch.setenv(ADDRESSES[0], "http://127.0.0.1:1")
    tracing = start_tracing(Settings())
    assert tracing.is_on
    tracing.close()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "signoff.infra.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsInvalid, match=r"signoff\[otel\]"):
        start_tracing(Settings(tracing=True))
    monkeypatch.setenv(ADDRESSES[0], "http://127.0.0.1:1")
    assert start_tracing(Settings()) is NO_TRACING
