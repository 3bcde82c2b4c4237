"""`signoff alarms`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from signoff.domain.alarms import acknowledge_alarm
from signoff.domain.authority import Principal
from signoff.domain.evidence import AlarmKind
from signoff.domain.operator_acts import Done
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.listing import NewerThan, OlderThan, Read, age, listing
from signoff.infra.cli.output import JsonFlag, moment, more, print_json, print_line, print_table
from signoff.infra.cli.reasons import Reason, RequestId
from signoff.infra.postgres.views_alarms import AlarmFilter, list_alarms
from signoff.infra.services import Services

app = command_group("List and acknowledge alarms: what may have happened twice, or other than recorded.")


def _print_alarms(page: Mapping[str, Any]) -> None:
    columns = ("alarm", "kind", "operation", "tool", "status", "at", "acknowledged by", "message")
    names = ("alarm_id", "kind", "operation_id", "tool", "status")
    print_table(
        columns,
        [
            (*(row[name] for name in names), moment(row["at"]), row["acknowledged_by"], row["message"])
            for row in page["alarms"]
        ],
    )
    more(page)


@app.command("list")
@listing("alarms", _print_alarms)
def list_(
    all_: Annotated[bool, typer.Option("--all", help="Also those that somebody has acknowledged")] = False,
    kind: Annotated[AlarmKind | None, typer.Option(help="Only alarms of this kind")] = None,
    tool: Annotated[str | None, typer.Option(metavar="TOOL", help="Only about effects of this tool")] = None,
    job: Annotated[UUID | None, typer.Option(metavar="JOB", help="Only about effects of this job")] = None,
    older_than: OlderThan = None,
    newer_than: NewerThan = None,
) -> Read:
    """List the alarms that nobody has acknowledged yet, newest first."""
    wanted = AlarmFilter(None if all_ else False, kind, tool, job, age(older_than, newer_than))
    return lambda conn, who, page: list_alarms(conn, wanted, who, page)


@app.command()
def acknowledge(
    alarm: Annotated[UUID, typer.Argument(metavar="ALARM", help="The alarm's id")],
    reason: Reason,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Say that you have seen to it, and how; it is listed no more."""

    async def work(services: Services, who: Principal) -> Done:
        return await acknowledge_alarm(services.store, alarm, who, reason, request_id)

    done = act(work, token_file)
    print_json(dict(done.outcome)) if json else print_line(f"acknowledged, about {done.outcome['operation_id']}")
