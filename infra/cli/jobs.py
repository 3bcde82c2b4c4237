"""`signoff jobs`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.jobs import ENDED, PARKED, JobStatus, parse_submit
from signoff.domain.submitting import submit_job
from signoff.infra.cli.acting import DOOR, TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.job_acts import COMMANDS, JobId
from signoff.infra.cli.job_forks import COMMANDS as FORKS
from signoff.infra.cli.job_screen import print_job, print_jobs
from signoff.infra.cli.job_story import story
from signoff.infra.cli.listing import Label, NewerThan, OlderThan, Read, age, labels, listing
from signoff.infra.cli.output import JsonFlag, note, print_json
from signoff.infra.postgres.views_jobs import JobFilter, job_status, list_jobs, show_job
from signoff.infra.services import Services

app = command_group("Submit, list, show, cancel, retry, fork and repair jobs.")

POLL_SECONDS = 0.1


@app.command()
def submit(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that is to do it")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is asked of it; - reads standard input")],
    thread: Annotated[str | None, typer.Option(help="Go on with this thread, or begin one of this name")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label, which policies can look at; repeatable")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same request again gets the first job")] = None,
    cancel_pending: Annotated[
        bool, typer.Option("--cancel-pending", help="Cancel the thread's job if it waits for a review")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait until the job has ended or waits for a person")
    ] = 0.0,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Accept a job. Once its id is printed, the job is never lost.

    Exits 1 if the job failed or was cancelled while --wait looked on.
    """
    body = {"agent": agent, "input": _text(text), "thread_id": thread, "labels": _labels(label or [])}
    command = parse_submit({**body, "idempotency_key": key, "cancel_pending": cancel_pending})

    async def work(services: Services, who: Principal) -> tuple[dict[str, Any], bool]:
        with services.tracing.accepting(None, DOOR):
            accepted = await submit_job(services.store, services.hints, command, who, DOOR)
        await _settle(services, accepted.job.id, wait)
        async with services.store.connection() as conn:
            return await show_job(conn, accepted.job.id, who), accepted.created

    job, created = act(work, token_file)
    if not created:
        note("an earlier request with this key was the first: this is its job")
    _print(job, json)
    if wait and job["status"] in (JobStatus.failed, JobStatus.cancelled):
        raise typer.Exit(1)


@app.command("list")
@listing("jobs", print_jobs)
def list_(
    status: Annotated[list[JobStatus] | None, typer.Option(help="Only jobs in this state; repeatable")] = None,
    agent: Annotated[str | None, typer.Option(help="Only jobs of this agent")] = None,
    thread: Annotated[str | None, typer.Option(help="Only jobs of this thread")] = None,
    submitted_by: Annotated[str | None, typer.Option(help="Only jobs that this person or service submitted")] = None,
    tool: Annotated[str | None, typer.Option(help="Only jobs that proposed, or made, a call of this tool")] = None,
    reviewer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only jobs that this group, or @person, was asked about")
    ] = None,
    error: Annotated[str | None, typer.Option(metavar="CODE", help="Only jobs with this error")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    label: Label = None,
) -> Read:
    """List the jobs that you may read, newest first."""
    wanted = JobFilter(
        status or (), agent, thread, submitted_by, tool, reviewer, error, age(older_than, newer_than), labels(label)
    )
    return lambda conn, who, page: list_jobs(conn, wanted, who, page)


@app.command()
def show(job: JobId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show a job with its request, its result, and what it waits for."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_job(conn, job, who)

    _print(act(work, token_file), json)


for command in (*COMMANDS, *FORKS):
    app.command()(command)
app.command()(story)


def _print(job: Mapping[str, Any], json: bool) -> None:
    print_json(job) if json else print_job(job)


def _text(text: str) -> str:
    return sys.stdin.read().removesuffix("\n") if text == "-" else text


def _labels(given: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label in given:
        name, equals, value = label.partition("=")
        if not equals or not name or name in labels:
            raise typer.BadParameter(f"{label!r} must be NAME=VALUE, each name once", param_hint="--label")
        labels[name] = value
    return labels


async def _settle(services: Services, job_id: UUID, seconds: float) -> None:
    """Returns when the job has ended or waits for a person, or the time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        async with services.store.connection() as conn:
            if await job_status(conn, job_id) in ENDED | PARKED:
                return
        await asyncio.sleep(POLL_SECONDS)
