"""Checkpoints that are written inside our own transaction, together with what they belong to and under its fence."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
)
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from signoff.infra.postgres.checkpoint_buffer import Buffer, Recorded
from signoff.infra.postgres.checkpoint_plan import Plan, forget, plan_flush
from signoff.infra.postgres.checkpoint_reads import Reader, matcher
from signoff.infra.postgres.checkpoint_rows import dump_checkpoint, dump_writes
from signoff.infra.postgres.checkpoint_sql import FORGET_HEADS, keep_only, refuse_deltas, write_plan


@dataclass(frozen=True, slots=True)
class Head:
    """A thread's newest checkpoint, as its row names it. Never the largest id: ids carry a worker's clock.

    `subgraph_heads` is the saver's own: the newest checkpoint of each namespace that is still in use, and under
    `<namespace>:before` the one that a fork of the head starts from, of a subgraph whose state outlives its calls.
    """

    checkpoint_id: str
    job_id: UUID
    parked: bool
    subgraph_heads: Mapping[str, str]


class Flush:
    """What one flush writes. Decided when it begins: what the run puts later waits for the next."""

    def __init__(self, buffer: Buffer, thread_id: str, plan: Plan) -> None:
        self._buffer = buffer
        self._thread_id = thread_id
        self.plan = plan
        self.written: bool | None = None  # as parked, or not

    @property
    def empty(self) -> bool:
        return self.plan.empty

    @property
    def head_checkpoint_id(self) -> str | None:
        return self.plan.head.checkpoint_id

    async def write(self, conn: AsyncConnection[DictRow], *, parked: bool) -> None:
        """Writes into the open transaction of `conn`, which has locked the job's row by its fence.

        Raises:
            LeaseLost: the thread is gone.
        """
        recorded = self.plan.recorded(parked)
        if not self.plan.empty or recorded != self._buffer.recorded:
            await write_plan(conn, self._thread_id, self.plan, recorded)
        self.written = parked


class RunSaver(AsyncPostgresSaver):
    """One run's checkpoints, held in memory until a flush.

    Between flushes the database keeps the state of the last one. A flush writes the newest checkpoint of the graph
    and of each subgraph call that is not over, and deletes what it supersedes, except what a run was parked at.
    With `keep_every_checkpoint`, and for graphs that count deltas, it writes all of them and deletes nothing.

    Checkpoints of other threads go to the database at once, as LangGraph's saver does it.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection[DictRow]],
        *,
        thread_id: str,
        job_id: UUID,
        head: Head | None,
        keep_every_checkpoint: bool = False,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(pool, serde=serde)
        recorded = (
            Recorded()
            if head is None
            else Recorded(head.checkpoint_id, head.job_id, head.parked, dict(head.subgraph_heads))
        )
        self._thread_id = thread_id
        # LangGraph may copy the saver, to add types to its serializer: the copies share this.
        self._buffer = Buffer(job_id, recorded, keep_every_checkpoint)

    @property
    def dead(self) -> bool:
        """A flush did not commit, as far as we know: nothing more can be stored."""
        return self._buffer.dead

    @asynccontextmanager
    async def flushing(self) -> AsyncIterator[Flush]:
        """The body runs the transaction. If it ends by an exception, the saver is dead.

        If it ends without one and has called `write`, the transaction counts as committed: roll back by an exception
        that leaves this block, not by `psycopg.Rollback`.

        Raises:
            LeaseLost: the saver is dead.
        """
        async with self._buffer.lock:
            self._buffer.require_alive()
            flush = Flush(self._buffer, self._thread_id, plan_flush(self._buffer))
            self._buffer.epoch += 1
            try:
                yield flush
            except BaseException:
                self._buffer.dead = True
                raise
            if flush.written is not None:
                forget(self._buffer, flush.plan, flush.written)

    # --- LangGraph's side ---------------------------------------------------------------------------------

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Like LangGraph's, and in order after it, at less than half the length: a checkpoint holds it twenty times."""
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:012}.{random.getrandbits(32):08x}"

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        if not self._is_ours(config):
            return await super().aput(config, checkpoint, metadata, new_versions)
        self._buffer.require_alive()
        row, blobs = dump_checkpoint(self.serde, config, checkpoint, metadata, new_versions)
        self._buffer.put(row, blobs)
        place = {"thread_id": self._thread_id, "checkpoint_ns": row.namespace, "checkpoint_id": row.id}
        return {"configurable": place}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        if not self._is_ours(config):
            await super().aput_writes(config, writes, task_id, task_path)
            return
        self._buffer.require_alive()
        place = (config["configurable"].get("checkpoint_ns", ""), config["configurable"]["checkpoint_id"])
        self._buffer.put_writes(place, dump_writes(self.serde, writes, task_id, task_path))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if not self._is_ours(config):
            return await super().aget_tuple(config)
        namespace = config["configurable"].get("checkpoint_ns", "")
        return await self._reader().get(namespace, get_checkpoint_id(config))

    async def writes_of_head(self) -> Sequence[PendingWrite]:
        """What the thread's stored head has pending. For the start of a run, before anything is put."""
        return await self._reader().writes_of_head()

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        if config is not None and not self._is_ours(config):
            async for found in super().alist(config, filter=filter, before=before, limit=limit):
                yield found
            return
        where, params = self._search_where(config, filter, before)
        query = f"{self.SELECT_SQL}{where} ORDER BY checkpoint_id DESC{' LIMIT %s' if limit is not None else ''}"
        place = {} if config is None else config["configurable"]
        matches = matcher(
            place.get("checkpoint_ns"),
            place.get("checkpoint_id"),
            None if before is None else get_checkpoint_id(before),
            filter,
        )
        if limit is not None:
            params.append(limit)
        for found in await self._reader().list(query, params, limit, matches):
            yield found

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        if not self._is_ours(config) or (target := await self.aget_tuple(config)) is None:
            return await super().aget_delta_channel_history(config=config, channels=channels)
        place = target.config["configurable"]
        if self._buffer.row((place["checkpoint_ns"], place["checkpoint_id"])) is None:
            return await super().aget_delta_channel_history(config=target.config, channels=channels)
        return await self._reader().delta_history(target, channels, super().aget_delta_channel_history)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._forget_heads([str(thread_id)])
        await super().adelete_thread(thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Of the run's own thread, `keep_latest` keeps the heads that the last flush recorded."""
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids must be a sequence of thread IDs, not a str")
        others = [i for i in thread_ids if strategy != "keep_latest" or str(i) != self._thread_id]
        if strategy == "delete":
            await self._forget_heads(others)
        await super().aprune(others, strategy=strategy)
        if len(others) < len(thread_ids):
            await self._keep_heads()

    async def _forget_heads(self, thread_ids: Sequence[str]) -> None:
        """First the heads, then the rows: rows without a head are nobody's, a head without rows is an error."""
        async with self._buffer.lock, self._cursor() as cursor:
            if self._thread_id in thread_ids:
                self._buffer.clear()
            await cursor.execute(FORGET_HEADS, (list(thread_ids),))

    async def _keep_heads(self) -> None:
        async with self._buffer.lock, self._cursor() as cursor:
            await refuse_deltas(cursor, self._thread_id)
            await keep_only(cursor, self._thread_id, self._buffer.keep_only_heads())

    def _is_ours(self, config: RunnableConfig) -> bool:
        return str(config["configurable"]["thread_id"]) == self._thread_id

    def _reader(self) -> Reader:
        return Reader(self._buffer, self._thread_id, self.serde, self._cursor)


def needs_every_checkpoint(graph: CompiledStateGraph[Any, Any, Any, Any]) -> bool:
    """Whether the graph or a subgraph of it has a channel that is rebuilt from the writes of earlier checkpoints."""
    graphs = [graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))]
    channels = (channel for g in graphs if isinstance(g, Pregel) for channel in g.channels.values())
    return any(isinstance(channel, DeltaChannel) for channel in channels)
