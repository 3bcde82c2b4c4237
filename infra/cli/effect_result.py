"""`signoff effects result`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.effect_acts import OperationId
from signoff.infra.cli.output import JsonFlag, as_json_text, note, print_json, print_line
from signoff.infra.postgres.views_results import show_result
from signoff.infra.services import Services


def result(
    operation: OperationId,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file for it, as it is, instead of standard output")
    ] = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Print an effect's whole result, also where the agent was told its beginning alone."""

    async def work(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_result(conn, operation, who)

    view = act(work, token_file)
    if output is not None:
        _write(output, as_json_text(view) if json else _text(view))
    elif json:
        print_json(view)
    elif view["result"] is None:
        note(f"there is no result: the effect is {view['status']}")
    else:
        print_line(_text(view))


def _text(view: dict[str, Any]) -> str:
    content = "" if view["result"] is None else view["result"]["content"]
    return content if isinstance(content, str) else as_json_text(content)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise typer.BadParameter(f"{path} can't be written: {error.strerror}") from None
