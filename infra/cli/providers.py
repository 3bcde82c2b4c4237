"""`signoff providers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal
from signoff.domain.operator_acts import Done
from signoff.domain.pausing import close_circuit
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.output import JsonFlag, moment, print_json, print_line, print_table
from signoff.infra.cli.reasons import Reason, RequestId
from signoff.infra.cli.watching import WatchFlag, look
from signoff.infra.cli.watching import rows as rows_of
from signoff.infra.postgres.views_holding import list_providers
from signoff.infra.services import Services

app = command_group("List whom tools send to, with limits and circuits; close a circuit.")


def _print_providers(view: Mapping[str, Any]) -> None:
    columns = ("provider", "in flight", "may leave", "bad ends", "open since", "open until", "wait", "last error")
    rows = [
        (
            row["provider"],
            row["in_flight"],
            None if row["tokens"] is None else f"{row['tokens']:.1f}",
            row["failures"],
            moment(row["opened_at"]),
            moment(row["open_until"]),
            row["wait_for_circuit"] + row["wait_for_limit"],
            row["last_error"],
        )
        for row in view["providers"]
    ]
    print_table(columns, rows)


@app.command("list")
def list_(watch: WatchFlag = False, token_file: TokenFile = None, json: JsonFlag = False) -> None:
    """List the providers with limits, and those that ever failed: what fails comes first."""

    async def fetch(services: Services, who: Principal) -> dict[str, Any]:
        async with services.store.connection() as conn:
            return await list_providers(conn, who)

    look(fetch, _print_providers, rows_of("providers"), token_file, json=json, watch=watch)


@app.command()
def close(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The provider, as `list` shows it")],
    reason: Reason,
    request_id: RequestId = None,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Forget the provider's bad ends: whatever waits for it may try at once."""

    async def work(services: Services, who: Principal) -> Done:
        return await close_circuit(services.store, who, name, reason, request_id)

    outcome = act(work, token_file).outcome
    said = f"closed: {outcome['effects']} effects go on" if outcome["closed"] else "its circuit was not open"
    print_json(dict(outcome)) if json else print_line(said)
