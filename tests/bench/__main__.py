"""`make bench`: the whole of Signoff beside bare LangGraph, in one run, on the same event loop.

Writes build/bench.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import uvloop

from signoff.infra.addresses import Addresses
from signoff.infra.embedded import EmbeddedPostgres, EmbeddedValkey
from signoff.infra.postgres.migrate import migrate
from tests.bench.agent import MODEL_SECONDS
from tests.bench.counting import statements_of_a_cycle
from tests.bench.drive import Driver, open_driver
from tests.bench.floor import floor_async, floor_sync
from tests.bench.processes import cpu_seconds, postgres_cpu_seconds, process, resident_bytes

BUILD = Path("build")
SATURATING = 128
WARMING = 300


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--cycles", type=int, default=600, help="cycles of each measurement (default 600)")
    parser.add_argument("--parked", type=int, default=1000, help="jobs to park (default 1000)")
    parser.add_argument("--quick", action="store_true", help="the headline figures only")
    arguments = parser.parse_args()
    logs = BUILD / "bench"
    logs.mkdir(parents=True, exist_ok=True)
    with EmbeddedPostgres() as postgres, EmbeddedValkey() as valkey:
        addresses = Addresses(postgres.url, valkey.url)
        asyncio.run(migrate(addresses.database_url))
        assert postgres.pid is not None
        bench = Bench(addresses, postgres.pid, logs, arguments.cycles, arguments.parked)
        figures = uvloop.run(bench.run(quick=arguments.quick))
    (BUILD / "bench.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


class Bench:
    """Each measurement adds its figures; seconds, milliseconds and bytes are in the names."""

    def __init__(self, addresses: Addresses, postmaster: int, logs: Path, cycles: int, parked: int) -> None:
        self._addresses = addresses
        self._postmaster = postmaster
        self._logs = logs
        self._cycles = cycles
        self._parked = parked
        self._figures: dict[str, Any] = {"cores": os.cpu_count(), "cycles": cycles, "durable_commits": True}

    async def run(self, *, quick: bool) -> dict[str, Any]:
        url = self._addresses.database_url
        floors: list[float] = []
        await floor_async(url, WARMING)
        floors.append(await floor_async(url, self._cycles))
        async with open_driver(self._addresses) as driver:
            with process("dispatcher", self._addresses, self._logs):
                await self._saturated(driver, "threads", 8)
                floors.append(await floor_async(url, self._cycles))
                await self._saturated(driver, "threads", 8)
                if not quick:
                    await self._others(driver)
        self._figures["floor_async_cycles_per_second"] = round(statistics.mean(floors), 1)
        floor = statistics.mean(floors)
        if not quick:
            floor_of_threads = await asyncio.to_thread(floor_sync, url, self._cycles)
            self._figures["floor_sync_cycles_per_second"] = round(floor_of_threads, 1)
            floor = max(floor, floor_of_threads)
        rates = self._figures["threads_8_cycles_per_second"]
        self._figures["cycles_per_second"] = round(statistics.mean(rates), 1)
        self._figures["ratio_to_floor"] = round(statistics.mean(rates) / floor, 3)
        return self._figures

    async def _saturated(self, driver: Driver, pool: str, concurrency: int, cycles: int | None = None) -> None:
        count = cycles or self._cycles
        name = f"{pool}_{concurrency}"
        settings = {"SIGNOFF_WORKER_POOL": pool, "SIGNOFF_WORKER_CONCURRENCY": str(concurrency)}
        with process("worker", self._addresses, self._logs, **settings) as worker:
            await driver.cycles(WARMING, SATURATING)
            cpu, postgres = cpu_seconds(worker), postgres_cpu_seconds(self._postmaster)
            own, transactions = time.process_time(), await self._transactions(driver)
            seconds = await driver.cycles(count, SATURATING)
            run = count + 2 * SATURATING
            figures = {
                "cycles_per_second": round(count / seconds, 1),
                "worker_cpu_ms_per_cycle": _ms(cpu_seconds(worker) - cpu, run),
                "driver_cpu_ms_per_cycle": _ms(time.process_time() - own, run),
                "postgres_cpu_ms_per_cycle": _ms(postgres_cpu_seconds(self._postmaster) - postgres, run),
                "write_transactions_per_cycle": round((await self._transactions(driver) - transactions) / run, 2),
                "worker_resident_mb": round(resident_bytes(worker) / 1e6),
            }
        for key, value in figures.items():
            self._figures.setdefault(f"{name}_{key}", []).append(value)
        print(f"{name}: {figures}", flush=True)

    async def _others(self, driver: Driver) -> None:
        with process("worker", self._addresses, self._logs) as worker:
            await driver.cycles(20, 4)
            await self._latency(driver)
            await self._statements(driver)
        await self._saturated(driver, "threads", 1, self._cycles // 3)
        await self._saturated(driver, "prefork", 2)
        await self._saturated(driver, "prefork", 1, self._cycles // 3)
        await self._slow_models(driver)
        # Last: the driver would decide what is parked.
        with process("worker", self._addresses, self._logs) as worker:
            await self._parking(driver, worker)

    async def _latency(self, driver: Driver) -> None:
        milliseconds = sorted(await driver.one_by_one(60))
        self._figures["decision_to_effect_ms_p50"] = round(statistics.median(milliseconds), 1)
        self._figures["decision_to_effect_ms_p95"] = round(milliseconds[int(len(milliseconds) * 0.95)], 1)

    async def _statements(self, driver: Driver) -> None:
        count = 30
        self._figures["sql_statements_per_cycle"] = await statements_of_a_cycle(self._addresses.database_url)
        transactions = await self._transactions(driver)
        await driver.one_by_one(count)
        written = (await self._transactions(driver) - transactions) / count
        self._figures["write_transactions_per_cycle_one_by_one"] = round(written, 2)

    async def _parking(self, driver: Driver, worker: int) -> None:
        """Bytes with their indexes: as written, and once the server has tidied up."""
        await driver.park(self._parked // 2)  # the process has its buffers and caches then
        await driver.vacuum()
        before, langgraph = await self._stored(driver), await self._stored(driver, "langgraph")
        resident = resident_bytes(worker)
        await driver.park(self._parked)
        written = await self._stored(driver)
        worker_bytes = resident_bytes(worker) - resident
        await driver.vacuum()
        after, after_langgraph = await self._stored(driver), await self._stored(driver, "langgraph")
        self._figures["parked_jobs"] = self._parked
        self._figures["parked_job_postgres_bytes"] = round((after - before) / self._parked)
        self._figures["parked_job_postgres_bytes_before_vacuum"] = round((written - before) / self._parked)
        self._figures["parked_job_langgraph_bytes"] = round((after_langgraph - langgraph) / self._parked)
        self._figures["parked_job_worker_bytes"] = round(worker_bytes / self._parked)

    async def _slow_models(self, driver: Driver) -> None:
        """100 model calls of a second each, in flight at once on threads."""
        settings = {"SIGNOFF_WORKER_CONCURRENCY": "100", MODEL_SECONDS: "1.0"}
        with process("worker", self._addresses, self._logs, **settings) as worker:
            await driver.cycles(100, 100)
            cpu = cpu_seconds(worker)
            seconds = await driver.cycles(300, 100)
            self._figures["slow_models_in_flight"] = 100
            self._figures["slow_models_cycles_per_second"] = round(300 / seconds, 1)
            self._figures["slow_models_worker_cpu_ms_per_cycle"] = _ms(cpu_seconds(worker) - cpu, 300 + 2 * 100)

    async def _transactions(self, driver: Driver) -> int:
        return int(await driver.ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS n"))

    async def _stored(self, driver: Driver, schema: str = "%") -> int:
        return int(
            await driver.ask(
                "SELECT sum(pg_total_relation_size(c.oid)) AS n FROM pg_class c"
                " JOIN pg_namespace s ON s.oid = c.relnamespace"
                " WHERE s.nspname IN ('signoff', 'langgraph') AND s.nspname LIKE %s AND c.relkind = 'r'",
                schema,
            )
        )


def _ms(seconds: float, count: int) -> float:
    return round(seconds * 1000 / count, 2)


if __name__ == "__main__":
    main()
