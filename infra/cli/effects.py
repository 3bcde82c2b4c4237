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
from signoff.infra.cli.effect_screen import print_effect, print_effects
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.cli.paging import DEFAULT_ROWS, Cursor, Limit
from signoff.infra.postgres.views import Page
from signoff.infra.postgres.views_effects import EffectFilter, list_effects, show_effect
from signoff.infra.services import Services

app = command_group("List, show, replay, resolve and skip effects.")


@app.command("list")
def list_(
    status: Annotated[EffectStatus | None, typer.Option(help="Only effects in this state")] = None,
    tool: Annotated[str | None, typer.Option(help="Only effects of this tool")] = None,
    job: Annotated[UUID | None, typer.Option(help="Only effects of this job")] = None,
    limit: Limit = DEFAULT_ROWS,
    cursor: Cursor = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """List the effects of jobs that you may read, newest first."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_effects(conn, EffectFilter(status, tool, job), who, Page(limit, cursor))

    page = act(work, token_file)
    print_json(page) if json else print_effects(page)


@app.command()
def show(operation: OperationId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show an effect with its attempts, its history and what came back late."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_effect(conn, operation, who)

    view = act(work, token_file)
    print_json(view) if json else print_effect(view)


for command in COMMANDS:
    app.command()(command)
