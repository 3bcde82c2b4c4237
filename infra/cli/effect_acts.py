"""`signoff effects replay`, `resolve` and `skip`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal
from signoff.domain.canonical import scrub
from signoff.domain.effects import Effect
from signoff.domain.jobs import MAX_INPUT_CHARACTERS, MAX_NAME_CHARACTERS
from signoff.domain.operating import Finding, Settlement, replay_effect, resolve_effect, skip_effect
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.effect_screen import print_effect
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.effect_results import pack_text
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.services import Services

MAX_REASON_CHARACTERS = 2000


def _text_of(most: int) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        if value is not None and (not value.strip() or len(value) > most or scrub(value) != value):
            raise typer.BadParameter(f"must be text of 1 to {most} characters")
        return value

    return check


OperationId = Annotated[str, typer.Argument(metavar="OPERATION", help="The effect's operation id")]
Reason = Annotated[
    str, typer.Option(help="Why; it stays in the effect's history", callback=_text_of(MAX_REASON_CHARACTERS))
]


def replay(operation: OperationId, reason: Reason, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Plan a failed or dead effect again."""

    async def settle(services: Services, who: Principal) -> Effect:
        return await replay_effect(services.store, services.hints, operation, Settlement(who, reason))

    _settle(operation, settle, token_file, json)


def resolve(
    operation: OperationId,
    reason: Reason,
    applied: Annotated[bool, typer.Option("--applied", help="It happened")] = False,
    not_applied: Annotated[bool, typer.Option("--not-applied", help="It did not: it may be sent again")] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="With --applied: how the provider calls it", callback=_text_of(MAX_NAME_CHARACTERS)),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="With --applied: what the agent is told", callback=_text_of(MAX_INPUT_CHARACTERS)
        ),
    ] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Say what is known of an effect in doubt: --applied with --reference, or --not-applied."""
    if applied == not_applied:
        raise typer.BadParameter("give one of --applied and --not-applied")
    if applied and reference is None:
        raise typer.BadParameter("--applied needs --reference")
    if not_applied and (reference, result) != (None, None):
        raise typer.BadParameter("--reference and --result go with --applied")
    finding = Finding.applied if applied else Finding.not_applied
    told = pack_text(result or f"Done; the provider's reference is {reference}.") if applied else None

    async def settle(services: Services, who: Principal) -> Effect:
        settlement = Settlement(who, reason, reference)
        return await resolve_effect(services.store, services.hints, operation, finding, settlement, told)

    _settle(operation, settle, token_file, json)


def skip(
    operation: OperationId,
    reason: Reason,
    result: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="What the agent is told, labelled as a substitute",
            callback=_text_of(MAX_INPUT_CHARACTERS),
        ),
    ],
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """End an effect that is in doubt, failed or dead with a substitute result."""

    async def settle(services: Services, who: Principal) -> Effect:
        return await skip_effect(services.store, services.hints, operation, Settlement(who, reason), pack_text(result))

    _settle(operation, settle, token_file, json)


COMMANDS = (replay, resolve, skip)


def _settle(
    operation: str,
    settle: Callable[[Services, Principal], Awaitable[Effect]],
    token_file: Path | None,
    json: bool,
) -> None:
    async def work(services: Services, who: Principal) -> dict[str, Any]:
        await settle(services, who)
        async with services.store.connection() as conn:
            return await show_effect(conn, operation, who)

    view = act(work, token_file)
    print_json(view) if json else print_effect(view)
