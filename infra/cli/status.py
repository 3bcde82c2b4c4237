"""`signoff status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from signoff.domain.authority import Principal
from signoff.infra.cli.acting import TokenFile
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.output import JsonFlag
from signoff.infra.cli.status_screen import print_status
from signoff.infra.cli.watching import View, WatchFlag, look
from signoff.infra.postgres.views_status import show_status
from signoff.infra.services import Services

app = one_command()


@app.command()
def status(watch: WatchFlag = False, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """Show how everything stands on one screen, and the command for each thing that needs a person."""

    async def fetch(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await show_status(conn, who)

    look(fetch, print_status, _what_changes, token_file, json=json, watch=watch)


def _what_changes(view: View) -> Iterable[View]:
    """Without what is another each time that one looks."""
    silent = {"seen_at", "silent_seconds"}
    workers = [{name: worker[name] for name in worker if name not in silent} for worker in view["workers"]]
    return ({**{name: view[name] for name in view if name != "at"}, "workers": workers},)
