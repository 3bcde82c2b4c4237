"""`signoff jobs cancel` and `retry`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.cancelling import cancel_job
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS
from signoff.domain.retrying import retry_job
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.job_screen import print_job
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.cli.reasons import Reason, RequestId, text_of
from signoff.infra.postgres.views_jobs import show_job
from signoff.infra.services import Services

JobId = Annotated[UUID, typer.Argument(metavar="JOB", help="The job's id")]


def cancel(
    job: JobId,
    reason: Annotated[
        str | None,
        typer.Option(
            help="Why; it stays in the record. Only a job that you submitted needs none",
            callback=text_of(MAX_REASON_CHARACTERS),
        ),
    ] = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Cancel a job; of a running one the cancellation is requested, and nothing new is sent out for it."""

    async def work(services: Services, who: Principal) -> None:
        await cancel_job(services.store, services.hints, job, who, reason, request_id)

    _act(job, work, token_file, json)


def retry(
    job: JobId, reason: Reason, request_id: RequestId = None, token_file: TokenFile = None, json: JsonFlag = False
) -> None:
    """Queue a failed job, or one that waits for an operator, again from its newest checkpoint."""

    async def work(services: Services, who: Principal) -> None:
        await retry_job(services.store, services.hints, job, who, reason, request_id)

    _act(job, work, token_file, json)


COMMANDS = (cancel, retry)


def _act(
    job: UUID, work: Callable[[Services, Principal], Awaitable[None]], token_file: Path | None, json: bool
) -> None:
    async def then_show(services: Services, who: Principal) -> dict[str, Any]:
        await work(services, who)
        async with services.store.connection() as conn:
            return await show_job(conn, job, who)

    view = act(then_show, token_file)
    print_json(view) if json else print_job(view)
