"""`signoff effects replay`, `resolve`, `skip`, `probe`, `confirm` and `withdraw`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.errors import SettlementNotFound
from signoff.domain.jobs import MAX_INPUT_CHARACTERS, MAX_NAME_CHARACTERS
from signoff.domain.operating import Finding, replay_effect, resolve_effect, skip_effect
from signoff.domain.operator_acts import Done
from signoff.domain.probing import probe_effect
from signoff.domain.settlements import Settlement
from signoff.domain.settling import confirm_settlement, withdraw_settlement
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.effect_repeats import COMMANDS as REPEATING
from signoff.infra.cli.effect_repeats import OperationId
from signoff.infra.cli.effect_screen import print_effect
from signoff.infra.cli.output import JsonFlag, as_json_text, note, print_json
from signoff.infra.cli.reasons import Reason, RequestId, text_of
from signoff.infra.effect_results import pack_text
from signoff.infra.postgres.views_effects import show_effect
from signoff.infra.services import Services

__all__ = ["COMMANDS", "OperationId"]

SettlementId = Annotated[
    UUID | None, typer.Option("--settlement", metavar="ID", help="The finding; without it you are shown it and asked")
]
POLL_SECONDS = 0.2


def replay(
    operation: OperationId,
    reason: Reason,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Plan a failed or dead effect again."""

    async def settle(services: Services, who: Principal) -> Done:
        settlement = Settlement(who, reason, request_id=request_id)
        return await replay_effect(services.store, services.hints, operation, settlement)

    _settle(operation, settle, token_file, json)


def resolve(
    operation: OperationId,
    reason: Reason,
    applied: Annotated[bool, typer.Option("--applied", help="It happened")] = False,
    not_applied: Annotated[bool, typer.Option("--not-applied", help="It did not: it may be sent again")] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="With --applied: how the provider calls it", callback=text_of(MAX_NAME_CHARACTERS)),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="With --applied: what the agent is told", callback=text_of(MAX_INPUT_CHARACTERS)
        ),
    ] = None,
    request_id: RequestId = None,
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

    async def settle(services: Services, who: Principal) -> Done:
        settlement, environment = Settlement(who, reason, reference, request_id), services.settings.environment
        place = (services.store, services.hints, operation)
        return await resolve_effect(*place, finding, settlement, told, environment=environment)

    _settle(operation, settle, token_file, json)


def skip(
    operation: OperationId,
    reason: Reason,
    result: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="What the agent is told, labelled as a substitute",
            callback=text_of(MAX_INPUT_CHARACTERS),
        ),
    ],
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """End an effect that is in doubt, failed or dead with a substitute result."""

    async def settle(services: Services, who: Principal) -> Done:
        settlement, environment = Settlement(who, reason, request_id=request_id), services.settings.environment
        place = (services.store, services.hints, operation)
        return await skip_effect(*place, settlement, pack_text(result), environment=environment)

    _settle(operation, settle, token_file, json)


def probe(
    operation: OperationId,
    reason: Reason,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, max=600, help="How long to wait for it")] = 10,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Have the provider of an effect in doubt asked about it now, and show what it says."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        asked = len((await _show(services, who, operation))["probes"])
        settlement = Settlement(who, reason, request_id=request_id)
        await probe_effect(services.store, services.hints, operation, settlement)
        return await _found(services, who, operation, asked, wait)

    view = act(work, token_file)
    if view["status"] == "in_doubt" and view["probe_at"] is not None:
        note("no answer yet: it is recorded when a worker has asked; look with `signoff effects show`")
    print_json(view) if json else print_effect(view)


def confirm(
    operation: OperationId,
    reason: Reason,
    settlement: SettlementId = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Carry out what somebody else has found out about an effect of high risk."""

    async def settle(services: Services, who: Principal) -> Done:
        found = settlement or await _asked(services, who, operation, "Confirm it?")
        said = Settlement(who, reason, request_id=request_id)
        return await confirm_settlement(services.store, services.hints, operation, found, said)

    _settle(operation, settle, token_file, json)


def withdraw(
    operation: OperationId,
    reason: Reason,
    settlement: SettlementId = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """End a finding that waits for a second person; nothing comes of it."""

    async def settle(services: Services, who: Principal) -> Done:
        found = settlement or await _asked(services, who, operation, "Withdraw it?")
        said = Settlement(who, reason, request_id=request_id)
        return await withdraw_settlement(services.store, operation, found, said)

    _settle(operation, settle, token_file, json)


COMMANDS = (replay, resolve, skip, probe, confirm, withdraw, *REPEATING)


async def _show(services: Services, who: Principal, operation: str) -> dict[str, Any]:
    async with services.store.connection() as conn:
        return await show_effect(conn, operation, who)


async def _found(services: Services, who: Principal, operation: str, asked: int, wait: float) -> dict[str, Any]:
    """The effect once there is an answer more than `asked`, or it has moved, or the time is over."""
    deadline = time.monotonic() + wait
    while True:
        view = await _show(services, who, operation)
        if len(view["probes"]) > asked or view["status"] != "in_doubt" or time.monotonic() >= deadline:
            return view
        await asyncio.sleep(POLL_SECONDS)


async def _asked(services: Services, who: Principal, operation: str, question: str) -> UUID:
    """The finding that waits, once the person has seen all of it and said yes."""
    waiting = (await _show(services, who, operation))["settlement"]
    if waiting is None:
        raise SettlementNotFound("no finding about the effect waits for a second person")
    note(f"{waiting['proposed_by']} has found out, and says why: {waiting['reason']}")
    note(f"{waiting['act']} {as_json_text(waiting['body'])}")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
    return UUID(waiting["settlement_id"])


def _settle(
    operation: str,
    settle: Callable[[Services, Principal], Awaitable[Done]],
    token_file: Path | None,
    json: bool,
) -> None:
    async def work(services: Services, who: Principal) -> tuple[Done, dict[str, Any]]:
        done = await settle(services, who)
        return done, await _show(services, who, operation)

    done, view = act(work, token_file)
    if "waits_for_second" in done.outcome:
        note("the policy calls it high-risk: nothing has changed, and another person has to confirm it")
    print_json(view) if json else print_effect(view)
