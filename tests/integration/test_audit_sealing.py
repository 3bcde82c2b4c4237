"""The seals: writers wait for nobody, nothing is left out, and whatever the owner of the database does shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from signoff.domain.audit_chain import Wrong
from signoff.infra.cli.audit_verdict import verify_chain
from signoff.infra.postgres.audit import unsealed
from signoff.infra.postgres.audit_sealing import seal_rows
from signoff.workers.sealing import SealAudit
from tests.support.api import Api, open_api, until
from tests.support.audit import approved, as_owner, executed, found, seal_all

pytestmark = pytest.mark.anyio

ACT = "UPDATE signoff.principals SET groups = array_append(groups, %s) WHERE name = %s"
LAST = "(SELECT max(position) FROM signoff.audit)"
SECOND_SEAL = "(SELECT positions[1] FROM signoff.audit_seals WHERE number = 2)"
CHANGES = {
    f"UPDATE signoff.audit SET actor = 'mallory' WHERE position = {LAST}": {Wrong.row_edited},
    f"UPDATE signoff.audit SET at = at + interval '1 us' WHERE position = {LAST}": {Wrong.row_edited},
    f"UPDATE signoff.audit SET body = '[]' WHERE position = {LAST}": {Wrong.row_edited},
    f"UPDATE signoff.audit SET digests = NULL WHERE position = {SECOND_SEAL}": {Wrong.row_edited},
    "ALTER TABLE signoff.audit ALTER position DROP IDENTITY;"
    "UPDATE signoff.audit SET position = 0 WHERE position = 2;"
    "UPDATE signoff.audit SET position = 2 WHERE position = 3;"
    "UPDATE signoff.audit SET position = 3 WHERE position = 0": {Wrong.row_edited},
    "UPDATE signoff.audit SET tx = (SELECT max(tx) FROM signoff.audit) WHERE position = 1": {
        Wrong.row_removed,
        Wrong.row_inserted,
    },
    f"DELETE FROM signoff.audit WHERE position = {SECOND_SEAL}": {Wrong.row_removed},
    "INSERT INTO signoff.audit (position, tx, act, actor, body) OVERRIDING SYSTEM VALUE"
    " SELECT -1, tx, 'item.decided', 'rita', '{}' FROM signoff.audit WHERE position = 1": {Wrong.row_inserted},
    "UPDATE signoff.audit_seals SET sealed_at = sealed_at + interval '1 us'": {Wrong.seal_changed},
    "UPDATE signoff.audit_seals SET hash = sha256('x') WHERE number = 2": {Wrong.seal_changed},
    "DELETE FROM signoff.audit_seals WHERE number = 1": {Wrong.seal_removed, Wrong.row_inserted},
    "DELETE FROM signoff.audit_seals WHERE number = 2": {Wrong.seal_removed, Wrong.row_inserted},
}


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with open_api(database_url) as api:
        yield api


@pytest.fixture
async def sealed(api: Api) -> Api:
    """A few seals; the last of a job that was approved and executed."""
    for _ in range(2):
        await seal_all(api.services)
        job = await approved(api)
    await executed(api.store, job.job_id)
    await seal_all(api.services)
    return api


async def test_the_chain_of_what_was_done_holds(sealed: Api) -> None:
    head = await seal_all(sealed.services)
    assert head.number >= 3
    assert await found(sealed.services, head) == []


async def test_what_the_owner_changes_is_found(sealed: Api) -> None:
    for what, wrong in CHANGES.items():
        async with sealed.store.begin() as tx, tx.conn.transaction(force_rollback=True):
            for statement in ("SET LOCAL session_replication_role = replica", *what.split(";")):
                await tx.conn.execute(statement)
            verdict = await verify_chain(tx.conn, None)
        assert {finding.wrong for finding in verdict.findings} == wrong, what
        assert verdict.head is None
    assert await found(sealed.services) == []


async def test_a_tail_that_was_cut_off_and_sealed_anew_is_found_by_the_head(sealed: Api, database_url: str) -> None:
    head = await seal_all(sealed.services)
    as_owner(
        database_url,
        f"DELETE FROM signoff.audit WHERE position = {LAST}",
        f"DELETE FROM signoff.audit_seals WHERE number = {head.number}",
    )
    assert await found(sealed.services) == []
    assert [finding.wrong for finding in await found(sealed.services, head)] == [Wrong.head_missing]
    await seal_all(sealed.services)
    assert [finding.wrong for finding in await found(sealed.services, head)] == [Wrong.head_differs]


async def test_writers_wait_neither_for_each_other_nor_for_the_sealer(api: Api) -> None:
    await seal_all(api.services)
    async with api.store.begin() as one, api.store.begin() as other:
        for tx in (one, other):
            await tx.conn.execute("SET LOCAL statement_timeout = '5s'")
        await one.conn.execute(ACT, ("night", "rita"))
        async with api.store.begin() as third:
            assert await seal_rows(third.conn, 500, pause_seconds=0) == 0, "nothing is committed"
            # Sealing stands open while both of them write.
            await other.conn.execute(ACT, ("night", "ravi"))
            await one.conn.execute(ACT, ("day", "rita"))
    await seal_all(api.services)
    assert await found(api.services) == []


async def test_what_is_committed_late_is_sealed_later(api: Api) -> None:
    before = await seal_all(api.services)
    async with api.store.begin() as slow:
        await slow.conn.execute(ACT, ("night", "rita"))
        async with api.store.begin() as quick:
            await quick.conn.execute(ACT, ("night", "ravi"))
        async with api.store.begin() as sealing:
            assert await seal_rows(sealing.conn, 500, pause_seconds=0) == 0, "the slow one may still precede it"
    head = await seal_all(api.services)
    assert head.number > before.number
    assert await found(api.services, before) == []


async def test_a_row_with_a_lower_position_in_a_later_seal(api: Api) -> None:
    """Positions are given before the commit, transactions in the order of their first write."""
    await seal_all(api.services)
    async with api.store.begin() as early:
        await early.conn.execute("SELECT nextval(pg_get_serial_sequence('signoff.audit', 'position'))")
        async with api.store.begin() as other:
            await other.conn.execute(ACT, ("night", "ravi"))
        await seal_all(api.services)
        await early.conn.execute(ACT, ("night", "rita"))
    await seal_all(api.services)
    assert await found(api.services) == []


async def test_only_one_seals_at_a_time(api: Api) -> None:
    async with api.store.begin() as one, api.store.begin() as other:

        async def some() -> bool:
            return await seal_rows(one.conn, 2, pause_seconds=0) == 2

        assert await until(some)
        assert await seal_rows(other.conn, 2, pause_seconds=0) == 0
    head = await seal_all(api.services)
    assert await found(api.services, head) == []


async def test_the_dispatcher_seals_and_rests_between_small_seals(api: Api) -> None:
    activity = SealAudit(api.store)

    async def sealed() -> bool:
        assert not await activity.step()
        async with api.store.connection() as conn:
            return (await unsealed(conn)).rows == 0

    assert await until(sealed)
    async with api.store.connection() as conn:
        await conn.execute(ACT, ("night", "rita"))
    async with api.store.begin() as tx:
        assert await seal_rows(tx.conn, 500, pause_seconds=60) == 0
        assert (await unsealed(tx.conn)).rows == 1


async def test_in_another_server_transactions_are_counted_anew(api: Api, database_url: str) -> None:
    """As after a dump was restored: what was written there has transactions that are yet to come here."""
    before = await seal_all(api.services)
    job = await approved(api)
    ahead = "(({}::text)::bigint + 1000000000)::text::xid8"
    as_owner(
        database_url,
        f"UPDATE signoff.audit SET tx = {ahead.format('tx')}",
        f"UPDATE signoff.audit_seals SET last_tx = {ahead.format('last_tx')}",
    )
    await seal_all(api.services)
    await executed(api.store, job.job_id)
    await approved(api)
    head = await seal_all(api.services)
    assert head.number > before.number + 1
    assert await found(api.services, before) == []
    as_owner(database_url, f"DELETE FROM signoff.audit WHERE position IN (1, {LAST})")
    assert [finding.wrong for finding in await found(api.services)] == [Wrong.row_removed] * 2
