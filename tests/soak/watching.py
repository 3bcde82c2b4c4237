"""How much of everything is used at most, looked at every few seconds (I12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import redis

from signoff.infra.hints import agent_queue
from tests.soak.town import Town
from tests.support.fault_agents import NAME

LOOK_SECONDS = 3.0
CONNECTIONS = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'signoff'"


class Watch:
    """`peaks` by name: memory in megabytes, the rest as counts."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.peaks: dict[str, int] = {}

    async def look(self) -> None:
        while True:
            for worker in self._town.workers:
                self._note("a worker's memory, MB", _megabytes(worker.pid))
            for process in self._town.commands.values():
                self._note("another process's memory, MB", _megabytes(process.pid))
            await asyncio.to_thread(self._look_into_queues)
            await self._look_at_connections()
            await asyncio.sleep(LOOK_SECONDS)

    def provider_ways(self) -> dict[str, int]:
        return dict(Counter(entry["way"] for entry in self._town.provider.requests()))

    def _look_into_queues(self) -> None:
        try:
            with redis.Redis.from_url(self._town.valkey.url, socket_timeout=1) as client:
                self._note("hints in the queue", int(str(client.llen(agent_queue(NAME)))))
        except redis.RedisError:
            return

    async def _look_at_connections(self) -> None:
        try:
            async with self._town.store.connection() as conn:
                row = await (await conn.execute(CONNECTIONS)).fetchone()
        except Exception:
            return
        self._note("database connections", row["n"] if row else 0)

    def _note(self, name: str, value: int) -> None:
        self.peaks[name] = max(value, self.peaks.get(name, 0))


def _megabytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)
