"""`signoff reconcile`: a provider's books beside the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.errors import SignoffError
from signoff.domain.operating import Finding, Settlement, resolve_effect
from signoff.domain.reconciling import Compared, Reconciliation
from signoff.infra.cli.acting import TokenFile, act
from signoff.infra.cli.apps import one_command
from signoff.infra.cli.export_options import (
    Applied,
    CompleteSince,
    CompleteUntil,
    ExportFile,
    FormatOption,
    KeyColumn,
    ReferenceColumn,
    StatusColumn,
    chosen_format,
    columns_of,
)
from signoff.infra.cli.output import JsonFlag, note, print_json, print_line, print_table
from signoff.infra.effect_results import pack_text
from signoff.infra.reconcile.comparing import Covered
from signoff.infra.reconcile.comparing import reconcile as compare_with_ledger
from signoff.infra.reconcile.exports import digest_of, read_export
from signoff.infra.reconcile.kept import kept
from signoff.infra.services import Services

app = one_command()


@app.command()
def reconcile(
    file: ExportFile,
    tool: Annotated[str | None, typer.Option(help="The tool whose effects the export is about")] = None,
    provider: Annotated[str | None, typer.Option(help="Or the provider, if several tools send to it")] = None,
    key_column: KeyColumn = "idempotency_key",
    reference_column: ReferenceColumn = None,
    status_column: StatusColumn = None,
    applied_status: Applied = None,
    since: CompleteSince = None,
    until: CompleteUntil = None,
    format: FormatOption = None,
    settle: Annotated[
        bool, typer.Option("--settle", help="Settle effects in doubt that the export shows as done")
    ] = False,
    token_file: TokenFile = None,
    json: JsonFlag = False,
) -> None:
    """Compare a provider's export with the ledger; right `operate`. Exits 1 if they differ.

    Changes nothing unless --settle.

    The export has, in one column, the idempotency key that Signoff sent: the operation with its generation, or without.
    """
    if (tool is None) == (provider is None):
        raise typer.BadParameter("give one of --tool and --provider")
    columns = columns_of(key_column, reference_column, status_column, applied_status)
    if settle and reference_column is None:
        raise typer.BadParameter("--settle needs --reference-column: who says that it happened names the provider's id")

    async def work(services: Services, who: Principal) -> tuple[Reconciliation, list[dict[str, Any]]]:
        require_right(who, Right.operate)
        with kept(read_export(file, chosen_format(file, format), columns)) as held:
            found = await compare_with_ledger(services.store, held, Covered(tool, provider, since, until))
        return found, await _settle(services, who, file, found) if settle else []

    found, settled = act(work, token_file)
    _report(found, settled, settle, json)
    if not found.ok:
        raise typer.Exit(1)


async def _settle(services: Services, who: Principal, file: Path, found: Reconciliation) -> list[dict[str, Any]]:
    """By the operators' act, each for itself; what is refused is said, and the rest goes on."""
    digest = digest_of(file)
    return [await _settle_one(services, who, f"{file.name} (SHA-256 {digest})", digest, one) for one in found.settling]


async def _settle_one(services: Services, who: Principal, evidence: str, digest: str, one: Compared) -> dict[str, Any]:
    reference = one.references[0]
    lines = ", ".join(map(str, one.lines))
    # The same file says the same thing once.
    request = f"reconcile {digest[:32]} {one.operation_id}"
    settlement = Settlement(who, f"the provider's export {evidence} has it, line {lines}", reference, request)
    told = pack_text(f"Done; the provider's reference is {reference}.")
    try:
        await resolve_effect(
            services.store,
            services.hints,
            one.operation_id,
            Finding.applied,
            settlement,
            told,
            environment=services.settings.environment,
        )
    except SignoffError as error:
        return {"operation_id": one.operation_id, "settled": False, "message": f"{error.message} [{error.code}]"}
    return {"operation_id": one.operation_id, "settled": True, "message": f"applied, {reference}"}


def _report(found: Reconciliation, settled: list[dict[str, Any]], settle: bool, json: bool) -> None:
    if json:
        print_json({**found.document(), **({"settled": settled} if settle else {})})
        return
    counts = ", ".join(f"{kind.replace('_', ' ')}: {count}" for kind, count in found.counts.items() if count)
    seen = f"{found.records} records with a key, {found.without_key} without; {found.effects} effects"
    note(f"{seen}. {counts or 'There is nothing to compare'}")
    if found.found:
        columns = ("difference", "operation", "tool", "ledger", "provider", "lines", "what")
        print_table(columns, [_row(one) for one in found.found])
    for one in settled:
        print_line(f"{one['operation_id']}  {'settled' if one['settled'] else 'not settled'}: {one['message']}")
    if not settle:
        for command in filter(None, (one.command() for one in found.found)):
            print_line(command)


def _row(one: Compared) -> tuple[object, ...]:
    lines = ", ".join(map(str, one.lines))
    references = ", ".join(one.references)
    kind = one.difference.replace("_", " ")
    return kind, one.operation_id, one.tool, one.status, references or None, lines or None, one.message
