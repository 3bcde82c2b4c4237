"""The same conversation through LangGraph's saver and through ours, whatever is killed on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command, StateSnapshot

from signoff.domain.errors import LeaseLost
from signoff.infra.postgres.checkpoints import Head, RunSaver, needs_every_checkpoint
from signoff.infra.postgres.pool import Pool
from tests.support.saver_graphs import Compiled, answer_to, shown
from tests.support.savers import load_head

View = dict[str, Any]


class Killed(Exception):
    """A flush's transaction was rolled back."""


class StockWorld:
    """LangGraph's own saver, which commits every step."""

    def __init__(self, pool: Pool, thread_id: str, graph: Compiled) -> None:
        self._thread_id = thread_id
        self.graph = graph.copy({"checkpointer": AsyncPostgresSaver(pool)})
        self._jobs: set[UUID] = set()
        self.parked_at: list[str] = []

    async def begin(self, job_id: UUID) -> bool:
        """Readies the graph; whether the job has begun before."""
        begun = job_id in self._jobs
        self._jobs.add(job_id)
        return begun

    async def end(self, parked: bool) -> None: ...

    def config(self, **configurable: Any) -> Any:
        return {"configurable": {"thread_id": self._thread_id, **configurable}}


class FlushingSaver(RunSaver):
    """Calls `between` after every put, where a real run may flush."""

    between: Callable[[FlushingSaver], Awaitable[None]]

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        result = await super().aput(*args, **kwargs)
        await self.between(self)
        return result

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await super().aput_writes(*args, **kwargs)
        await self.between(self)


class OurWorld:
    """A new saver for every run, from what the thread's row says; `flushes` decides where a run flushes."""

    def __init__(self, pool: Pool, thread_id: str, graph: Compiled, flushes: Callable[[], bool]) -> None:
        self._pool = pool
        self._thread_id = thread_id
        self._bare = graph
        self._flushes = flushes
        self.parked_at: list[str] = []
        self.kill_at = -1  # the flush that is rolled back
        self.flushed = 0

    async def begin(self, job_id: UUID) -> bool:
        head = await load_head(self._pool, self._thread_id)
        self._renew(job_id, head)
        return head is not None and head.job_id == job_id

    def _renew(self, job_id: UUID, head: Head | None) -> None:
        self.saver = FlushingSaver(
            self._pool,
            thread_id=self._thread_id,
            job_id=job_id,
            head=head,
            keep_every_checkpoint=needs_every_checkpoint(self._bare),
        )
        self.saver.between = self._between
        self.graph = self._bare.copy({"checkpointer": self.saver})

    async def _between(self, saver: FlushingSaver) -> None:
        if self._flushes():
            await self._flush(saver, parked=False)

    async def _flush(self, saver: FlushingSaver, *, parked: bool) -> None:
        async with saver.flushing() as flush, self._pool.connection() as conn, conn.transaction():
            await flush.write(conn, parked=parked)
            self.flushed += 1
            if self.flushed == self.kill_at:
                raise Killed

    async def end(self, parked: bool) -> None:
        await self._flush(self.saver, parked=parked)

    def config(self, **configurable: Any) -> Any:
        return {"configurable": {"thread_id": self._thread_id, **configurable}}


World = StockWorld | OurWorld


async def view(world: World) -> View:
    return _view(await world.graph.aget_state(world.config(), subgraphs=True))


def _view(state: StateSnapshot) -> View:
    metadata = state.metadata or {}
    return {
        "values": shown(state.values),
        "next": state.next,
        "step": metadata.get("step"),
        "source": metadata.get("source"),
        "interrupts": [shown(i.value) for i in state.interrupts],
        "tasks": [
            (
                t.name,
                [shown(i.value) for i in t.interrupts],
                _view(t.state) if isinstance(t.state, StateSnapshot) else None,
            )
            for t in state.tasks
        ],
    }


async def answer(world: World, state: StateSnapshot, *, one_at_a_time: bool) -> Any:
    pending = state.interrupts[:1] if one_at_a_time else state.interrupts
    resume: Command[Any] = Command(resume={i.id: answer_to(i.value) for i in pending})
    return await world.graph.ainvoke(resume, world.config(__pregel_strict_resume=True), durability="sync")


async def begin(world: World, turn: Any) -> list[View]:
    """Runs a turn to its first stop."""
    job_id = uuid4()
    await world.begin(job_id)
    await world.graph.ainvoke(turn, world.config(job_id=str(job_id)), durability="sync")
    return [await stop(world, job_id)]


async def converse(world: World, turns: list[Any], *, one_at_a_time: bool = False) -> list[View]:
    """Runs the turns to their ends, starting anew from the last commit after each kill. The views at every stop."""
    seen: list[View] = []
    for turn in turns:
        await _one_job(world, turn, uuid4(), one_at_a_time, seen)
    return seen


async def fork(world: World, checkpoint_id: str) -> list[View]:
    """Runs on from an older checkpoint, to the end."""
    job_id, seen = uuid4(), list[View]()
    await world.begin(job_id)
    # Not its subgraph calls: LangGraph shows where they ended later, ours where they stood when it was parked.
    seen.append(_view(await world.graph.aget_state(world.config(checkpoint_id=checkpoint_id))))
    await world.graph.ainvoke(None, world.config(checkpoint_id=checkpoint_id), durability="sync")
    seen.append(await stop(world, job_id))
    await _run_on(world, job_id, False, seen)
    return seen


async def answer_again(world: World, checkpoint_id: str) -> list[View]:
    """Resumes from an older checkpoint with other answers, to the end."""
    job_id, seen = uuid4(), list[View]()
    await world.begin(job_id)
    state = await world.graph.aget_state(world.config(checkpoint_id=checkpoint_id))
    resume: Command[Any] = Command(resume={i.id: answer_to(i.value, "again ") for i in state.interrupts})
    await world.graph.ainvoke(resume, world.config(checkpoint_id=checkpoint_id), durability="sync")
    seen.append(await stop(world, job_id))
    await _run_on(world, job_id, False, seen)
    return seen


async def revise(world: World) -> list[View]:
    """Changes the state of a parked run, and of the subgraph that it waits in, and runs on to the end."""
    job_id, seen = uuid4(), list[View]()
    for place in await _places(world):
        await world.begin(job_id)
        await world.graph.aupdate_state(place, {"log": ["revised"]})
        seen.append(await stop(world, job_id))
    await _run_on(world, job_id, False, seen)
    return seen


async def _places(world: World) -> list[Any]:
    state = await world.graph.aget_state(world.config())
    inner = [task.state for task in state.tasks if isinstance(task.state, dict)]
    return [*inner, world.config()]


async def _one_job(world: World, turn: Any, job_id: UUID, one_at_a_time: bool, seen: list[View]) -> None:
    while not await world.begin(job_id):
        try:
            await world.graph.ainvoke(turn, world.config(job_id=str(job_id)), durability="sync")
            seen.append(await stop(world, job_id))
        except (Killed, LeaseLost):
            _require_dead(world)
    await _run_on(world, job_id, one_at_a_time, seen)


async def _run_on(world: World, job_id: UUID, one_at_a_time: bool, seen: list[View]) -> None:
    for _ in range(60):
        await world.begin(job_id)
        state = await world.graph.aget_state(world.config())
        if not state.tasks:  # `next` leaves out those that have finished in a step that has not
            return
        try:
            if state.interrupts:
                await answer(world, state, one_at_a_time=one_at_a_time)
            else:
                await world.graph.ainvoke(None, world.config(), durability="sync")
            seen.append(await stop(world, job_id))
        except (Killed, LeaseLost):
            _require_dead(world)
    raise AssertionError("the job does not end")


def _require_dead(world: World) -> None:
    assert isinstance(world, OurWorld)
    assert world.saver.dead


async def stop(world: World, job_id: UUID) -> View:
    """Flushes, and requires that a new saver reads what this one holds, before and after the flush."""
    state = await world.graph.aget_state(world.config(), subgraphs=True)
    held = _view(state)
    await world.end(parked=bool(state.interrupts))
    if state.interrupts:
        world.parked_at.append(state.config["configurable"]["checkpoint_id"])
    assert await view(world) == held
    await world.begin(job_id)
    assert await view(world) == held
    return held
