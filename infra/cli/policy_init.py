"""`signoff policy init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.errors import AgentNotFound, InvalidRequest
from signoff.domain.policy_starter import starter_policy
from signoff.infra.cli.acting import administer
from signoff.infra.cli.output import note, print_line
from signoff.infra.cli.policy_reading import read_json
from signoff.infra.services import Services


def init(
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="From this agent's tools, as registered")] = None,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Or from tools in a JSON file", exists=True, dir_okay=False),
    ] = None,
    reviewers: Annotated[str, typer.Option(metavar="GROUP", help="Who is asked")] = "reviewers",
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="A new file, instead of standard output")] = None,
) -> None:
    """Write a first policy from an agent's tools: strict, with the reason at each rule. No file is overwritten."""
    if agent is not None and tools is None:
        found = _registered(agent)
    elif tools is not None and agent is None:
        found = read_json(tools)
    else:
        raise typer.BadParameter("give --agent or --tools")
    text = starter_policy(found, reviewers)
    if output is None:
        print_line(text)
        return
    _write(output, text)
    note(f"{output} is written. Read it, then: signoff policy check {output}")


def _registered(agent: str) -> Any:
    async def work(services: Services) -> Any:
        async with services.store.begin() as tx:
            found = await tx.agents.tools(agent)
        if found is None:
            raise AgentNotFound(f"no worker has registered an agent {agent!r}; or name a file with --tools")
        return found

    return administer(work)


def _write(output: Path, text: str) -> None:
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidRequest(f"{output} exists, and is left as it is; name another with --output") from None
    except OSError as error:
        raise InvalidRequest(f"{output} can't be written: {error.strerror}") from None
