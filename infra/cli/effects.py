"""`signoff effects`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.effects import EffectStatus
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.effect_acts import COMMANDS, OperationId
from signoff.infra.cli.effect_result import result
from signoff.infra.cli.effect_screen import print_effect, print_effects
from signoff.infra.cli.listing import Label, NewerThan, OlderThan, Read, age, labels, listing
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.postgres.views_effects import EffectFilter, list_effects, show_effect
from signoff.infra.services import Services

app = command_group("List, show, replay and settle effects.")


@app.command("list")
@listing("effects", print_effects)
def list_(
    status: Annotated[list[EffectStatus] | None, typer.Option(help="Only effects in this state; repeatable")] = None,
    tool: Annotated[str | None, typer.Option(help="Only effects of this tool")] = None,
    agent: Annotated[str | None, typer.Option(help="Only effects of this agent")] = None,
    job: Annotated[UUID | None, typer.Option(help="Only effects of this job")] = None,
    reviewer: Annotated[str | None, typer.Option(metavar="NAME", help="Only effects that this person allowed")] = None,
    error: Annotated[str | None, typer.Option(metavar="CODE", help="Only effects with this error")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    label: Label = None,
) -> Read:
    """List the effects of jobs that you may read, newest first."""
    wanted = EffectFilter(status or (), tool, job, agent, reviewer, error, age(older_than, newer_than), labels(label))
    return lambda conn, who, page: list_effects(conn, wanted, who, page)


@app.command()
def show(operation: OperationId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show an effect with its attempts, its history and what came back late."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_effect(conn, operation, who)

    view = act(work, token_file)
    print_json(view) if json else print_effect(view)


for command in (result, *COMMANDS):
    app.command()(command)
