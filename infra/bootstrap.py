"""The one place where things are put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg_pool import PoolTimeout

from signoff.domain.errors import StoreUnavailable
from signoff.domain.ports import Hints
from signoff.infra.addresses import Addresses
from signoff.infra.hints import CeleryHints
from signoff.infra.postgres.pool import Pool, make_pool
from signoff.infra.postgres.schema import require_current_schema
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.services import Services
from signoff.infra.settings import Settings
from signoff.infra.telemetry.tracing import Tracing, start_tracing

__all__ = ["Services", "open_services"]

OPEN_SECONDS = 5.0


@asynccontextmanager
async def open_services(
    settings: Settings, addresses: Addresses, *, hints: Hints | None = None, pool_size: int | None = None
) -> AsyncIterator[Services]:
    """Everything that a process needs, on the running loop; closed at the end. `hints` of the caller stay open.

    Raises:
        StoreUnavailable, SchemaOutdated, SettingsInvalid.
    """
    size = pool_size or settings.database_pool_size
    async with _tracing(settings) as tracing, _open_pool(addresses.database_url, size) as pool:
        store = PostgresStore(pool)
        async with store.connection() as conn:
            await require_current_schema(conn)
        if hints is not None:
            yield Services(settings, pool, store, hints, tracing)
            return
        celery = CeleryHints(addresses.redis_url, settings.publish_timeout_seconds)
        try:
            yield Services(settings, pool, store, celery, tracing)
        finally:
            await asyncio.to_thread(celery.close)


@asynccontextmanager
async def _tracing(settings: Settings) -> AsyncIterator[Tracing]:
    tracing = start_tracing(settings)
    try:
        yield tracing
    finally:
        if tracing.is_on:
            await asyncio.to_thread(tracing.close)


@asynccontextmanager
async def _open_pool(database_url: str, size: int) -> AsyncIterator[Pool]:
    pool = make_pool(database_url, size)
    try:
        await pool.open(wait=True, timeout=OPEN_SECONDS)
    except PoolTimeout as error:
        await pool.close()
        raise StoreUnavailable(f"the database could not be reached within {OPEN_SECONDS:.0f} s") from error
    try:
        yield pool
    finally:
        await pool.close()
