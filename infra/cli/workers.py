"""`signoff workers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal
from signoff.domain.draining import Which, drain_workers
from signoff.domain.errors import InvalidRequest
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.listing import Read, listing
from signoff.infra.cli.output import JsonFlag, moment, more, note, print_json, print_line, print_table
from signoff.infra.cli.reasons import Reason, RequestId
from signoff.infra.postgres.views_workers import drain_report, list_workers
from signoff.infra.postgres.workers import SEEN_SECONDS
from signoff.infra.services import Services

app = command_group("List workers, and ask them to drain.")


def _print_workers(page: Mapping[str, Any]) -> None:
    columns = ("worker", "agents", "version", "started", "seen", "jobs", "clock", "state")
    rows = [
        (
            row["name"],
            ", ".join(row["agents"]),
            row["version"],
            moment(row["started_at"]),
            moment(row["seen_at"]),
            row["jobs"],
            f"{row['clock_offset_seconds']:+.1f}s",
            _state(row),
        )
        for row in page["workers"]
    ]
    print_table(columns, rows)
    more(page)


def _state(row: Mapping[str, Any]) -> str:
    if row["stopped_at"]:
        return "stopped"
    if row["silent_seconds"] > SEEN_SECONDS:
        return "gone without a word"
    if row["drained_at"]:
        return "drained"
    return "drains" if row["drain_requested_at"] else "works"


def _print_report(report: Mapping[str, Any]) -> None:
    for worker in report["workers"]:
        print_line(f"{worker['name']}: {_state(worker)}")
        for job in worker["running"]:
            print_line(f"  job {job['job_id']} of {job['agent']}, since {moment(job['claimed_at'])}")
        for effect in worker["sending"]:
            sent = moment(effect["last_dispatched_at"])
            print_line(f"  effect {effect['operation_id']} ({effect['tool']}), sent {sent}")


@app.command("list")
@listing("workers", _print_workers)
def list_(all_: Annotated[bool, typer.Option("--all", help="Also those that have stopped")] = False) -> Read:
    """List the worker processes, the newest first, with what each is at."""
    return lambda conn, who, page: list_workers(conn, all_, who, page)


@app.command()
def drain(
    reason: Reason,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The worker, as `list` shows it")] = None,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="All workers that serve this agent")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All workers")] = False,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Have workers claim nothing more and give back what they run; shows what each still has. They stay up, idle."""
    try:
        which = Which.wanted(name, agent, all_)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        done = await drain_workers(services.store, who, which, reason, request_id)
        async with services.store.connection() as conn:
            return await drain_report(conn, done.outcome["workers"], who)

    report = act(work, token_file)
    print_json(report) if json else _print_report(report)
    if not report["workers"]:
        note("no worker is there that could drain")
