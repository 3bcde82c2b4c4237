"""Everything that runs in a soak, in processes of its own: servers, the api, dispatchers, workers. Each can be hit."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from signoff.domain.authority import Principal, PrincipalKind, Right
from signoff.infra.addresses import Addresses
from signoff.infra.bootstrap import open_services
from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from signoff.infra.embedded.ports import free_port
from signoff.infra.hints import NoHints
from signoff.infra.postgres.migrate import migrate
from signoff.infra.postgres.store import PostgresStore
from signoff.infra.settings import Settings
from signoff.infra.tokens import new_token
from signoff.workers.faults import Point
from tests.soak.plan import Plan
from tests.support.fault_agents import NOTES, PROVIDER_URL, faulted
from tests.support.postgres_proxy import PostgresProxy, Rates
from tests.support.provider import Provider
from tests.support.up import clean_environment
from tests.support.worker_process import Strike, WorkerProcess, warm_up

LEASE_SECONDS = 2.0
LEADS = frozenset({"support-leads"})
PEOPLE = (
    Principal("shop", PrincipalKind.service, frozenset(), frozenset({Right.submit})),
    Principal("rita", PrincipalKind.person, LEADS, frozenset({Right.review})),
    Principal("ravi", PrincipalKind.person, LEADS, frozenset({Right.review})),
    Principal("olga", PrincipalKind.person, frozenset(), frozenset({Right.operate})),
)
SETTINGS = {
    "SIGNOFF_AGENTS": "tests.support.fault_agents:faulted",
    "SIGNOFF_LEASE_SECONDS": str(LEASE_SECONDS),
    "SIGNOFF_WORKER_CONCURRENCY": "6",
    "SIGNOFF_DRAIN_SECONDS": "2",
    "SIGNOFF_MAX_TRIES": "12",
    "SIGNOFF_DISPATCH_INTERVAL_SECONDS": "0.2",
    "SIGNOFF_OFFER_BACKOFF_SECONDS": "1.5",
    "SIGNOFF_HTTP_REQUESTS_PER_MINUTE": "0",
    "SIGNOFF_LOG_LEVEL": "warning",
}
COMMANDS = {
    "api": ["-m", "signoff.infra.cli", "api"],
    "dispatcher-1": ["-m", "signoff.workers", "dispatcher"],
    "dispatcher-2": ["-m", "signoff.workers", "dispatcher"],
}


@dataclass
class Town:
    """`chance` decides where workers strike themselves; nothing does once `calm` is set."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    proxy: PostgresProxy
    provider: Provider
    store: PostgresStore
    tokens: dict[str, str]
    environment: dict[str, str]
    api_url: str
    folder: Path
    chance: random.Random
    workers: list[WorkerProcess] = field(default_factory=list)
    commands: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    restarts: int = 0
    calm: bool = False

    def start(self, workers: int) -> None:
        for name in COMMANDS:
            self._start_command(name)
        self.workers = [self._worker(place) for place in range(workers)]

    def look_after(self) -> None:
        """What an orchestrator does: whoever has ended is started again."""
        for name, process in list(self.commands.items()):
            if process.poll() is not None:
                self.restarts += 1
                self._start_command(name)
        for place, worker in enumerate(self.workers):
            if worker.exit_code is not None:
                self.restarts += 1
                self.workers[place] = self._worker(place)

    def start_workers_anew(self) -> None:
        """Workers that strike at nothing."""
        for place, worker in enumerate(self.workers):
            worker.send(signal.SIGCONT)
            worker.kill()
            self.workers[place] = self._worker(place)

    def _worker(self, place: int) -> WorkerProcess:
        strike = None
        if not self.calm and self.chance.random() < 0.5:
            sign = self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
            strike = Strike(self.chance.choice(list(Point)), sign, self.chance.randint(1, 30))
        # One of them forks its pool, as the others could.
        pool = {"SIGNOFF_WORKER_POOL": "prefork", "SIGNOFF_WORKER_CONCURRENCY": "2"} if place == 0 else {}
        log = str(self.folder / f"worker-{place}.log")
        return WorkerProcess({**self.environment, **pool, "WORKER_LOG": log}, strike)

    def _start_command(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.commands[name] = subprocess.Popen(
                [sys.executable, *COMMANDS[name]], env=self.environment, stdout=log, stderr=log, process_group=0
            )

    def close(self) -> None:
        for worker in self.workers:
            worker.send(signal.SIGCONT)
            worker.kill()
        for process in self.commands.values():
            process.kill()
            process.wait()


@asynccontextmanager
async def open_town(plan: Plan, folder: Path) -> AsyncIterator[Town]:
    await asyncio.to_thread(warm_up)
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(folder / "state"))
        valkey = stack.enter_context(EmbeddedValkey())
        await migrate(postgres.url)
        proxy = stack.enter_context(PostgresProxy(postgres.url, seed=plan.seed))
        provider = stack.enter_context(
            Provider(folder / "provider.jsonl", seed=plan.seed, fault_rate=plan.provider_faults, slow_seconds=2.5)
        )
        addresses = Addresses(postgres.url, valkey.url)
        async with open_services(Settings(), addresses, hints=NoHints(), pool_size=8) as services:
            tokens = await _enrol(services.store)
            port = free_port()
            environment = _environment(proxy, valkey, provider, port)
            chance = random.Random(f"{plan.seed} strikes")
            url = f"http://127.0.0.1:{port}"
            town = Town(postgres, valkey, proxy, provider, services.store, tokens, environment, url, folder, chance)
            town.start(plan.workers)
            proxy.rates = Rates(plan.lost_commits / 2, plan.lost_commits / 2, plan.lost_commits / 4)
            try:
                yield town
            finally:
                town.close()


def _environment(proxy: PostgresProxy, valkey: EmbeddedValkey, provider: Provider, port: int) -> dict[str, str]:
    mine = {
        "SIGNOFF_DATABASE_URL": proxy.url,
        "SIGNOFF_REDIS_URL": valkey.url,
        "SIGNOFF_HTTP_PORT": str(port),
        PROVIDER_URL: provider.url,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return {**clean_environment(), **SETTINGS, **mine}


async def _enrol(store: PostgresStore) -> dict[str, str]:
    tokens = {}
    async with store.begin() as tx:
        await tx.conn.execute(NOTES)
        for who in PEOPLE:
            await tx.principals.create(who)
            tokens[who.name], hashed = new_token()
            await tx.principals.add_token(uuid4(), who.name, hashed)
        await tx.agents.register(faulted.name, faulted.describe(), faulted.loaded_policy)
    return tokens


def seconds_since(moment: float) -> float:
    return time.monotonic() - moment
