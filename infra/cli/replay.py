"""`signoff replay`: many at once, the plan first."""

from __future__ import annotations

import asyncio
import json as json_
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from signoff.domain.authority import Principal
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import InvalidRequest
from signoff.domain.operator_acts import MAX_REASON_CHARACTERS
from signoff.domain.replay_plans import DEFAULT_LIMIT, ReplayPlan, Wanted
from signoff.domain.replaying import Applied, Checked, Did, check_plan, plan_replay
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.listing import Label, NewerThan, OlderThan, age, labels
from signoff.infra.cli.output import JsonFlag, note, print_json
from signoff.infra.cli.policy_reading import read_json
from signoff.infra.cli.reasons import text_of
from signoff.infra.cli.replay_screen import Progress, print_plan, print_results
from signoff.infra.replaying import Pace, apply_plan
from signoff.infra.services import Services

app = command_group("Plan what replaying many would do, and do it.")


@app.command()
def plan(
    status: Annotated[
        list[EffectStatus] | None,
        typer.Option(help="Only effects in this state; repeatable. Default: failed, dead, in_doubt"),
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="TOOL", help="Only effects of this tool")] = None,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only effects of this agent")] = None,
    job: Annotated[UUID | None, typer.Option(metavar="JOB", help="Only of this job")] = None,
    error: Annotated[str | None, typer.Option(metavar="CODE", help="Only with this error")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
    label: Label = None,
    operation: Annotated[
        list[str] | None, typer.Option(metavar="OPERATION", help="These effects and no others; repeatable")
    ] = None,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Failed jobs, too: retried from their newest checkpoint")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Save the plan in a new file, to apply it")
    ] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Say what replaying all of these would do; nothing is changed."""
    wanted = Wanted(
        statuses=tuple(status or Wanted().statuses),
        agent=agent,
        tool=tool,
        error=error,
        job_id=job,
        age=age(older_than, newer_than),
        labels=labels(label),
        operations=tuple(operation or ()),
        jobs=jobs,
    )

    async def work(services: Services, who: Principal) -> ReplayPlan:
        return await plan_replay(services.store, wanted, who, environment=services.settings.environment)

    found = act(work, token_file)
    if out is not None:
        _save(found, out)
    print_json(found.to_dict()) if json else print_plan(found)


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="The saved plan", exists=True, dir_okay=False)],
    really: Annotated[bool, typer.Option("--apply", help="Do it; without this nothing is done")] = False,
    reason: Annotated[
        str | None,
        typer.Option(help="Why; needed to do it, and kept in the record", callback=text_of(MAX_REASON_CHARACTERS)),
    ] = None,
    first: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N: a sample")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="Refuse to do more than this at once")] = DEFAULT_LIMIT,
    per_second: Annotated[
        float | None, typer.Option(metavar="R", min=0.001, help="At most so many a second; default: no limit")
    ] = None,
    skip_outdated: Annotated[
        bool, typer.Option("--skip-outdated", help="Leave out what has changed since, in place of refusing it all")
    ] = False,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Do what a plan says, each item once, if the world is as it was. Stopped, or run again, it goes on."""
    if really and reason is None:
        raise typer.BadParameter("--apply needs --reason")
    planned = ReplayPlan.from_dict(read_json(file))

    async def work(services: Services, who: Principal) -> tuple[Checked, list[Applied]]:
        checked = await check_plan(
            services.store,
            planned,
            who,
            environment=services.settings.environment,
            first=first,
            limit=limit,
            skip_outdated=skip_outdated,
        )
        if not really or reason is None:
            return checked, []
        with _stopping() as is_stopped, Progress(len(checked.part)) as progress:
            show = _each_line(progress) if json else progress.advance
            return checked, await apply_plan(services, checked, who, reason, Pace(per_second, is_stopped), show)

    checked, results = act(work, token_file)
    if not really:
        _print_dry(checked, json)
        return
    if not json:
        print_results(results)
    _end(checked, results)


def _save(plan: ReplayPlan, out: Path) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(json_.dumps(plan.to_dict(), indent=2) + "\n")
    except OSError as error:
        raise InvalidRequest(f"{out} can't be written: {error.strerror}") from None


def _print_dry(checked: Checked, json: bool) -> None:
    open_ = [entry for entry in checked.part if checked.plan.request_id(entry) not in checked.done_before]
    doing = [entry for entry in open_ if entry.id not in checked.outdated]
    if json:
        print_json({"plan_id": checked.plan.id, "would_do": [entry.to_dict() for entry in doing]})
    else:
        print_plan(ReplayPlan(checked.plan.id, checked.plan.made_by, checked.plan.made_at, {}, tuple(doing)))
    note("nothing was done: to do it, add --apply and --reason")


def _each_line(progress: Progress) -> Callable[[Applied], None]:
    def show(result: Applied) -> None:
        typer.echo(json_.dumps(result.to_dict()))
        progress.advance(result)

    return show


def _end(checked: Checked, results: list[Applied]) -> None:
    """Exit code 1 if it was stopped, or something was refused or left."""
    if len(results) < len(checked.part):
        note(f"stopped after {len(results)} of {len(checked.part)}: the same command goes on from there")
    if len(results) < len(checked.part) or any(result.did in (Did.refused, Did.left) for result in results):
        raise typer.Exit(1)


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Whether somebody has pressed Ctrl-C: what is under way is brought to its end first."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stopped.set)
    try:
        yield stopped.is_set
    finally:
        loop.remove_signal_handler(signal.SIGINT)
