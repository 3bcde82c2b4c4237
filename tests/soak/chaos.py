"""The faults of a soak: one after the other, chosen by the seed, until it is calm again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import redis

from tests.soak.plan import Plan
from tests.soak.town import Town
from tests.support.fault_agents import STILL_SECONDS
from tests.support.postgres_proxy import Rates
from tests.support.worker_process import WorkerProcess

Blow = Callable[[], Awaitable[None]]
LOOK_SECONDS = 0.1


class Chaos:
    """`blows` counts what was done."""

    def __init__(self, town: Town, plan: Plan) -> None:
        self._town = town
        self._plan = plan
        self._chance = random.Random(f"{plan.seed} chaos")
        self._still: dict[int, float] = {}
        self._calmed = asyncio.Event()
        self.blows: Counter[str] = Counter()

    async def rage(self) -> None:
        """Hits something every few seconds until `calm`."""
        choices: list[tuple[Blow, int]] = [
            (self.kill_worker, 6),
            (self.stop_worker, 6),
            (self.kill_dispatcher, 2),
            (self.kill_api, 1),
            (self.restart_postgres, 2),
            (self.crash_postgres, 1),
            (self.empty_valkey, 1),
            (self.lose_valkey, 1),
            (self.cut_connections, 2),
        ]
        acts, weights = [act for act, _ in choices], [weight for _, weight in choices]
        while not self._calmed.is_set():
            pause = self._chance.uniform(0.3, 1.7) * self._plan.seconds_between_blows
            act = self._chance.choices(acts, weights)[0]
            try:
                await asyncio.wait_for(self._calmed.wait(), pause)
            except TimeoutError:
                self.blows[act.__name__] += 1
                await act()

    async def look_after(self) -> None:
        """Starts again what has ended, and wakes up who stands still, for ever."""
        while True:
            self._wake()
            self._town.look_after()
            await asyncio.sleep(LOOK_SECONDS)

    def calm(self) -> None:
        """No more faults; workers that would strike themselves are replaced."""
        self._calmed.set()
        self._town.calm = True
        self._town.proxy.rates = Rates()
        self._town.provider.stop_faults()
        self._town.start_workers_anew()

    def _wake(self) -> None:
        now = time.monotonic()
        for worker in self._town.workers:
            if not _stands_still(worker):
                self._still.pop(worker.pid, None)
                continue
            since = self._still.setdefault(worker.pid, now)
            if now - since > STILL_SECONDS - 2 * LOOK_SECONDS:
                self.blows["a worker woke up"] += 1
                worker.send(signal.SIGCONT)

    async def kill_worker(self) -> None:
        self._chance.choice(self._town.workers).send(signal.SIGKILL)

    async def stop_worker(self) -> None:
        self._chance.choice(self._town.workers).send(signal.SIGSTOP)

    async def kill_dispatcher(self) -> None:
        self._kill(self._chance.choice(["dispatcher-1", "dispatcher-2"]))

    async def kill_api(self) -> None:
        self._kill("api")

    async def restart_postgres(self) -> None:
        await asyncio.to_thread(self._town.postgres.restart, "fast")

    async def crash_postgres(self) -> None:
        await asyncio.to_thread(self._town.postgres.restart, "immediate")

    async def empty_valkey(self) -> None:
        def flush() -> None:
            with redis.Redis.from_url(self._town.valkey.url) as client:
                client.flushall()

        await asyncio.to_thread(flush)

    async def lose_valkey(self) -> None:
        await asyncio.to_thread(lambda: self._town.valkey.restart(keep_data=False))

    async def cut_connections(self) -> None:
        self._town.proxy.cut_all()

    def _kill(self, name: str) -> None:
        process = self._town.commands[name]
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)


def _stands_still(worker: WorkerProcess) -> bool:
    try:
        return worker.exit_code is None and worker.stands_still
    except FileNotFoundError:
        return False  # it ended just now
