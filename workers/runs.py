"""Runs: claim a job, carry it on until it ends or pauses, and leave it in one transaction with its checkpoint."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from signoff.domain import running
from signoff.domain.canonical import scrub
from signoff.domain.errors import CannotResume, DigestMismatch, LeaseLost, SignoffError, StoreUnavailable
from signoff.domain.jobs import Job, JobStatus
from signoff.domain.pauses import Pause, ReviewPause, read_pause
from signoff.domain.ports import Hints
from signoff.domain.standing import StandingApproval
from signoff.infra.postgres import leases
from signoff.infra.postgres.checkpoints import RunSaver
from signoff.infra.postgres.leases import Claim, Lease
from signoff.infra.postgres.store import PostgresStore, PostgresTransaction
from signoff.infra.postgres.tallies import FENCE_REJECTIONS
from signoff.infra.telemetry.tracing import NO_TRACING, Tracing
from signoff.workers import carried_over
from signoff.workers.answered import Answered
from signoff.workers.calls import Call
from signoff.workers.counting import count_if_possible
from signoff.workers.effects_in_nodes import effects_by
from signoff.workers.executor import Executor, JobCancelled, PolicyOutdated, Run
from signoff.workers.faults import Faults, Point
from signoff.workers.graph import ModelFailed, RunContext, repeated_too_often, repeats_of
from signoff.workers.guarding import Guard, Stop, uncancel
from signoff.workers.heartbeat import Heartbeat, Held
from signoff.workers.messages import open_calls
from signoff.workers.observing import observed_run
from signoff.workers.resuming import Start, find_start, read_head
from signoff.workers.running_effects import EffectsOfRun
from signoff.workers.serving import Graph, Served
from signoff.workers.shielding import to_the_end

log = logging.getLogger(__name__)

STRICT_RESUME = "__pregel_strict_resume"
MOST_JOBS_PER_HINT = 200
TIME_FOR_A_NEWER_WORKER = timedelta(seconds=5)
FIRST_RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 120.0
MOST_ERROR_CHARACTERS = 2000

Leave = Callable[[PostgresTransaction, Job, str | None], Awaitable[UUID | None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How a worker claims: for how long at a time, and how often a job may be tried without a park."""

    lease: timedelta
    max_tries: int
    environment: str
    drain_seconds: float


class Runner:
    """Runs jobs on the process's event loop, any number side by side."""

    def __init__(
        self,
        store: PostgresStore,
        agents: Mapping[str, Served],
        heartbeat: Heartbeat,
        hints: Hints,
        limits: Limits,
        worker: str,
        faults: Faults,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._tracing = tracing
        self._store = store
        self._agents = agents
        self._heartbeat = heartbeat
        self._hints = hints
        self._limits = limits
        self._worker = worker
        self._faults = faults
        self._active: set[_Active] = set()
        self._draining = False

    def drain(self) -> None:
        """Claims nothing more; each run stops at its next step and gives its job back. Safe from any thread.

        A run that has not stopped after `drain_seconds` is cut off where it is.
        """
        if self._draining:
            return
        self._draining = True
        for active in list(self._active):
            self._drain(active)

    def _drain(self, active: _Active) -> None:
        active.control.request_drain()
        active.guard.stop_after(self._limits.drain_seconds, Stop.drained)

    async def run_hinted(self, job_id: UUID) -> None:
        """Runs the hinted job, if it is due, and then due jobs of the same agent until there are none.

        A hint that comes too late is as good as any other: hints are left out where the queue is long, so the job that
        is due now may have none of its own.
        """
        claim = None if self._draining else await self._claim(job_id=job_id)
        for _ in range(MOST_JOBS_PER_HINT):
            claim = claim or (None if self._draining else await self._claim(beside=job_id))
            if claim is None:
                return
            await self.run(claim)
            claim = None

    async def run(self, claim: Claim) -> None:
        """Carries the job on under its lease. Never raises for what can happen to a run."""
        async with observed_run(self._tracing, self._store, claim, self._worker):
            await self._run(claim)

    async def _run(self, claim: Claim) -> None:
        served = self._agents.get(claim.job.agent)
        if served is None:
            await self._give_back(claim.job, "no_such_agent", f"this worker does not serve {claim.job.agent!r}")
            return
        await self._faults.reach(Point.claimed)
        task = asyncio.current_task()
        assert task is not None
        guard = Guard(task, claimed_at=claim.asked_at, lease_seconds=self._limits.lease.total_seconds())
        lease = Lease(claim.job.id, claim.job.fence, served.wall_clock_seconds)
        self._heartbeat.add(Held(lease, guard))
        active = _Active(RunControl(), guard)
        self._active.add(active)
        if self._draining:
            # Told while this job was being claimed.
            self._drain(active)
        try:
            await _RunOf(self, served, claim, active).carry_on()
        except (LeaseLost, StoreUnavailable) as error:
            log.warning(
                "run abandoned", extra={"job_id": str(claim.job.id), "fence": claim.job.fence, "error": str(error)}
            )
            if isinstance(error, LeaseLost):
                await count_if_possible(self._store, FENCE_REJECTIONS, claim.job.agent)
        finally:
            guard.end()
            self._active.discard(active)
            self._heartbeat.remove(lease)

    async def _claim(self, *, job_id: UUID | None = None, beside: UUID | None = None) -> Claim | None:
        async with self._store.connection() as conn:
            return await leases.claim(
                conn,
                worker=self._worker,
                lease=self._limits.lease,
                max_tries=self._limits.max_tries,
                job_id=job_id,
                beside=beside,
            )

    async def _give_back(self, job: Job, code: str, message: str) -> None:
        async with self._store.begin() as tx:
            await tx.jobs.fence(job)
            await running.release(tx, job, run_in=timedelta(seconds=5), error=(code, message))


@dataclass(frozen=True, slots=True, eq=False)
class _Active:
    """The two ways to stop a run: at its next step, and at once."""

    control: RunControl
    guard: Guard


class _RunOf:
    """One run of one job."""

    def __init__(self, runner: Runner, served: Served, claim: Claim, active: _Active) -> None:
        self._runner = runner
        self._store = runner._store
        self._faults = runner._faults
        self._served = served
        self._claim = claim
        self._job = claim.job
        self._control = active.control
        self._guard = active.guard
        self._answered = Answered(self._job.thread_id)
        self._executor: Executor | None = None
        self._saver = RunSaver(
            self._store.pool,
            thread_id=self._job.thread_id,
            job_id=self._job.id,
            head=claim.head,
            keep_every_checkpoint=served.keeps_every_checkpoint,
        )
        self._graph: Graph = served.graph_for(self._saver)
        self._config: Any = {
            "configurable": {"thread_id": self._job.thread_id, "job_id": str(self._job.id), STRICT_RESUME: True},
            "recursion_limit": 10 + 6 * served.max_rounds,
        }

    async def carry_on(self) -> None:
        """Ends in exactly one of: parked, finished, failed, cancelled, given back, abandoned."""
        try:
            await self._invoke()
        except asyncio.CancelledError:
            if self._guard.reason is None:
                raise
            uncancel()
            await self._stopped(self._guard.reason)
        except JobCancelled:
            await self._leave_unflushed(running.cancel)
        except PolicyOutdated:
            await self._leave_unflushed(_left_to_newer)
        except GraphDrained:
            await self._leave(self._drained, parked=False)
        except (CannotResume, DigestMismatch) as error:
            await self._leave_unflushed(_holding(error.code, error.message))
        except (LeaseLost, StoreUnavailable):
            raise
        except Exception as error:
            await self._retry_later(error)

    async def _stopped(self, reason: Stop) -> None:
        if reason is Stop.lost:
            raise LeaseLost(f"the lease of job {self._job.id} was lost during its run")
        late = _failing("wall_clock_limit", f"the job ran for longer than {self._served.wall_clock_seconds:g} s")
        leaves = {Stop.cancelled: running.cancel, Stop.drained: _give_back, Stop.late: late}
        await self._leave_unflushed(leaves[reason])

    async def _invoke(self) -> None:
        start = await self._find_start()
        self._answered.interrupt_ids = start.answered
        if start.kind == "park":
            await self._park(start.pauses, await self._values())
            return
        if start.kind == "fail":
            await self._leave(_failing("review_expired", start.reason), parked=False)
            return
        if start.kind == "finish":
            await self._end(await self._values())
            return
        self._guard.stop_after(self._seconds_left(), Stop.late)
        context = self._context()
        effects = EffectsOfRun(self._store, self._served.agent, self._job, context)
        with effects_by(effects):
            result = await self._graph.ainvoke(
                self._input(start), self._config, context=context, durability="sync", control=self._control
            )
        if self._served.agent.build is not None and not result.get("__interrupt__"):
            await self._require_end(effects)
        await self._after(result, start)

    async def _require_end(self, effects: EffectsOfRun) -> None:
        """An author's graph may stop where nobody looks: at a breakpoint, or because a node has caught its pause."""
        if effects.waiting:
            raise CannotResume("a node has caught the pause of an effect, with `except Exception` around effect.run()?")
        if stopped := [task.name for task in (await self._graph.aget_state(self._config)).tasks]:
            raise CannotResume(f"the graph has stopped before its end, at {', '.join(stopped)}")

    def _input(self, start: Start) -> Any:
        return self._served.first_input(start.input) if start.kind == "start" else start.input

    async def _after(self, result: Mapping[str, Any], start: Start) -> None:
        pending = result.get("__interrupt__", ())
        if still := {interrupt.id for interrupt in pending} & set(start.answered):
            raise CannotResume(f"the answer to {', '.join(sorted(still))} was given, and it is still asked")
        if not pending:
            await self._end(result if "messages" in result else await self._values())
            return
        await self._faults.reach(Point.before_park)
        # A resumed run that completes no step may have put out no values.
        values = result if "calls" in result else await self._values()
        await self._park([read_pause(interrupt.id, interrupt.value) for interrupt in pending], values)
        await self._faults.reach(Point.after_park)

    async def _park(self, pauses: Sequence[Pause], values: Mapping[str, Any]) -> None:
        calls = {call["operation_id"]: call for call in values.get("calls", ())}
        judged = [self._as_judged(pause, calls) for pause in pauses]
        await self._leave(_parking(judged, self._claim.may_know_answers), parked=True)

    async def _end(self, values: Mapping[str, Any]) -> None:
        messages: Sequence[AnyMessage] = values.get("messages", ())
        await self._faults.reach(Point.before_finish)
        if call := repeated_too_often(values, self._served.max_refused_repeats):
            await self._leave(_failing("refused_repeatedly", _repeats(call, values)), parked=False)
        elif open_calls(messages) and self._served.agent.build is None:
            message = f"the agent used up its {self._served.max_rounds} tool rounds"
            await self._leave(_failing("step_limit", message), parked=False)
        else:
            await self._leave(_finishing(messages), parked=False)
        await self._faults.reach(Point.after_finish)

    async def _values(self) -> Mapping[str, Any]:
        values: Mapping[str, Any] = (await self._graph.aget_state(self._config)).values
        return values

    async def _find_start(self) -> Start:
        state = await read_head(self._graph, self._saver, self._config, self._claim)
        async with self._store.each_alone() as tx:
            return await find_start(tx, self._claim, state)

    def _context(self) -> RunContext:
        run = Run(self._job, self._claim.lineage_root, self._runner._worker, self._guard, self._answered)
        environment = self._runner._limits.environment
        executor = Executor(self._store, self._saver, self._served.agent, run, environment, self._faults)
        self._executor = executor
        return RunContext(
            self._claim.lineage_root,
            self._job.facts(),
            environment,
            executor,
            self._keep_model_answer,
            self._standing_approvals,
        )

    async def _standing_approvals(self) -> Sequence[StandingApproval]:
        if not self._claim.stands:
            return ()
        async with self._store.each_alone() as tx:
            return await tx.standing.applicable(self._job.agent, None, self._job.id, self._job.thread_id)

    async def _keep_model_answer(self) -> None:
        await to_the_end(self._flush())

    async def _flush(self) -> None:
        await self._faults.reach(Point.before_flush)
        async with self._saver.flushing() as flush, self._store.begin() as tx:
            await tx.jobs.fence(self._job)
            await flush.write(tx.conn, parked=False)
            await self._answered.mark(tx)
        self._answered.committed()
        await self._faults.reach(Point.after_flush)

    async def _leave(self, leave: Leave, *, parked: bool) -> None:
        """The last transaction of the run: checkpoint, and whatever becomes of the job."""
        promoted = await to_the_end(self._leave_now(leave, parked))
        if promoted is not None:
            self._runner._hints.offer(self._job.agent, promoted)

    async def _leave_now(self, leave: Leave, parked: bool) -> UUID | None:
        await self._faults.reach(Point.before_flush)
        async with self._saver.flushing() as flush, self._store.begin() as tx:
            job = (await tx.jobs.fence(self._job)).job
            await flush.write(tx.conn, parked=parked)
            await self._answered.mark(tx)
            # Cancel wins until the run's last word.
            last = running.cancel(tx, job) if job.cancel_requested else leave(tx, job, flush.head_checkpoint_id)
            promoted = await last
        await self._faults.reach(Point.after_flush)
        return promoted

    async def _leave_unflushed(self, leave: Callable[[PostgresTransaction, Job], Awaitable[UUID | None]]) -> None:
        """A run that ends by an exception is not flushed: the thread stays at its last good checkpoint."""
        self._guard.leave()
        if self._executor is not None:
            await self._executor.ended()
        async with self._store.begin() as tx:
            job = (await tx.jobs.fence(self._job)).job
            promoted = await (running.cancel(tx, job) if job.cancel_requested else leave(tx, job))
        if promoted is not None:
            self._runner._hints.offer(self._job.agent, promoted)

    async def _drained(self, tx: PostgresTransaction, job: Job, checkpoint_id: str | None) -> None:
        # A drain is nobody's fault: it does not count as a try.
        await tx.jobs.move(job.id, JobStatus.queued)

    async def _retry_later(self, error: Exception) -> None:
        log.exception("run failed", extra={"job_id": str(self._job.id), "tries": self._job.tries})
        code = "model_failed" if isinstance(error, ModelFailed) else "run_failed"
        said = str(error) if isinstance(error, SignoffError | ModelFailed) else f"{type(error).__name__}: {error}"
        text = scrub(said)[:MOST_ERROR_CHARACTERS]
        most = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (self._job.tries - 1))
        seconds = random.uniform(most / 2, most)

        async def leave(tx: PostgresTransaction, job: Job) -> None:
            if job.tries >= self._runner._limits.max_tries:
                await running.hold(tx, job, code, f"{job.tries} tries failed, the last with: {text}")
            else:
                await running.release(tx, job, run_in=timedelta(seconds=seconds), error=(code, text))

        await self._leave_unflushed(leave)

    def _as_judged(self, pause: Pause, calls: Mapping[str, Call]) -> Pause:
        """A review's calls in full, with the schema that an edit must fit."""
        if not isinstance(pause, ReviewPause):
            return pause
        own: Mapping[str, Mapping[str, Any]] = {call["operation_id"]: call for call in pause.calls}
        known = {**calls, **own}
        judged = [{**known[item["operation_id"]], **(pause.again or {})} for item in pause.items]
        schemas = self._served.agent.schemas
        return replace(pause, items=tuple({**call, "args_schema": schemas.get(call["tool"])} for call in judged))

    def _seconds_left(self) -> float:
        return max(0.01, self._served.wall_clock_seconds - self._job.ran_seconds)


async def _give_back(tx: PostgresTransaction, job: Job) -> None:
    # A drain is nobody's fault: it does not count as a try.
    error = ("drained", "its worker was shut down during the run")
    await tx.jobs.move(job.id, JobStatus.queued, error=error)


async def _left_to_newer(tx: PostgresTransaction, job: Job) -> None:
    # Nobody's fault either: a worker with the newer policy takes it, and until there is one nothing leaves.
    error = ("policy_outdated", "its worker has an older policy than the newest worker of the agent")
    await tx.jobs.move(job.id, JobStatus.queued, run_in=TIME_FOR_A_NEWER_WORKER, error=error)


def _repeats(call: Call, values: Mapping[str, Any]) -> str:
    count = repeats_of(call, values["refused"])
    return f"the agent proposed {call['tool']} {count} more times after exactly this call had been rejected"


def _parking(pauses: Sequence[Pause], may_know_answers: bool) -> Leave:
    async def leave(tx: PostgresTransaction, job: Job, checkpoint_id: str | None) -> None:
        assert checkpoint_id is not None
        await (carried_over.park if may_know_answers else running.park)(tx, job, pauses, checkpoint_id)

    return leave


def _finishing(messages: Sequence[AnyMessage]) -> Leave:
    async def leave(tx: PostgresTransaction, job: Job, checkpoint_id: str | None) -> UUID | None:
        last = messages[-1] if messages else AIMessage("")
        return await running.finish(tx, job, {"text": last.text, "message_id": last.id})

    return leave


def _failing(code: str, message: str) -> Any:
    async def leave(tx: PostgresTransaction, job: Job, checkpoint_id: str | None = None) -> UUID | None:
        return await running.fail(tx, job, code, message)

    return leave


def _holding(code: str, message: str) -> Any:
    async def leave(tx: PostgresTransaction, job: Job, checkpoint_id: str | None = None) -> None:
        await running.hold(tx, job, code, message)

    return leave
