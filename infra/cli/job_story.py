"""`signoff jobs story`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.infra.cli.acting import TokenFile
from signoff.infra.cli.output import JsonFlag, hanging, moment, print_line
from signoff.infra.cli.watching import WatchFlag, look, rows
from signoff.infra.postgres.views_story import show_story
from signoff.infra.services import Services

View = Mapping[str, Any]
INDENT = " " * 4


def story(
    job: Annotated[UUID, typer.Argument(metavar="JOB", help="The job's id")],
    watch: WatchFlag = False,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Tell all that happened with a job, in order: who did what when, from its submission to its end."""

    async def fetch(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_story(conn, job, who)

    look(fetch, print_story, rows("story"), token_file, json=json, watch=watch)


def print_story(view: View) -> None:
    job = view["job"]
    print_line(f"job {job['job_id']} of {job['agent']}: {job['status']}\n")
    before: View = {}
    for entry in view["story"]:
        _print_entry(entry, before)
        before = entry["ids"]


def _print_entry(entry: View, before: View) -> None:
    """Ids that the entry before has not named already are on a line of their own."""
    by = f"  by {entry['who']}" if entry["who"] else ""
    text = f": {entry['text']}" if entry["text"] else ""
    print_line(hanging(f"{moment(entry['at'])}  {entry['what']}{by}{text}", indent=len(INDENT)))
    fresh = [f"{name} {id_}" for name, id_ in entry["ids"].items() if before.get(name) != id_]
    if fresh:
        print_line(INDENT + "  ".join(fresh))
