"""The whole verification, in one snapshot of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator

from signoff.domain.verifying import Checked
from signoff.infra.postgres.audit import read_snapshot
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.verify import audited, claimed, decided, moving
from signoff.infra.verify.calls import check_digests, check_voices, check_ways
from signoff.infra.verify.checks import Connection, Scope, run_check

COMPUTED = (check_digests, check_ways, check_voices)
STATED = (*decided.CHECKS, *claimed.CHECKS, *moving.CHECKS, *audited.CHECKS)


async def verify(store: PostgresStore, scope: Scope) -> list[Checked]:
    """Every check but that of the audit's chain, by invariant. It changes nothing, and holds nobody up."""
    async with store.begin() as tx:
        await read_snapshot(tx.conn)
        found = [checked async for checked in all_checks(tx.conn, scope)]
    return sorted(found, key=lambda checked: int(checked.invariant[1:]))


async def all_checks(conn: Connection, scope: Scope) -> AsyncIterator[Checked]:
    """In a transaction with `read_snapshot`."""
    for check in STATED:
        yield await run_check(conn, check, scope)
    for compute in COMPUTED:
        yield await compute(conn)
