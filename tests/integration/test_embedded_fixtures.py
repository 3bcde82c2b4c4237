"""The fixtures that every other test stands on."""

from __future__ import annotations

import psycopg
import pytest
import redis

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("run", ["first", "second"])
async def test_each_test_has_a_migrated_database_of_its_own(database_url: str, run: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        schemas = await (await connection.execute("SELECT nspname FROM pg_namespace")).fetchall()
        await connection.execute("CREATE TABLE left_behind ()")

    assert ("signoff",) in schemas


@pytest.mark.parametrize("run", ["first", "second"])
async def test_each_test_has_an_empty_redis(redis_url: str, run: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("left", "behind")
