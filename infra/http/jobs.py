"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from signoff.domain.authority import Principal
from signoff.domain.errors import InvalidRequest
from signoff.domain.jobs import JobStatus, SubmitJob, parse_submit
from signoff.domain.submitting import submit_job
from signoff.infra.http.asking import DOOR, Ages, App, Caller, JsonBody, Labels, Paging, one_header
from signoff.infra.http.headers import LONGEST_WAIT_SECONDS, read_idempotency_key, read_wait
from signoff.infra.http.openapi import LIST, READ, SUBMIT, WRITE, body, headers
from signoff.infra.http.waiting import wait_for_job
from signoff.infra.postgres.views_jobs import JobFilter, list_jobs, show_job
from signoff.infra.postgres.views_story import show_story
from signoff.infra.services import Services

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

_SUBMIT_HEADERS = headers(
    Idempotency_Key="The same key with the same body gets the first job",
    traceparent="W3C trace context: the job's trace, where traces are on",
    Prefer=f"`wait=N`: answer when the job has ended or waits for a person, after {LONGEST_WAIT_SECONDS} s at most",
)


@router.post(
    "",
    status_code=201,
    responses={200: {"description": "The job of an earlier request with this key"}, **WRITE},
    openapi_extra={**body(SUBMIT), "parameters": _SUBMIT_HEADERS},
)
async def submit(app: App, who: Caller, raw: JsonBody, request: Request) -> JSONResponse:
    """Accept a job."""
    wait = read_wait(request.headers.getlist("prefer"))
    command = _command(raw, read_idempotency_key(one_header(request, "idempotency-key")))
    with app.tracing.accepting(request.headers.get("traceparent"), DOOR):
        accepted = await submit_job(app.store, app.hints, command, who, DOOR)
    applied = {}
    if wait is not None:
        stopping: asyncio.Event = request.app.state.stopping
        await wait_for_job(app.store, accepted.job.id, wait, request, stopping)
        applied = {"Preference-Applied": f"wait={wait}"}
    location = {"Location": f"/v1/jobs/{accepted.job.id}"}
    return await _answer(app, accepted.job.id, who, 201 if accepted.created else 200, {**location, **applied})


@router.get("", responses=LIST)
async def list_(
    app: App,
    who: Caller,
    page: Paging,
    age: Ages,
    labels: Labels,
    status: Annotated[list[JobStatus] | None, Query()] = None,
    agent: str | None = None,
    thread_id: str | None = None,
    submitted_by: str | None = None,
    tool: str | None = None,
    reviewer: str | None = None,
    error: str | None = None,
) -> JSONResponse:
    """List the jobs that the caller may read, newest first."""
    wanted = JobFilter(status or (), agent, thread_id, submitted_by, tool, reviewer, error, age, labels)
    async with app.store.connection() as conn:
        return JSONResponse(await list_jobs(conn, wanted, who, page))


@router.get("/{job_id}", responses=READ)
async def show(app: App, who: Caller, job_id: UUID) -> JSONResponse:
    """Show a job with its result and its pending reviews."""
    return await _answer(app, job_id, who)


@router.get("/{job_id}/story", responses=READ)
async def story(app: App, who: Caller, job_id: UUID) -> JSONResponse:
    """Tell all that happened with a job, in order."""
    async with app.store.connection() as conn:
        return JSONResponse(await show_story(conn, job_id, who))


def _command(raw: object, key: str | None) -> SubmitJob:
    command = parse_submit(raw, idempotency_key=key)
    if key is not None and command.idempotency_key != key:
        raise InvalidRequest("Idempotency-Key and 'idempotency_key' differ", field="idempotency_key")
    return command


async def _answer(
    app: Services, job_id: UUID, who: Principal, status: int = 200, headers: dict[str, str] | None = None
) -> JSONResponse:
    async with app.store.connection() as conn:
        return JSONResponse(await show_job(conn, job_id, who), status, headers)
