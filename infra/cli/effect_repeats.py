"""`signoff effects compensate` and `execute-again`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.jobs import MAX_NAME_CHARACTERS
from signoff.domain.operator_acts import Done
from signoff.domain.repeating import compensate_effect, execute_again
from signoff.domain.settlements import Settlement
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.cli.policy_reading import json_argument
from signoff.infra.cli.reasons import Reason, RequestId, text_of
from signoff.infra.cli.review_screen import print_review
from signoff.infra.postgres.views_reviews import show_review
from signoff.infra.services import Services

OperationId = Annotated[
    str,
    typer.Argument(metavar="OPERATION", help="The effect's operation id", callback=text_of(MAX_NAME_CHARACTERS)),
]


def compensate(
    operation: OperationId,
    reason: Reason,
    args: Annotated[
        str | None, typer.Option(metavar="JSON", help="The arguments, in place of those that the tool declares")
    ] = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Ask for what undoes an effect that has succeeded: a call of its own, with a review of its own."""
    given = None if args is None else json_argument(args.encode(errors="surrogateescape"), "--args")
    if given is not None and not isinstance(given, dict):
        raise typer.BadParameter("must be an object", param_hint="--args")

    async def ask(services: Services, who: Principal) -> Done:
        said, environment = Settlement(who, reason, request_id=request_id), services.settings.environment
        return await compensate_effect(services.store, operation, said, given, environment=environment)

    _ask(ask, token_file, json)


def execute_again_(
    operation: OperationId,
    reason: Reason,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Ask for the same call once more, as an effect of its own, with a review of its own."""

    async def ask(services: Services, who: Principal) -> Done:
        said, environment = Settlement(who, reason, request_id=request_id), services.settings.environment
        return await execute_again(services.store, operation, said, environment=environment)

    _ask(ask, token_file, json)


execute_again_.__name__ = "execute_again"
COMMANDS = (compensate, execute_again_)


def _ask(ask: Callable[[Services, Principal], Awaitable[Done]], token_file: Path | None, json: bool) -> None:
    """Asks, and shows the review."""

    async def work(services: Services, who: Principal) -> tuple[Done, dict[str, Any]]:
        done = await ask(services, who)
        async with services.store.connection() as conn:
            return done, await show_review(conn, UUID(done.outcome["review_id"]), who)

    done, view = act(work, token_file)
    print_json({**done.outcome, "review": view}) if json else print_review(view)
