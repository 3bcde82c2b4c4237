"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest

from signoff.domain.running import finish
from tests.support import parked as world
from tests.support.api import Api, open_api, until
from tests.support.parked import AGENT, PRODUCER, parked, submitted

pytestmark = pytest.mark.anyio

JOB = {"agent": AGENT, "input": "Refund order A-1"}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


def code(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    return response.status_code, body["code"]


async def test_a_job_is_created_and_shown(api: Api) -> None:
    created = await api.post("shop", "/v1/jobs", {**JOB, "labels": {"team": "eu"}})
    assert created.status_code == 201
    body = created.json()
    assert created.headers["location"] == f"/v1/jobs/{body['job_id']}"
    assert (body["status"], body["door"], body["submitted_by"]) == ("queued", "http", "shop")
    assert (await api.get("shop", created.headers["location"])).json() == body


async def test_the_same_key_gets_the_first_job(api: Api) -> None:
    first = await api.post("shop", "/v1/jobs", JOB, Idempotency_Key='"k-1"')
    quoted = await api.post("shop", "/v1/jobs", JOB, Idempotency_Key="k-1")
    in_body = await api.post("shop", "/v1/jobs", {**JOB, "idempotency_key": "k-1"}, Idempotency_Key="k-1")
    assert [answer.status_code for answer in (first, quoted, in_body)] == [201, 200, 200]
    assert first.json() == quoted.json() == in_body.json()
    changed = await api.post("shop", "/v1/jobs", {**JOB, "input": "other"}, Idempotency_Key="k-1")
    assert code(changed) == (422, "idempotency_mismatch")
    assert changed.json()["job_id"] == first.json()["job_id"]
    assert (await api.post("other-shop", "/v1/jobs", JOB, Idempotency_Key="k-1")).status_code == 201


async def test_two_keys_in_one_request_are_refused(api: Api) -> None:
    differing = await api.post("shop", "/v1/jobs", {**JOB, "idempotency_key": "a"}, Idempotency_Key="b")
    assert code(differing) == (422, "invalid_request")
    async with api.client("shop") as client:
        twice = await client.post("/v1/jobs", json=JOB, headers=[("idempotency-key", "a"), ("idempotency-key", "b")])
    assert code(twice) == (422, "invalid_request")


async def test_refusals_of_a_job(api: Api) -> None:
    pending = await parked(api.store)
    refused = await api.post("shop", "/v1/jobs", {**JOB, "thread_id": pending.thread_id})
    assert code(refused) == (409, "review_pending")
    assert refused.json()["job_id"] == str(pending.job_id)
    assert code(await api.post("rita", "/v1/jobs", JOB)) == (403, "right_missing")
    assert code(await api.post("shop", "/v1/jobs", {**JOB, "agent": "nobody"})) == (404, "agent_not_found")
    thread = {**JOB, "thread_id": pending.thread_id}
    assert code(await api.post("other-shop", "/v1/jobs", thread)) == (404, "thread_not_found")


async def test_waiting_ends_with_the_time(api: Api) -> None:
    answer = await api.post("shop", "/v1/jobs", JOB, Prefer="wait=0")
    assert (answer.status_code, answer.headers["preference-applied"]) == (201, "wait=0")
    assert answer.json()["status"] == "queued"
    assert "preference-applied" not in (await api.post("shop", "/v1/jobs", JOB)).headers


async def test_waiting_ends_with_the_review_and_with_the_result(api: Api) -> None:
    waiting = asyncio.create_task(api.post("shop", "/v1/jobs", JOB, Idempotency_Key="k", Prefer="wait=30"))
    job_id = await until(lambda: _first_job(api))
    job = await world.claimed(api.store, job_id)
    async with api.store.begin() as tx:
        await finish(tx, job, {"answer": "Done."})
    answer = (await asyncio.wait_for(waiting, 10)).json()
    assert (answer["status"], answer["result"]) == ("succeeded", {"answer": "Done."})
    pending = await parked(api.store, idempotency_key="p")
    again = await api.post("shop", "/v1/jobs", {**JOB, "idempotency_key": "p"}, Prefer="wait=30")
    assert again.json()["pending_reviews"] == [str(pending.review_id)]


async def _first_job(api: Api) -> UUID | None:
    jobs = (await api.get("olga", "/v1/jobs")).json()["jobs"]
    return UUID(jobs[0]["job_id"]) if jobs else None


async def test_waiting_holds_no_connection(database_url: str) -> None:
    async with open_api(database_url, pool_size=1) as api:
        waits = [asyncio.create_task(api.post("shop", "/v1/jobs", JOB, Prefer="wait=30")) for _ in range(10)]
        await until(lambda: _count(api, 10))
        for _ in range(5):
            assert (await api.get("shop", "/v1/jobs")).status_code == 200
        api.app.state.stopping.set()
        answers = await asyncio.wait_for(asyncio.gather(*waits), 10)
    assert {answer.json()["status"] for answer in answers} == {"queued"}


async def _count(api: Api, wanted: int) -> bool:
    return len((await api.get("olga", "/v1/jobs")).json()["jobs"]) == wanted


async def test_cancel_and_retry(api: Api) -> None:
    job = await submitted(api.store)
    assert code(await api.post("other-shop", f"/v1/jobs/{job.id}/cancel")) == (404, "job_not_found")
    cancelled = await api.post("shop", f"/v1/jobs/{job.id}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert code(await api.post("olga", f"/v1/jobs/{job.id}/retry", {"reason": "mended"})) == (409, "job_not_failed")
    failed = await submitted(api.store)
    await world.ended(api.store, failed.id, well=False)
    assert code(await api.post("shop", f"/v1/jobs/{failed.id}/cancel")) == (409, "job_ended")
    assert code(await api.post("shop", f"/v1/jobs/{failed.id}/retry", {"reason": "mended"})) == (403, "right_missing")
    retried = await api.post("olga", f"/v1/jobs/{failed.id}/retry", {"reason": "mended"})
    assert (retried.status_code, retried.json()["status"], retried.json()["error"]) == (200, "queued", None)
    assert code(await api.post("olga", f"/v1/jobs/{uuid4()}/retry", {"reason": "mended"})) == (404, "job_not_found")


async def test_two_retries_on_one_thread_at_once_start_one_job(api: Api) -> None:
    for _ in range(5):
        first = await submitted(api.store)
        second = await submitted(api.store, thread_id=first.thread_id)
        await world.ended(api.store, first.id, well=False)
        await world.ended(api.store, second.id, well=False)
        paths = [f"/v1/jobs/{job.id}/retry" for job in (first, second)]
        answers = await asyncio.gather(*(api.post("olga", path, {"reason": "mended"}) for path in paths))
        outcomes = sorted((answer.status_code, answer.json().get("status")) for answer in answers)
        assert outcomes[0] == (200, "queued")
        assert outcomes[1] in [(200, "waiting"), (409, 409)]


async def test_lists_are_filtered_and_paged(api: Api) -> None:
    jobs = [str((await submitted(api.store, labels={"n": str(n)})).id) for n in range(5)]
    pending = await parked(api.store)
    found: list[str] = []
    cursor = None
    for _ in range(4):
        page = (await api.get("shop", "/v1/jobs", limit=2, **({"cursor": cursor} if cursor else {}))).json()
        found += [job["job_id"] for job in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == [str(pending.job_id), *reversed(jobs)]
    waiting = (await api.get("shop", "/v1/jobs", status="awaiting_review")).json()["jobs"]
    assert [job["pending_reviews"] for job in waiting] == [[str(pending.review_id)]]
    by_thread = (await api.get("shop", "/v1/jobs", thread_id=pending.thread_id, agent=AGENT)).json()["jobs"]
    assert [job["job_id"] for job in by_thread] == [str(pending.job_id)]
    assert (await api.get("olga", "/v1/jobs", submitted_by="other-shop")).json() == {"jobs": [], "next": None}
    assert len((await api.get("olga", "/v1/jobs", submitted_by=PRODUCER.name)).json()["jobs"]) == 6


async def test_a_job_may_be_read_by_its_submitter_its_reviewers_and_operators_alone(api: Api) -> None:
    pending = await parked(api.store)
    path = f"/v1/jobs/{pending.job_id}"
    may = {"shop": 200, "rita": 200, "olga": 200, "other-shop": 404, "sam": 404, None: 401}
    assert {name: (await api.get(name, path)).status_code for name in may} == may
    counts = {name: len((await api.get(name, "/v1/jobs")).json()["jobs"]) for name in may if name}
    assert counts == {"shop": 1, "rita": 1, "olga": 1, "other-shop": 0, "sam": 0}
    assert code(await api.get("sam", path)) == (404, "job_not_found")
