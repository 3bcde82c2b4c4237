"""LangGraph's own test suite for savers, on ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.pool import Pool
from tests.support.savers import ensure_thread, flush, open_pool, saver_of

pytestmark = pytest.mark.anyio


class SaverOfAnyThread(AsyncPostgresSaver):
    """The suite uses one saver for many threads; a run's saver has one. This one makes a saver for each."""

    def __init__(self, pool: Pool, *, flushes: bool) -> None:
        super().__init__(pool)
        self._pool = pool
        self._flushes = flushes
        self._savers: dict[str, RunSaver] = {}

    async def _saver(self, config: Any) -> RunSaver:
        """With flushes a new one every time, from what the last flush recorded; without, always the same."""
        thread_id = str(config["configurable"]["thread_id"])
        await ensure_thread(self._pool, thread_id)
        if self._flushes or thread_id not in self._savers:
            self._savers[thread_id] = await saver_of(self._pool, thread_id, keep_every_checkpoint=True)
        return self._savers[thread_id]

    async def _flush(self, saver: RunSaver) -> None:
        if self._flushes:
            await flush(saver, self._pool)

    async def aput(self, config: RunnableConfig, *args: Any) -> RunnableConfig:
        saver = await self._saver(config)
        result = await saver.aput(config, *args)
        await self._flush(saver)
        return result

    async def aput_writes(self, config: RunnableConfig, *args: Any, **kwargs: Any) -> None:
        saver = await self._saver(config)
        await saver.aput_writes(config, *args, **kwargs)
        await self._flush(saver)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await (await self._saver(config)).aget_tuple(config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        if config is None:
            for saver in self._savers.values():
                await flush(saver, self._pool)
        async for found in (await self._saver(config or _ANY)).alist(config, **options):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        await (await self._saver({"configurable": {"thread_id": thread_id}})).adelete_thread(thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            saver = await self._saver({"configurable": {"thread_id": thread_id}})
            await flush(saver, self._pool)
            await saver.aprune([thread_id], strategy=strategy)
        if strategy not in ("keep_latest", "delete"):
            await super().aprune(thread_ids, strategy=strategy)


_ANY = {"configurable": {"thread_id": f"other-{uuid4()}"}}


@pytest.mark.parametrize("flushes", [True, False], ids=["flushed after every call", "held in memory"])
async def test_it_conforms(database_url: str, flushes: bool) -> None:
    async with open_pool(database_url) as pool:

        @checkpointer_test(name=f"RunSaver {flushes}")
        async def savers() -> AsyncGenerator[AsyncPostgresSaver, None]:
            yield SaverOfAnyThread(pool, flushes=flushes)

        report = await validate(savers)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert report.passed_all_base()
    assert report.results["prune"].passed
    assert sum(result.tests_passed for result in report.results.values()) >= 55


async def test_other_threads_go_to_the_database_at_once(database_url: str) -> None:
    async with open_pool(database_url) as pool:

        @checkpointer_test(name="RunSaver of another thread")
        async def savers() -> AsyncGenerator[RunSaver, None]:
            yield RunSaver(pool, thread_id="another", job_id=uuid4(), head=None)

        report = await validate(savers)
    assert {name: r.failures for name, r in report.results.items() if r.failures} == {}
