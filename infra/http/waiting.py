"""`Prefer: wait`: an answer when the job has something to tell, without holding a connection meanwhile."""

from __future__ import annotations

import asyncio
from uuid import UUID

from fastapi import Request

from signoff.domain.jobs import ENDED, PARKED
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.postgres.views_jobs import job_status

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 0.25
SETTLED = ENDED | PARKED


async def wait_for_job(
    store: PostgresStore, job_id: UUID, seconds: float, request: Request, stopping: asyncio.Event
) -> None:
    """Returns when the job has ended or waits for a person, the time is up, the client has gone, or we are stopping."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pause = FIRST_PAUSE
    while not await _is_settled(store, job_id) and not stopping.is_set():
        left = deadline - loop.time()
        if left <= 0 or await request.is_disconnected():
            return
        await _sleep(stopping, min(pause, left))
        pause = min(pause * 1.25, LONGEST_PAUSE)


async def _is_settled(store: PostgresStore, job_id: UUID) -> bool:
    async with store.connection() as conn:
        return await job_status(conn, job_id) in SETTLED


async def _sleep(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return
