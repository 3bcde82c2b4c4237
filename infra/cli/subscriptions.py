"""`signoff subscriptions`: where events are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.sendings import SendingStatus
from signoff.domain.subscriptions import SubscriptionKind
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.listing import NewerThan, OlderThan, Read, age, listing
from signoff.infra.cli.output import JsonFlag, note, print_json, print_line
from signoff.infra.cli.paging import DEFAULT_ROWS, Cursor, Limit
from signoff.infra.cli.subscriptions_screen import print_sendings, print_subscription, print_subscriptions
from signoff.infra.postgres.sendings import Range
from signoff.infra.postgres.views import Page
from signoff.infra.postgres.views_subscriptions import (
    SendingFilter,
    list_sendings,
    list_subscriptions,
    show_subscription,
)
from signoff.infra.services import Services
from signoff.infra.webhooks.subscribing import (
    DEFAULT_OVERLAP,
    FROM_START,
    LONGEST_OVERLAP,
    Created,
    create_subscription,
    disable_subscription,
    enable_subscription,
    rotate_secret,
    send_again,
)

app = command_group("Create, list, show, disable, enable and rotate subscriptions; their sendings, and sending again.")

Subscription = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="Its name, or its id")]
Values = list[str] | None


def _utc(value: datetime | None) -> datetime | None:
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


Time = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d"], metavar="TIME", callback=_utc),
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="How it is called from now on")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An https:// address, or a mail address")],
    kind: Annotated[SubscriptionKind, typer.Option(help="What is sent there")] = SubscriptionKind.webhook,
    event: Annotated[Values, typer.Option(help="A type, or a pattern like 'signoff.review.*'; repeatable")] = None,
    agent: Annotated[Values, typer.Option(help="Only events of this agent; repeatable")] = None,
    group: Annotated[Values, typer.Option(help="Only of reviews that this group is asked; repeatable")] = None,
    rule: Annotated[Values, typer.Option(help="Only of calls under this rule; repeatable")] = None,
    tool: Annotated[Values, typer.Option(help="Only of calls of this tool, or pattern; repeatable")] = None,
    template: Annotated[str | None, typer.Option(metavar="TEXT", help="The text of mail and Slack")] = None,
    allow_private: Annotated[bool, typer.Option("--allow-private", help="It may be in a private network")] = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="With all events that are still kept")] = False,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="With the events behind this cursor")] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Send events from now on to TARGET. A webhook's signing secret is shown, this once."""
    if from_start and after is not None:
        raise typer.BadParameter("give one of --from-start and --after")
    wanted = {"agent": agent, "groups": group, "rule": rule, "tool": tool}
    raw = {
        "name": name,
        "kind": kind.value,
        "target": target,
        "event_types": event or None,
        "filter": {field: values for field, values in wanted.items() if values},
        "template": template,
        "allow_private": allow_private,
        "after": FROM_START if from_start else after,
    }

    async def work(services: Services, who: Principal) -> Created:
        return await create_subscription(services.store, raw, who)

    _print_created(act(work, token_file), json, "What comes is signed with it")


@app.command("list")
def list_(
    limit: Limit = DEFAULT_ROWS, cursor: Cursor = None, token_file: TokenFile = None, json: JsonFlag = False
) -> None:
    """List the subscriptions, newest first."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_subscriptions(conn, who, Page(limit, cursor))

    page = act(work, token_file)
    print_json(page) if json else print_subscriptions(page)


@app.command()
def show(subscription: Subscription, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show a subscription, without its secrets."""
    _shown(subscription, None, token_file, json)


@app.command()
def disable(
    subscription: Subscription,
    reason: Annotated[str, typer.Option(help="Why")] = "by an operator",
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Send nothing there any more. What waits goes on waiting."""

    async def work(services: Services, who: Principal) -> UUID:
        return await disable_subscription(services.store, subscription, who, reason)

    _shown(subscription, work, token_file, json)


@app.command()
def enable(subscription: Subscription, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Go on where a disabled subscription stopped."""

    async def work(services: Services, who: Principal) -> UUID:
        return await enable_subscription(services.store, subscription, who)

    _shown(subscription, work, token_file, json)


@app.command()
def rotate(
    subscription: Subscription,
    overlap: Annotated[
        int,
        typer.Option(
            metavar="SECONDS",
            help="How long the old secret signs too",
            min=0,
            max=int(LONGEST_OVERLAP.total_seconds()),
        ),
    ] = int(DEFAULT_OVERLAP.total_seconds()),
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Give a webhook a new secret and show it, this once. Until the overlap ends the old one signs too."""

    async def work(services: Services, who: Principal) -> Created:
        return await rotate_secret(services.store, subscription, who, timedelta(seconds=overlap))

    _print_created(act(work, token_file), json, f"The old one signs too for {overlap} s")


@app.command()
@listing("sendings", print_sendings)
def sendings(
    subscription: Annotated[
        str | None, typer.Argument(metavar="SUBSCRIPTION", help="Its name, or its id; default: of all")
    ] = None,
    status: Annotated[list[SendingStatus] | None, typer.Option(help="Only sendings in this state; repeatable")] = None,
    job: Annotated[UUID | None, typer.Option(help="Only events of this job")] = None,
    event_id: Annotated[UUID | None, typer.Option(help="Only this event")] = None,
    event: Annotated[str | None, typer.Option(metavar="TYPE", help="Only events of this type")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
) -> Read:
    """List what was sent, or is to be, newest first."""
    wanted = SendingFilter(status or (), job, event_id, event, age(older_than, newer_than))
    return lambda conn, who, page: list_sendings(conn, subscription, wanted, who, page)


@app.command()
def redeliver(
    subscription: Subscription,
    sending: Annotated[UUID | None, typer.Option(help="This one, by the id that `sendings` shows")] = None,
    status: Annotated[SendingStatus | None, typer.Option(help="Those that are dead, or sent")] = None,
    since: Time = None,
    until: Time = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many")] = False,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Send again what has ended: one, or a range by status and time. Each keeps its event's id."""
    wanted = Range(sending, status, since, until)

    async def work(services: Services, who: Principal) -> int:
        return await send_again(services.store, subscription, who, wanted, dry_run=dry_run)

    count = act(work, token_file)
    if json:
        print_json({"count": count, "dry_run": dry_run})
    else:
        print_line(f"{count} {'would be' if dry_run else 'are'} sent again")


def _shown(
    subscription: str,
    change: Callable[[Services, Principal], Awaitable[UUID]] | None,
    token_file: Path | None,
    json: bool,
) -> None:
    async def work(services: Services, who: Principal) -> dict[str, Any]:
        if change is not None:
            await change(services, who)
        async with services.store.connection() as conn:
            return await show_subscription(conn, subscription, who)

    view = act(work, token_file)
    print_json(view) if json else print_subscription(view)


def _print_created(created: Created, json: bool, meaning: str) -> None:
    """Standard output is the secret alone, where there is one."""
    if json:
        print_json({"id": str(created.id), "name": created.name, "secret": created.secret})
    elif created.secret is None:
        print_line(f"created: {created.name}")
    else:
        typer.echo(created.secret)
        note(f"{meaning}. It is not shown again.")
