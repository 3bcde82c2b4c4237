"""The dispatcher as a process sends to subscriptions, without anybody's help."""

from __future__ import annotations

import asyncio

import pytest

from signoff.infra.addresses import Addresses
from signoff.infra.settings import Settings
from signoff.workers.dispatching import run_dispatcher
from tests.support.eventually import eventually
from tests.support.outgoing import open_outgoing

pytestmark = pytest.mark.anyio


async def test_a_dispatcher_sends(database_url: str, redis_url: str) -> None:
    async with open_outgoing(database_url) as out:
        await out.subscribe()
        job_id = await out.job()
        stopping = asyncio.Event()
        running = asyncio.create_task(run_dispatcher(Settings(), Addresses(database_url, redis_url), stopping))
        try:
            await out.tell("one", "two", job_id=job_id)
            await eventually(lambda: len(out.receiver.log) == 3)
        finally:
            stopping.set()
            await running
    assert out.subjects() == [f"jobs/{job_id}", "one", "two"]
    assert len(set(out.receiver.ids())) == 3
