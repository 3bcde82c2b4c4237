"""`signoff reviews claim`, `release`, `reassign`, `comment` and `cancel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain import reassigning, review_acts
from signoff.domain.authority import Principal
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.cli.periods import period
from signoff.infra.cli.review_screen import print_review
from signoff.infra.postgres.views_reviews import show_review
from signoff.infra.services import Services

ReviewId = Annotated[UUID, typer.Argument(metavar="REVIEW", help="The review's id")]


def claim(
    review: ReviewId,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="How long, as in 15m, 2h; at most 1d")] = "15m",
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Hold a review for yourself: until then nobody else decides it. Claimed again it lasts longer."""
    seconds = period(None, for_).seconds
    assert seconds is not None

    async def work(services: Services, who: Principal) -> None:
        environment = services.settings.environment
        await review_acts.claim(services.store, review, who, environment=environment, seconds=seconds)

    _act(review, work, token_file, json)


def release(review: ReviewId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """End your claim of a review; an operator ends anybody's."""

    async def work(services: Services, who: Principal) -> None:
        await review_acts.release(services.store, review, who)

    _act(review, work, token_file, json)


def reassign(
    review: ReviewId,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="NAME", help="A group, or a person as @name; may be given again"),
    ] = None,
    to_all: Annotated[bool, typer.Option("--to-all", help="To everybody who may decide it, again")] = False,
    item: Annotated[UUID | None, typer.Option(metavar="ID", help="Only this item; default: all open ones")] = None,
    reason: Annotated[str | None, typer.Option(help="Why; it stays with the review")] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Say who of those that may decide a review is to."""
    if to_all == bool(to):
        raise typer.BadParameter("give --to, or --to-all")

    async def work(services: Services, who: Principal) -> None:
        environment = services.settings.environment
        await reassigning.reassign(
            services.store, review, who, to or (), environment=environment, item_id=item, reason=reason
        )

    _act(review, work, token_file, json)


def comment(
    review: ReviewId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What you have to say")],
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Add a comment to a review that you see."""

    async def work(services: Services, who: Principal) -> None:
        await review_acts.comment(services.store, review, who, text)

    _act(review, work, token_file, json)


def cancel(
    review: ReviewId,
    reason: Annotated[str, typer.Option(help="Why; it stays with the review")],
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Cancel what is open; the job goes on, and its agent is told that nobody decided."""

    async def work(services: Services, who: Principal) -> None:
        environment = services.settings.environment
        await review_acts.cancel_review(services.store, services.hints, review, who, reason, environment=environment)

    _act(review, work, token_file, json)


COMMANDS = (claim, release, reassign, comment, cancel)


def _act(
    review: UUID, do: Callable[[Services, Principal], Awaitable[None]], token_file: Path | None, json: bool
) -> None:
    """Does it, and shows the review as it is then."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        await do(services, who)
        async with services.store.connection() as conn:
            return await show_review(conn, review, who)

    view = act(work, token_file)
    print_json(view) if json else print_review(view)
