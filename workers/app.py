"""The Celery worker: which tasks there are, and how a process starts, drains and stops."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from typing import Any

import psycopg
from celery import Celery, signals

from signoff.domain.errors import SettingsInvalid, Unavailable
from signoff.infra.addresses import Addresses
from signoff.infra.hints import (
    DECIDE_REVIEW,
    INTAKE_QUEUE,
    RUN_EFFECT,
    RUN_JOB,
    SUBMIT_JOB,
    agent_queue,
    make_broker,
)
from signoff.infra.postgres.agents import AgentTable
from signoff.infra.postgres.pool import CONNECTION
from signoff.infra.postgres.schema import require_current_schema
from signoff.infra.restore_watch import require_not_restored
from signoff.infra.settings import Settings
from signoff.workers import intake
from signoff.workers.draining import stop_taking_when
from signoff.workers.faults import Faults, NoFaults
from signoff.workers.process import Parts, ProcessOf
from signoff.workers.serving import Served, serve_agents

RETRIES = 10
RETRIES_WHILE_AWAY = 100_000
RETRY_SECONDS = 5


def run_worker(settings: Settings, addresses: Addresses, faults: Faults | None = None) -> int:
    """Serves the agents of `SIGNOFF_AGENTS` until told to stop. Returns the exit code.

    Raises:
        SettingsInvalid, AgentInvalid, PolicyInvalid, SchemaOutdated, StoreUnavailable,
        DatabaseRestored: before anything is taken.
    """
    require_no_token(settings)
    agents = serve_agents(settings)
    asyncio.run(register(addresses, settings.publish_timeout_seconds, list(agents.values())))
    # Shared with children that are forked later: how a drain reaches them.
    draining, told = multiprocessing.Event(), multiprocessing.Event()
    drains = lambda: draining.is_set() or told.is_set()  # noqa: E731
    process = ProcessOf(Parts(settings, addresses, agents, faults or NoFaults(), drains, told.set))
    app = make_broker(addresses.redis_url, settings.publish_timeout_seconds)
    add_tasks(app, process)
    _connect_signals(process, draining.set, settings)
    listened = [INTAKE_QUEUE, *(agent_queue(name) for name in agents)]
    signals.worker_ready.connect(lambda sender, **_: stop_taking_when(told.wait, listened, sender), weak=False)
    queues = ",".join(listened)
    pool = {"prefork": "prefork", "threads": "threads"}[settings.worker_pool]
    arguments = ["worker", "--pool", pool, "--concurrency", str(settings.worker_concurrency), "--queues", queues]
    # Their lines carry the arguments of every task: ids of hints, but whole bodies of intake tasks.
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", settings.log_level]
    try:
        app.worker_main([*arguments, *quiet])
    except SystemExit as stopped:
        return int(stopped.code or 0)
    finally:
        process.close()
    return 0


def require_no_token(settings: Settings) -> None:
    """Raises SettingsInvalid if somebody's token is set here: a tool could read it, and decide with it."""
    if settings.token is not None and settings.token.get_secret_value().strip():
        raise SettingsInvalid("SIGNOFF_TOKEN is set: a worker must not hold a token that its agents could decide with")


async def register(addresses: Addresses, timeout_seconds: float, served: list[Served]) -> None:
    """Tells the store of the agents: names, tools and policies.

    Raises:
        SchemaOutdated, StoreUnavailable, DatabaseRestored.
    """
    try:
        conn = await psycopg.AsyncConnection.connect(addresses.database_url, connect_timeout=10, **CONNECTION)
    except psycopg.OperationalError as error:
        raise Unavailable(f"the database can't be reached: {error}") from error
    try:
        async with conn:
            await require_current_schema(conn)
            await require_not_restored(conn, addresses.redis_url, timeout_seconds)
            for one in served:
                await AgentTable(conn).register(one.agent.name, one.agent.describe(), one.agent.loaded_policy)
    except psycopg.OperationalError as error:
        raise Unavailable(f"the database was lost: {error}") from error


def add_tasks(app: Celery, process: ProcessOf) -> None:
    """Hints acknowledge early: the row is the work. The two intake tasks are the work, so they acknowledge late."""

    @app.task(name=RUN_JOB)
    def run_job(job_id: str) -> None:
        process.get().run_job(job_id)

    @app.task(name=RUN_EFFECT)
    def run_effect(operation_id: str) -> None:
        process.get().run_effect(operation_id)

    late = {"acks_late": True, "bind": True, "max_retries": RETRIES, "retry_on_worker_lost": True}

    @app.task(name=SUBMIT_JOB, **late)
    def submit_job(self: Any, body: Any, idempotency_key: str | None = None) -> None:
        trace = (self.request.headers or {}).get("traceparent")
        work = lambda services: intake.submit_job(services, self.request.id, body, idempotency_key, trace)  # noqa: E731
        _with_retries(self, lambda: process.get().run_intake(work))

    @app.task(name=DECIDE_REVIEW, **late)
    def decide_review(self: Any, endpoint: str, headers: Any, body: str) -> None:
        work = lambda services: intake.decide_review(services, self.request.id, endpoint, headers, body)  # noqa: E731
        _with_retries(self, lambda: process.get().run_intake(work))


def _with_retries(task: Any, work: Any) -> None:
    try:
        work()
    except Unavailable as error:
        # The task is the work: a database that is away for days must not lose it.
        raise task.retry(exc=error, countdown=RETRY_SECONDS, max_retries=RETRIES_WHILE_AWAY) from error


def _connect_signals(process: ProcessOf, drain: Any, settings: Settings) -> None:
    # Kept alive by weak=False: Celery holds receivers weakly otherwise.
    signals.worker_shutting_down.connect(lambda **_: drain(), weak=False)
    signals.worker_process_init.connect(lambda **_: process.get() and None, weak=False)
    signals.worker_process_shutdown.connect(lambda **_: process.close(), weak=False)
    if settings.worker_pool == "threads":
        signals.worker_init.connect(lambda **_: process.get() and None, weak=False)
