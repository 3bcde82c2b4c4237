"""`signoff dead-letters`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal
from signoff.domain.dead_letters import LetterId, LetterKind
from signoff.domain.jobs import MAX_INPUT_CHARACTERS
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.dead_letter_screen import print_letter, print_letters
from signoff.infra.cli.listing import NewerThan, OlderThan, Read, age, listing
from signoff.infra.cli.output import JsonFlag, print_json, print_line
from signoff.infra.cli.reasons import Reason, RequestId, text_of
from signoff.infra.dead_letter_acts import GIVEN_UP, Request, discard, requeue
from signoff.infra.postgres.views_dead_letters import LetterFilter, list_dead_letters, show_dead_letter
from signoff.infra.services import Services

app = command_group("List, show, requeue and discard dead letters: messages, effects, runs and webhooks.")

Letter = Annotated[str, typer.Argument(metavar="LETTER", help="As the list calls it: message:12, effect:op_…, run:…")]


@app.command("list")
@listing("dead_letters", print_letters)
def list_(
    kind: Annotated[list[LetterKind] | None, typer.Option(help="Only of this kind; repeatable")] = None,
    agent: Annotated[str | None, typer.Option(help="Only effects and runs of this agent")] = None,
    tool: Annotated[str | None, typer.Option(help="Only effects of this tool")] = None,
    error: Annotated[str | None, typer.Option(metavar="CODE", help="Only with this error")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
) -> Read:
    """List what nothing goes on with by itself, newest first."""
    wanted = LetterFilter(kind or (), agent, tool, error, age(older_than, newer_than))
    return lambda conn, who, page: list_dead_letters(conn, wanted, who, page)


@app.command()
def show(letter: Letter, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show a dead letter with its original bytes, every error, and the commands that settle it."""
    wanted = LetterId.parse(letter)

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_dead_letter(conn, wanted, who)

    view = act(work, token_file)
    print_json(view) if json else print_letter(view)


@app.command("requeue")
def requeue_(
    letter: Letter,
    reason: Reason,
    body: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a message: with this body instead", exists=True, dir_okay=False),
    ] = None,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Try it again: a message goes to its queue, an effect is replayed, a run retried, a webhook sent again."""
    request = Request(LetterId.parse(letter), reason, request_id)
    raw = None if body is None else body.read_bytes()

    async def work(services: Services, who: Principal) -> Mapping[str, Any]:
        return await requeue(services, who, request, raw)

    _print(act(work, token_file), "requeued", json)


@app.command("discard")
def discard_(
    letter: Letter,
    reason: Reason,
    substitute: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Of an effect: what the agent is told, labelled as a substitute",
            callback=text_of(MAX_INPUT_CHARACTERS),
        ),
    ] = GIVEN_UP,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Give it up: an effect is skipped with a substitute, a run's job is cancelled; a message's bytes stay."""
    request = Request(LetterId.parse(letter), reason, request_id)

    async def work(services: Services, who: Principal) -> Mapping[str, Any]:
        return await discard(services, who, request, substitute)

    _print(act(work, token_file), "discarded", json)


def _print(done: Mapping[str, Any], verb: str, json: bool) -> None:
    if json:
        print_json(done)
        return
    status = f", now {done['status']}" if "status" in done else ""
    print_line(f"{done['id']}: {verb}{status}" + (", as before" if done["repeated"] else ""))
