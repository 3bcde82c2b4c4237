"""`signoff standing`."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.standing_up import Stand, stand, withdraw
from signoff.domain.verdicts import Verdict
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, moment, more, print_facts, print_json, print_line, print_table
from signoff.infra.cli.paging import DEFAULT_ROWS, Cursor, Limit
from signoff.infra.cli.periods import For, Until, period
from signoff.infra.postgres.views import Page
from signoff.infra.postgres.views_standing import StandingState, list_standing, show_standing
from signoff.infra.services import Services

app = command_group("Allow or deny calls of a tool beforehand, list that, and take it back.")


@app.command()
def create(
    agent: Annotated[str, typer.Option(help="Whose calls")],
    tool: Annotated[str, typer.Option(help="Calls of this tool; a name, not a pattern")],
    allow: Annotated[bool, typer.Option("--allow", help="Such calls run without asking anybody")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Such calls are refused without asking anybody")] = False,
    when: Annotated[str | None, typer.Option(metavar="CEL", help="Only calls for which this holds")] = None,
    job: Annotated[UUID | None, typer.Option(help="Only in this job")] = None,
    thread: Annotated[str | None, typer.Option(help="Only in this thread")] = None,
    until: Until = None,
    lasting: For = None,
    reason: Annotated[str | None, typer.Option(help="Why; it is shown with it")] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Allow or deny calls that would be reviewed, for a job, a thread or some time.

    It takes the token of a person with the rights standing and review who could decide such calls.
    """
    if allow == deny:
        raise typer.BadParameter("give one of --allow and --deny")
    ends = period(until, lasting)
    if job is None and thread is None and not ends.has_end:
        raise typer.BadParameter("give --job, --thread, --until or --for: nothing stands for ever")

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        wanted = Stand(
            agent=agent,
            tool=tool,
            verdict=Verdict.allow if allow else Verdict.deny,
            condition=when,
            job_id=job,
            thread_id=thread,
            period=ends,
            reason=reason,
        )
        approval = await stand(services.store, who, wanted)
        async with services.store.connection() as conn:
            return await show_standing(conn, approval.id)

    view = act(work, token_file)
    print_json(view) if json else print_facts(_facts(view))


@app.command("list")
def list_(
    state: Annotated[StandingState | None, typer.Option(help="Only those in this state")] = None,
    limit: Limit = DEFAULT_ROWS,
    cursor: Cursor = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """List standing approvals, newest first: your own, or all if you operate or may give some."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_standing(conn, state, who, Page(limit, cursor))

    page = act(work, token_file)
    if json:
        print_json(page)
        return
    facts = [_facts(view) for view in page["standing_approvals"]]
    columns = ("id", "state", "verdict", "agent", "tool", "when", "job", "thread", "until", "given by", "reason")
    print_table(columns, [[one[column] for column in columns] for one in facts])
    more(page)


@app.command()
def revoke(
    standing: Annotated[UUID, typer.Argument(metavar="STANDING", help="The standing approval's id")],
    token_file: TokenFile = None,
) -> None:
    """Take a standing approval back, as who gave it or as an operator. It holds at once."""

    async def work(services: Services, who: Principal) -> None:
        await withdraw(services.store, standing, who)

    act(work, token_file)
    print_line(f"revoked: {standing}")


def _facts(view: dict[str, Any]) -> dict[str, object]:
    return {
        "id": view["standing_id"],
        "state": view["state"],
        "verdict": view["verdict"],
        "agent": view["agent"],
        "tool": view["tool"],
        "when": view["when"],
        "job": view["job_id"],
        "thread": view["thread_id"],
        "until": moment(view["expires_at"]),
        "given by": view["created_by"],
        "reason": view["reason"],
        "revoked": moment(view["revoked_at"]),
    }
