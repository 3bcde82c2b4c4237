"""`signoff jobs checkpoints`, `fork` and `repair`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.fork_points import KeptDecisions
from signoff.domain.forking import fork_job
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.operator_acts import Done
from signoff.domain.repairing import repair_job
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.job_acts import JobId
from signoff.infra.cli.job_screen import print_job
from signoff.infra.cli.output import JsonFlag, moment, note, print_json, print_table
from signoff.infra.cli.reasons import Reason, RequestId, text_of
from signoff.infra.postgres.views_checkpoints import list_checkpoints
from signoff.infra.postgres.views_jobs import show_job
from signoff.infra.services import Services


def checkpoints(job: JobId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """List the checkpoints that a job can be forked at, newest first, with what it was parked at there."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_checkpoints(conn, job, who)

    found = act(work, token_file)
    if json:
        print_json(found)
        return
    rows = [(one["checkpoint_id"], moment(one["at"]), _parked_at(one)) for one in found["checkpoints"]]
    print_table(("checkpoint", "made", "parked at"), rows)


def fork(
    job: JobId,
    reason: Reason,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Where it begins; without it where the job was last parked",
            callback=text_of(MAX_NAME_CHARACTERS),
        ),
    ] = None,
    decisions: Annotated[
        KeptDecisions, typer.Option(help="keep: what was decided then is not asked again")
    ] = KeptDecisions.ask,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Begin a new job at a checkpoint of a job, on a thread of its own. What was done is served, and not done again."""

    async def work(services: Services, who: Principal) -> tuple[Done, dict[str, Any]]:
        done = await fork_job(
            services.store,
            services.hints,
            job,
            who,
            reason,
            checkpoint_id=checkpoint,
            decisions=decisions,
            request_id=request_id,
        )
        async with services.store.connection() as conn:
            return done, await show_job(conn, UUID(done.outcome["job_id"]), who)

    done, view = act(work, token_file)
    note(f"{'as before: ' if done.repeated else ''}job {view['job_id']} goes on from {done.outcome['checkpoint_id']}")
    print_json(view) if json else print_job(view)


def repair(
    job: JobId, reason: Reason, request_id: RequestId = None, token_file: TokenFile = None, json: JsonFlag = False
) -> None:
    """Ask again what was asked at a job's newest checkpoint, where every run of it fails on what is stored there."""

    async def work(services: Services, who: Principal) -> tuple[Done, dict[str, Any]]:
        done = await repair_job(services.store, services.hints, job, who, reason, request_id)
        async with services.store.connection() as conn:
            return done, await show_job(conn, job, who)

    done, view = act(work, token_file)
    for review in done.outcome["superseded"]:
        note(f"review {review} is superseded: its calls are asked about again")
    print_json(view) if json else print_job(view)


COMMANDS = (checkpoints, fork, repair)


def _parked_at(checkpoint: Mapping[str, Any]) -> str:
    pauses = [
        f"{pause['kind']} of {', '.join(pause['tools'])}".removesuffix(" of ") for pause in checkpoint["parked_at"]
    ]
    return "; ".join(pauses) or ("the newest" if checkpoint["newest"] else "nothing")
