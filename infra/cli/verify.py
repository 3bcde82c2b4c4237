"""`signoff verify`: for whoever administers the database."""

from __future__ import annotations

from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from signoff.domain.reconciling import Difference
from signoff.domain.verifying import INVARIANTS, NOT_TOLD, Checked, Report
from signoff.infra.cli.acting import administer
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.audit_verdict import verify_database
from signoff.infra.cli.export_options import (
    Applied,
    CompleteSince,
    CompleteUntil,
    FormatOption,
    KeyColumn,
    ReferenceColumn,
    StatusColumn,
    chosen_format,
    columns_of,
)
from signoff.infra.cli.output import JsonFlag, note, print_json, print_table
from signoff.infra.postgres.audit import read_snapshot
from signoff.infra.reconcile.comparing import Covered, compared
from signoff.infra.reconcile.exports import Columns, Format, read_export
from signoff.infra.reconcile.kept import kept
from signoff.infra.services import Services
from signoff.infra.verify.checks import Scope
from signoff.infra.verify.whole import verify as verify_ledger

app = one_command()
LONGEST = timedelta(days=36500).total_seconds()

Provider = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The books of a tool's provider", exists=True, dir_okay=False, readable=True),
]


@app.command()
def verify(
    settled_for: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, max=LONGEST, help="What has not moved for so long, and could, is stuck"),
    ] = 60.0,
    provider: Provider = None,
    tool: Annotated[str | None, typer.Option(help="With --provider: whose books they are")] = None,
    key_column: KeyColumn = "idempotency_key",
    reference_column: ReferenceColumn = None,
    status_column: StatusColumn = None,
    applied_status: Applied = None,
    since: CompleteSince = None,
    until: CompleteUntil = None,
    format: FormatOption = None,
    json: JsonFlag = False,
) -> None:
    """Check everything that Signoff promises as far as the database can tell. Exits 1 if anything does not hold.

    It changes nothing, and may run beside everything else: it sees one moment.
    """
    if (provider is None) != (tool is None):
        raise typer.BadParameter("--provider and --tool go together")
    columns = columns_of(key_column, reference_column, status_column, applied_status)

    async def work(services: Services) -> Report:
        scope = Scope(timedelta(seconds=settled_for), services.settings.max_tries)
        checks = [*await verify_ledger(services.store, scope), await _chain(services)]
        if provider is not None:
            covered = Covered(tool=tool, since=since, until=until)
            checks += await _books(services, provider, covered, columns, chosen_format(provider, format))
        return Report(tuple(sorted(checks, key=lambda checked: int(checked.invariant[1:]))))

    report = administer(work)
    print_json(report.document()) if json else _print(report)
    if not report.ok:
        raise typer.Exit(1)


async def _chain(services: Services) -> Checked:
    verdict = await verify_database(services, None)
    checked = Checked("I11", "the audit is as it was written", rows=verdict.verifier.rows)
    for finding in verdict.findings:
        checked.add(f"seal {finding.seal} row {finding.position}", f"{finding.wrong}: {finding.message}")
    checked.found = verdict.count
    return checked


async def _books(services: Services, file: Path, covered: Covered, columns: Columns, format_: Format) -> list[Checked]:
    once, true = Checked("I4", "the provider did each effect once"), Checked("I5", "the provider's books agree")
    with kept(read_export(file, format_, columns)) as held:
        async with services.store.begin() as tx:
            await read_snapshot(tx.conn)
            async with aclosing(compared(tx.conn, held, covered)) as all_compared:
                async for one in all_compared:
                    once.rows += 1
                    true.rows += 1
                    if one.difference is Difference.applied_twice:
                        once.add(one.operation_id, one.message)
                    elif one.contradicts or one.difference is Difference.unknown_to_ledger:
                        true.add(one.operation_id, one.message)
    return [once, true]


def _print(report: Report) -> None:
    print_table(
        ("", "check", "rows", "wrong"),
        [(check.invariant, check.name, check.rows, check.found or None) for check in report.checks],
    )
    wrong = [(check, one) for check in report.checks for one in check.violations]
    if wrong:
        print_table(("", "of", "found"), [(check.invariant, one.subject, one.message) for check, one in wrong])
        for invariant in dict.fromkeys(check.invariant for check, _ in wrong):
            note(f"{invariant}: {INVARIANTS[invariant]}")
    note("Not told by the database:")
    for line in NOT_TOLD:
        note(f"  {line}")
