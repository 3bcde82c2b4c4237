"""`signoff audit`: for whoever administers the database, and for whoever holds an export."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO
from uuid import UUID

import typer

from signoff.domain.audit_chain import Head, Verifier, read_head, row_document
from signoff.domain.audit_export import write_lines
from signoff.infra.cli.acting import administer
from signoff.infra.cli.apps import command_group
from signoff.infra.cli.audit_verdict import Verdict, print_verdict, verify_database, verify_file
from signoff.infra.cli.output import JsonFlag, moment, note, print_json, print_table
from signoff.infra.cli.paging import DEFAULT_ROWS, Limit
from signoff.infra.postgres.audit import of_job, read_snapshot, sealed
from signoff.infra.services import Services

app = command_group("Verify, export and list the audit. Needs the database alone, or an export of it.")


def _head(value: str) -> Head:
    try:
        return read_head(value)
    except ValueError:
        raise typer.BadParameter("must be NUMBER:HASH, as an earlier verify has printed it") from None


@app.command()
def verify(
    head: Annotated[
        Head | None, typer.Option(metavar="NUMBER:HASH", help="As an earlier verify has printed it", parser=_head)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="An export, instead of the database", exists=True, dir_okay=False, readable=True),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Find rows and seals that were edited, removed, inserted or moved. Exits 1 if there are any.

    Prints the head, to be kept where who owns the database can't reach it: with --head the next verify finds out
    whether everything up to it is still as it was.
    """
    verdict = verify_file(file, head) if file else administer(lambda services: verify_database(services, head))
    print_json(verdict.document()) if json else print_verdict(verdict)
    if verdict.count:
        raise typer.Exit(1)


@app.command()
def export(
    after: Annotated[int, typer.Option(metavar="SEAL", min=0, help="Only what was sealed behind this one")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file for it, instead of standard output")
    ] = None,
) -> None:
    """Write what is sealed as JSON Lines, with the chain: `verify --file` needs nothing else."""

    async def work(services: Services) -> Verdict:
        verifier = Verifier()
        verdict = Verdict(verifier)
        with _opened(output) as target:
            async with services.store.begin() as tx:
                await read_snapshot(tx.conn)
                async with aclosing(sealed(tx.conn, after)) as seals:
                    async for seal, rows in seals:
                        verdict.add(verifier.add(seal, rows))
                        target.writelines(write_lines(seal, rows))
        return verdict

    verdict = administer(work)
    if verdict.count:
        note("The audit is not as it was written: see `signoff audit verify`.")
        raise typer.Exit(1)
    note(f"{verdict.verifier.rows} rows, head {verdict.verifier.head or 'none'}")


@app.command("list")
def list_(
    job: Annotated[UUID, typer.Option(help="Whose acts")],
    after: Annotated[int, typer.Option(metavar="POSITION", min=0, help="Only those behind this one")] = 0,
    limit: Limit = DEFAULT_ROWS,
    json: JsonFlag = False,
) -> None:
    """List the acts of a job, oldest first."""

    async def work(services: Services) -> list[dict[str, Any]]:
        async with services.store.connection() as conn:
            return [row_document(row) for row in await of_job(conn, job, after, limit)]

    rows = administer(work)
    if json:
        print_json({"rows": rows})
        return
    columns = ("position", "at", "act", "actor", "digest", "body")
    print_table(columns, [(row["position"], moment(row["at"]), *_told(row)) for row in rows])


def _told(row: dict[str, Any]) -> tuple[str, str, str | None, str]:
    body = {**(row["body"] or {}), **({"shown": row["shown"]} if row["shown"] else {})}
    return row["act"], row["actor"], row["digest"], ", ".join(f"{name} {value}" for name, value in body.items())


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        target = output.open("x", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"can't be written: {error.strerror}", param_hint="--output") from None
    with target:
        yield target
