"""`signoff pauses`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.errors import InvalidRequest
from signoff.domain.operator_acts import Done
from signoff.domain.pausing import Scope, end_pause, pause_effects
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.listing import Read, listing
from signoff.infra.cli.output import JsonFlag, moment, more, note, print_json, print_line, print_table
from signoff.infra.cli.reasons import Reason, RequestId
from signoff.infra.postgres.views_holding import list_pauses
from signoff.infra.services import Services

app = command_group("Hold back what is to be dispatched, of an agent, of a tool or at all; list that, and end it.")


@app.command()
def create(
    reason: Reason,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only effects of this agent")] = None,
    tool: Annotated[str | None, typer.Option(metavar="TOOL", help="Only effects of this tool")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All effects of all agents")] = False,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Let nothing of this be dispatched until the pause is ended. Reviews are asked for and decided all the same."""
    try:
        scope = Scope.wanted(agent, tool, everything)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None

    async def work(services: Services, who: Principal) -> Done:
        return await pause_effects(services.store, who, scope, reason, request_id)

    outcome = act(work, token_file).outcome
    print_json(dict(outcome)) if json else print_line(outcome["pause_id"])
    if outcome["under_way"]:
        note(f"{outcome['under_way']} calls are being sent at this moment: those are not stopped")


def _print_pauses(page: Mapping[str, Any]) -> None:
    columns = ("pause", "agent", "tool", "since", "by", "effects", "jobs", "ended", "by", "reason")
    rows = [
        (
            row["pause_id"],
            row["agent"],
            row["tool"] or ("" if row["agent"] else "(everything)"),
            moment(row["created_at"]),
            row["created_by"],
            row["effects"],
            row["jobs"],
            moment(row["ended_at"]),
            row["ended_by"],
            row["reason"],
        )
        for row in page["pauses"]
    ]
    print_table(columns, rows)
    more(page)


@app.command("list")
@listing("pauses", _print_pauses)
def list_(all_: Annotated[bool, typer.Option("--all", help="Also those that have ended")] = False) -> Read:
    """List the active pauses, newest first, with how many effects and jobs wait on each."""
    return lambda conn, who, page: list_pauses(conn, all_, who, page)


@app.command()
def end(
    pause: Annotated[UUID, typer.Argument(metavar="PAUSE", help="The pause's id")],
    reason: Reason,
    per_second: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.001, max=10_000, help="So many effects a second, instead of all at once"),
    ] = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Let what the pause held back go on, unless another pause holds it back too."""

    async def work(services: Services, who: Principal) -> Done:
        return await end_pause(services.store, who, pause, reason, request_id, per_second=per_second)

    outcome = act(work, token_file).outcome
    print_json(dict(outcome)) if json else print_line(f"ended: {outcome['effects']} effects go on")
