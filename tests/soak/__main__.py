"""A soak: thousands of jobs over real processes, under a random mixture of faults, all from one seed.

    python -m tests.soak [--jobs 2000] [--minutes 15] [--workers 3] [--seed N] [--keep FOLDER]

Workers are killed and stopped, dispatchers and the api killed, Postgres restarted and crashed, Redis emptied and lost;
commits and the word of them are lost on the way; the provider does to requests whatever networks and services do; two
people decide at once; operators settle doubt. Then it is calm, and everything has to come to an end by itself, or
through its operator. Prints figures, writes build/soak.json, exits 1 if anything was done twice, is missing, or was
claimed without being known. The seed is printed first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.soak.chaos import Chaos
from tests.soak.figures import breaches, duplicates, figures, is_at_rest
from tests.soak.people import People
from tests.soak.plan import Plan, wishes
from tests.soak.town import Town, open_town
from tests.soak.watching import Watch
from tests.support.eventually import eventually
from tests.support.folders import folder_open_to_all

REPORT = Path("build/soak.json")
MOST_SHOWN = 40
MOST_TIMES_AS_LONG = 3


def main(words: Sequence[str]) -> int:
    options = _options(words)
    # Postgres is away on purpose, and processes are killed with what they hold.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker:UserWarning"
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    plan = Plan(seed, options.jobs, options.minutes * 60, options.workers)
    again = f"--seed {seed} --jobs {plan.jobs} --minutes {options.minutes:g} --workers {plan.workers}"
    print(f"seed {seed}; the same again: python -m tests.soak {again}", flush=True)
    with folder_open_to_all() as folder:
        report = asyncio.run(soak(plan, folder))
        if options.keep is not None:
            shutil.copytree(folder, options.keep, ignore=shutil.ignore_patterns("state"), dirs_exist_ok=True)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({"again": again, **report}, indent=2) + "\n")
    _show(report)
    return 1 if report["breaches"] else 0


async def soak(plan: Plan, folder: Path) -> dict[str, Any]:
    """The report of one soak."""
    began, started_at = time.monotonic(), datetime.now(UTC)
    async with open_town(plan, folder) as town:
        people, chaos, watch = People(town, plan), Chaos(town, plan), Watch(town)
        keepers = [chaos.look_after(), people.count_open(), people.review(), people.operate(), watch.look()]
        tasks = [asyncio.create_task(keeper) for keeper in keepers]
        raging = asyncio.create_task(chaos.rage())
        try:
            await _produce(plan, people, tasks)
            chaos.calm()
            await raging
            calmed = time.monotonic()
            rested = await _come_to_rest(plan, town, tasks)
            recovery = round(time.monotonic() - calmed, 1)
            found = await breaches(town, people, at_rest=True)
            counted = await figures(town)
        finally:
            for task in (*tasks, raging):
                task.cancel()
            await asyncio.gather(*tasks, raging, return_exceptions=True)
            await people.close()
    return {
        "seed": plan.seed,
        "started_at": started_at.isoformat(),
        "seconds": round(time.monotonic() - began),
        "accepted": len(people.accepted),
        "duplicates": duplicates(found),
        "breaches": found,
        "came to rest": rested,
        "seconds to rest after the faults stopped": recovery,
        **counted,
        "blows": dict(chaos.blows),
        "struck or killed, and started again": town.restarts,
        "lost on the way to Postgres": town.proxy.counts(),
        "commits through the proxy": town.proxy.passed["commit"],
        "provider": watch.provider_ways(),
        "people": dict(people.acts),
        "peaks": watch.peaks,
    }


async def _produce(plan: Plan, people: People, keepers: Sequence[asyncio.Task[None]]) -> None:
    """Until all jobs are accepted; on a slow machine that takes longer, yet not for ever. Fails with a keeper."""
    producing = asyncio.create_task(people.produce(wishes(plan)))
    try:
        await asyncio.wait(
            {producing, *keepers}, timeout=plan.seconds * MOST_TIMES_AS_LONG, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        over = producing.done()
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
    _require_alive(keepers)
    if over and not producing.cancelled():
        producing.result()


async def _come_to_rest(plan: Plan, town: Town, keepers: Sequence[asyncio.Task[None]]) -> bool:
    async def rested() -> bool:
        _require_alive(keepers)
        return await is_at_rest(town)

    try:
        await eventually(rested, within_seconds=plan.seconds_to_recover)
    except AssertionError:
        return False
    return True


def _require_alive(keepers: Sequence[asyncio.Task[None]]) -> None:
    for keeper in keepers:
        if keeper.done():
            keeper.result()


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Random faults for a quarter of an hour")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=15.0, help="of faults, where the machine keeps up")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--keep", type=Path, help="where logs and the provider's books are copied to")
    return parser.parse_args(words)


def _show(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if name == "breaches":
            continue
        text = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
        print(f"{name}: {text}")
    for one in report["breaches"][:MOST_SHOWN]:
        print(f"BROKEN: {one}")
    print(f"{len(report['breaches'])} promises broken, {report['duplicates']} things done twice")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
