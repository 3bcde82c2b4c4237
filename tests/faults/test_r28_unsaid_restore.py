"""R28: a backup was restored and nobody has said so. It is noticed where Redis was not lost too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from signoff.domain.errors import DatabaseRestored, InvalidRequest
from signoff.infra.postgres.restoring import WATCH, mark_restored
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.restore_watch import WatchDatabase, require_not_restored
from tests.faults.test_r28_restored_backup import opened
from tests.support.api import open_store
from tests.support.audit import seal_all
from tests.support.backups import back_up, restored
from tests.support.databases import ConfiguredServer
from tests.support.parked import parked

pytestmark = pytest.mark.anyio

PAUSES = "SELECT ended_at IS NULL AS active FROM signoff.pauses WHERE created_by = %s"


async def pauses(store: PostgresStore) -> list[bool]:
    async with store.connection() as conn:
        return [row["active"] for row in await (await conn.execute(PAUSES, (WATCH,))).fetchall()]


async def watch(store: PostgresStore, redis_url: str) -> None:
    watching = WatchDatabase(store, redis_url, 2.0)
    try:
        await watching.step()
    finally:
        await watching.close()


async def start(store: PostgresStore, redis_url: str) -> None:
    async with store.connection() as conn:
        await require_not_restored(conn, redis_url, 2.0)


async def test_nothing_starts_and_nothing_leaves_until_it_is_said(
    database_url: str, redis_url: str, postgres_server: Any, tmp_path: Path
) -> None:
    if isinstance(postgres_server, ConfiguredServer):
        pytest.skip("pg_dump may be older than the server that was configured")
    async with open_store(database_url) as services:
        await seal_all(services)
        backup = back_up(database_url, tmp_path)
        await parked(services.store)
        await seal_all(services)
        for _ in range(2):
            await watch(services.store, redis_url)
            await start(services.store, redis_url)
        assert await pauses(services.store) == []
    with restored(backup, postgres_server.url) as url:
        async with opened(url) as store:
            with pytest.raises(DatabaseRestored, match="signoff restored"):
                await start(store, redis_url)
            for _ in range(2):
                await watch(store, redis_url)
            assert await pauses(store) == [True]
            async with store.begin() as tx:
                await mark_restored(tx.conn, await tx.now(), "the disk is gone", "olga")
            await start(store, redis_url)
            await watch(store, redis_url)
            assert await pauses(store) == [False]


async def test_without_redis_nothing_is_known(database_url: str) -> None:
    async with opened(database_url) as store:
        await start(store, "redis://127.0.0.1:1")


async def test_a_restore_has_a_reason_and_is_of_the_past(database_url: str) -> None:
    async with opened(database_url) as store:
        async with store.begin() as tx:
            now = await tx.now()
            with pytest.raises(InvalidRequest, match="reason"):
                await mark_restored(tx.conn, now, " ", "olga")
            with pytest.raises(InvalidRequest, match="time to come"):
                await mark_restored(tx.conn, now.replace(year=now.year + 1), "the disk is gone", "olga")
