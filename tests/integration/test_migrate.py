"""`signoff migrate`: one schema, whoever runs it and however often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from signoff.domain.errors import SchemaOutdated
from signoff.infra.postgres.migrate import head_revision, migrate
from signoff.infra.postgres.pool import make_pool
from signoff.infra.postgres.schema import REVISION, require_current_schema
from tests.support.databases import fresh_database

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty_database(postgres_server: object) -> Iterator[str]:
    with fresh_database(postgres_server.url) as url:  # type: ignore[attr-defined]
        yield url


def test_the_code_asks_for_the_newest_migration() -> None:
    assert head_revision() == REVISION


async def test_many_processes_may_migrate_at_once(empty_database: str) -> None:
    await asyncio.gather(*(migrate(empty_database) for _ in range(4)))
    await migrate(empty_database)
    assert await _is_current(empty_database)


async def test_a_process_refuses_a_database_that_is_not_migrated(empty_database: str) -> None:
    with pytest.raises(SchemaOutdated, match="signoff migrate"):
        await _is_current(empty_database)


async def test_an_index_that_an_interrupted_build_left_invalid_is_reported(empty_database: str) -> None:
    await migrate(empty_database)
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as conn:
        await conn.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'langgraph.checkpoints_thread_id_idx'::regclass"
        )
    with pytest.raises(SchemaOutdated, match="checkpoints_thread_id_idx"):
        await migrate(empty_database)


async def test_a_newer_database_is_worked_on_as_far_as_it_says(empty_database: str) -> None:
    await migrate(empty_database)
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as conn:
        await conn.execute("UPDATE signoff.schema_version SET version_num = '9999'")
        assert await _is_current(empty_database)
        assert await migrate(empty_database) == "9999"

        await conn.execute("UPDATE signoff.schema_compatibility SET oldest = '9998'")
        with pytest.raises(SchemaOutdated, match="older than the database takes"):
            await _is_current(empty_database)
        with pytest.raises(SchemaOutdated, match="older than the database takes"):
            await migrate(empty_database)


async def _is_current(url: str) -> bool:
    pool = make_pool(url, 1)
    await pool.open()
    try:
        async with pool.connection() as conn:
            await require_current_schema(conn)
    finally:
        await pool.close()
    return True
