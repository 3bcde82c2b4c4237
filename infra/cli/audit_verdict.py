"""What a verification of the audit has found, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.audit_chain import Finding, Head, Verifier, Wrong
from signoff.domain.audit_export import read_lines
from signoff.infra.cli.output import note, print_line, print_table
from signoff.infra.postgres.audit import SEALED_LATE_SECONDS, Unsealed, read_snapshot, sealed, unsealed
from signoff.infra.services import Services

MOST_SHOWN = 100


@dataclass(slots=True)
class Verdict:
    """All that is wrong counted, the first of it kept."""

    verifier: Verifier
    findings: list[Finding] = field(default_factory=list)
    count: int = 0
    unsealed: Unsealed | None = None

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.count += 1
            if len(self.findings) < MOST_SHOWN:
                self.findings.append(finding)

    @property
    def head(self) -> Head | None:
        """To be kept: only of a chain in which nothing is wrong."""
        return None if self.count else self.verifier.head

    @property
    def warnings(self) -> list[str]:
        first, waiting = self.verifier.first, self.unsealed
        found = []
        if first is not None and first > 1:
            found.append(f"it begins at seal {first}: what was before it is not in here")
        if waiting is not None and waiting.seconds > SEALED_LATE_SECONDS:
            late = f"{waiting.rows} rows are not sealed, the oldest for {waiting.seconds:.0f} s"
            found.append(f"{late}: is a dispatcher running, and does another transaction stand open?")
        return found

    def document(self) -> dict[str, Any]:
        return {
            "ok": self.count == 0,
            "rows": self.verifier.rows,
            "unsealed": self.unsealed.rows if self.unsealed else None,
            "head": str(self.head) if self.head else None,
            "found": self.count,
            "findings": [asdict(finding) for finding in self.findings],
            "warnings": self.warnings,
        }


async def verify_database(services: Services, head: Head | None) -> Verdict:
    async with services.store.begin() as tx:
        await read_snapshot(tx.conn)
        return await verify_chain(tx.conn, head)


async def verify_chain(conn: AsyncConnection[DictRow], head: Head | None) -> Verdict:
    """In one transaction, as `sealed` needs it."""
    verdict = Verdict(Verifier(head))
    async with aclosing(sealed(conn)) as seals:
        async for seal, rows in seals:
            verdict.add(verdict.verifier.add(seal, rows))
    verdict.unsealed = await unsealed(conn)
    first = verdict.verifier.first
    if first is not None and first > 1:
        verdict.add([Finding(Wrong.seal_removed, f"seals 1 to {first - 1} are missing before it", first)])
    verdict.add(verdict.verifier.end())
    return verdict


def verify_file(file: Path, head: Head | None) -> Verdict:
    verdict = Verdict(Verifier(head))
    # Bytes that are not UTF-8 go along, and make what they are in unreadable.
    with file.open(encoding="utf-8", errors="surrogateescape") as lines:
        for read in read_lines(lines):
            verdict.add([read] if isinstance(read, Finding) else verdict.verifier.add(*read))
    verdict.add(verdict.verifier.end())
    return verdict


def print_verdict(verdict: Verdict) -> None:
    for warning in verdict.warnings:
        note(f"Warning: {warning}")
    if verdict.count:
        rows = [(found.wrong, found.seal, found.position, found.message) for found in verdict.findings]
        print_table(("wrong", "seal", "row", "found"), rows)
        if verdict.count > len(verdict.findings):
            print_line(f"and {verdict.count - len(verdict.findings)} more")
        return
    note(f"{verdict.verifier.rows} rows, each as it was written. Keep the head elsewhere, for the next --head.")
    if verdict.head:
        typer.echo(str(verdict.head))
