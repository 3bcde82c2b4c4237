"""The ledger's side of a reconciliation, in one snapshot."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from psycopg.rows import DictRow

from signoff.domain.effects import EffectStatus
from signoff.domain.reconciling import Compared, Entry, Reconciliation, Record, compare
from signoff.infra.postgres.audit import read_snapshot
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.reconcile.kept import Kept
from signoff.infra.verify.checks import Connection, each

AT_ONCE = 500
COLUMNS = "e.operation_id, e.tool, e.status, e.provider_reference"
# What may have happened, by its own account or because it was sent.
OF_TOOL = f"""
SELECT {COLUMNS} FROM signoff.effects e
WHERE (%(tool)s::text IS NULL OR e.tool = %(tool)s) AND (%(provider)s::text IS NULL OR e.provider = %(provider)s)
    AND (e.attempts > 0 OR e.status = 'succeeded')
    AND (%(since)s::timestamptz IS NULL OR e.last_dispatched_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.first_dispatched_at < %(until)s)
"""
NAMED = f"SELECT {COLUMNS} FROM signoff.effects e WHERE e.operation_id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class Covered:
    """What an export is about: the effects of a tool, or of a provider, that were sent in its time."""

    tool: str | None = None
    provider: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def reconcile(store: PostgresStore, held: Kept, covered: Covered) -> Reconciliation:
    """Compares the export with the ledger. Changes nothing."""
    found = Reconciliation(records=held.count, without_key=held.without_key)
    async with store.begin() as tx:
        await read_snapshot(tx.conn)
        async with aclosing(compared(tx.conn, held, covered)) as all_compared:
            async for one in all_compared:
                found.effects += one.status is not None
                found.add(one)
    return found


async def compared(conn: Connection, held: Kept, covered: Covered) -> AsyncGenerator[Compared, None]:
    """Every operation of either side once. In a transaction with `read_snapshot`."""
    facts = {"tool": covered.tool, "provider": covered.provider, "since": covered.since, "until": covered.until}
    async with aclosing(each(conn, OF_TOOL, facts, name="signoff_reconcile")) as rows:
        async for row in rows:
            yield compare(_entry(row), held.of(row["operation_id"]))
    for batch in _batches(held.unseen()):
        known = await (await conn.execute(NAMED, ([operation for operation, _ in batch],))).fetchall()
        entries = {row["operation_id"]: _entry(row) for row in known}
        for operation, records in batch:
            yield compare(entries.get(operation), records)


def _batches(rows: Iterator[tuple[str, list[Record]]]) -> Iterator[list[tuple[str, list[Record]]]]:
    while batch := list(islice(rows, AT_ONCE)):
        yield batch


def _entry(row: DictRow) -> Entry:
    return Entry(row["operation_id"], row["tool"], EffectStatus(row["status"]), row["provider_reference"])
