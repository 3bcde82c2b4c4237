"""`signoff restored`: for whoever administers the database, after a backup was put in its place."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from signoff.infra.cli.acting import administer, administrator
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.moments import a_moment
from signoff.infra.cli.output import JsonFlag, note, print_facts, print_json
from signoff.infra.cli.reasons import Reason
from signoff.infra.postgres.restoring import Restored, mark_restored
from signoff.infra.services import Services

app = one_command()


@app.command()
def restored(
    since: Annotated[
        datetime, typer.Option(metavar="TIME", parser=a_moment, help="What the backup shows is the world as of then")
    ],
    reason: Reason,
    json: JsonFlag = False,
) -> None:
    """Say that the database is a backup: what may have happened since then is in doubt, and not simply done again.

    Before any worker or dispatcher starts. By a user of the database who owns its tables, as for `migrate`.
    """

    async def work(services: Services) -> Restored:
        async with services.store.begin_as(administrator()) as tx:
            return await mark_restored(tx.conn, since, reason, administrator())

    found = administer(work)
    if json:
        facts = asdict(found)
        print_json({**facts, "since": found.since.isoformat(), "at": found.at.isoformat()})
        return
    print_facts(
        {
            "unfinished jobs": found.jobs,
            "pending reviews": found.reviews,
            "effects in doubt": found.in_doubt,
            "sent again by key": found.keyed,
        }
    )
    note("Compare your providers' books with the ledger (`signoff reconcile`) before you settle what is in doubt.")
