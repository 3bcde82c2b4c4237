"""`signoff reviews`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.deciding import Decided, decide_review
from signoff.domain.decisions import NextStep
from signoff.domain.reviews import ReviewStatus
from signoff.infra.cli.acting import DOOR, TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.deciding import Wish, spoken_by, stale_in_words, wire_form
from signoff.infra.cli.listing import Label, NewerThan, OlderThan, Read, age, labels, listing
from signoff.infra.cli.output import JsonFlag, print_json
from signoff.infra.cli.review_acts import COMMANDS, ReviewId
from signoff.infra.cli.review_screen import print_decided, print_review, print_reviews
from signoff.infra.decisions_in import read_answers
from signoff.infra.postgres.review_filters import ReviewFilter
from signoff.infra.postgres.views_reviews import decided_view, list_reviews, show_review
from signoff.infra.services import Services

app = command_group("List, show, decide, claim, reassign, comment and cancel reviews.")


@app.command("list")
@listing("reviews", print_reviews)
def list_(
    status: Annotated[list[ReviewStatus] | None, typer.Option(help="Only reviews in this state; repeatable")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only those that wait for you")] = False,
    reviewer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those that this group, or @person, was asked about")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only reviews of calls of this tool")] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only reviews of this agent")] = None,
    job: Annotated[UUID | None, typer.Option(metavar="ID", help="Only reviews of this job")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    label: Label = None,
) -> Read:
    """List the reviews that you may see, newest first."""
    wanted = ReviewFilter(status or (), reviewer, tool, agent, job, mine, age(older_than, newer_than), labels(label))
    return lambda conn, who, page: list_reviews(conn, wanted, who, page)


@app.command()
def show(review: ReviewId, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show the calls of a review, what may be answered, and the commands that answer."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_review(conn, review, who)

    view = act(work, token_file)
    print_json(view) if json else print_review(view)


@app.command()
def decide(
    review: ReviewId,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call run as it is")] = False,
    reject: Annotated[
        str | None, typer.Option(metavar="MESSAGE", help='Refuse it; the agent is told why ("" to give no reason)')
    ] = None,
    then: Annotated[
        NextStep | None,
        typer.Option(help="With --reject: what the agent may do now. Default: revise with a message, else stop"),
    ] = None,
    respond: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Answer in the tool's place; the tool does not run")
    ] = None,
    edit: Annotated[
        str | None, typer.Option(metavar="JSON", help="Let it run with these arguments, a whole JSON object")
    ] = None,
    item: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this item, by its id or tool call id; default: all open ones")
    ] = None,
    revision: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The revision that you have seen; needed once a call was amended"),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Decisions as the HTTP API takes them, {"decisions": […]}; - reads stdin'),
    ] = None,
    dialect: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --file: the dialect that it is in; default: langchain")
    ] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Decide items of a review with one of --approve, --reject, --respond, --edit or --file: all of them, or none.

    It takes the token of a person who is one of the reviewers.
    """
    wish = Wish(approve, reject, respond, edit, file, then, item, dialect, revision)
    wish.check()

    async def work(services: Services, who: Principal) -> Decided:
        async with services.store.connection() as conn:
            body = wire_form(wish, (await show_review(conn, review, who))["items"])
            answers = await read_answers(conn, review, spoken_by(wish), body, who)
        environment = services.settings.environment
        with stale_in_words(review):
            return await decide_review(
                services.store, services.hints, review, answers, who, door=DOOR, environment=environment
            )

    decided = act(work, token_file)
    print_json(decided_view(decided)) if json else print_decided(decided)


for command in COMMANDS:
    app.command()(command)
