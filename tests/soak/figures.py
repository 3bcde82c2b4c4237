"""What came of a soak, by the tables, the provider's books and what clients were told."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import redis

from signoff.infra.cli.audit_verdict import verify_chain
from signoff.infra.postgres.audit import read_snapshot
from signoff.infra.verify.checks import Scope
from signoff.infra.verify.whole import verify
from tests.soak.people import People
from tests.soak.town import SETTINGS, Town
from tests.support.eventually import eventually
from tests.support.judging_once import Applied, judge_ledger, judge_once

EVENTS = "signoff:events"
UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OPEN = (
    "SELECT (SELECT count(*) FROM signoff.jobs WHERE ended_at IS NULL) + (SELECT count(*) FROM signoff.effects"
    " WHERE status NOT IN ('succeeded', 'failed', 'revoked', 'cancelled', 'skipped')) AS n"
)
COUNTED = {
    "jobs": "SELECT status AS k, count(*) AS n FROM signoff.jobs GROUP BY 1",
    "effects": "SELECT tool || ' ' || status AS k, count(*) AS n FROM signoff.effects GROUP BY 1",
    "attempts": "SELECT coalesce(outcome, 'never heard of') AS k, count(*) AS n FROM signoff.attempts GROUP BY 1",
    "doubts settled": (
        "SELECT to_status || ': ' || CASE WHEN actor = 'olga' THEN 'an operator' ELSE reason END AS k, count(*) AS n"
        " FROM signoff.effect_events WHERE from_status = 'in_doubt' GROUP BY 1"
    ),
    "doubts": "SELECT reason AS k, count(*) AS n FROM signoff.effect_events WHERE to_status = 'in_doubt' GROUP BY 1",
    "evidence": (
        "SELECT outcome || CASE WHEN settled THEN ', settled' ELSE '' END AS k, count(*) AS n"
        " FROM signoff.evidence GROUP BY 1"
    ),
    "alarms": "SELECT kind AS k, count(*) AS n FROM signoff.alarms GROUP BY 1",
    "reviews": "SELECT status AS k, count(*) AS n FROM signoff.reviews GROUP BY 1",
}


async def is_at_rest(town: Town) -> bool:
    (row,) = await rows(town, OPEN)
    return bool(row["n"] == 0)


async def rows(town: Town, sql: str, *parameters: object) -> list[dict[str, Any]]:
    async with town.store.connection() as conn:
        return await (await conn.execute(sql, parameters)).fetchall()


async def figures(town: Town) -> dict[str, dict[str, int]]:
    return {name: {row["k"]: row["n"] for row in await rows(town, sql)} for name, sql in COUNTED.items()}


async def breaches(town: Town, people: People, *, at_rest: bool) -> list[str]:
    """Everything that a promise forbids; nothing if all is well."""
    async with town.store.connection() as conn:
        found = await judge_ledger(conn, at_rest=at_rest) + await judge_once(conn, await _applied(town))
    found += await _acknowledged(town, people)
    found += await _verified(town)
    return found + await _events(town)


async def _applied(town: Town) -> list[Applied]:
    notes = await rows(town, "SELECT operation, ref FROM public.notes")
    told = [Applied(one["operation"], one["tool"], one["args"]) for one in town.provider.applied()]
    return [*told, *(Applied(row["operation"], "note") for row in notes)]


async def _acknowledged(town: Town, people: People) -> list[str]:
    """I1: what a client was told, is."""
    jobs = {str(row["id"]) for row in await rows(town, "SELECT id FROM signoff.jobs")}
    found = [f"I1 an accepted job is gone: {key}" for key, job in people.accepted.items() if job not in jobs]
    sql = (
        "SELECT DISTINCT i.review_id::text AS review, d.reviewer FROM signoff.decisions d"
        " JOIN signoff.items i ON i.id = d.item_id"
    )
    decided = {(row["review"], row["reviewer"]) for row in await rows(town, sql)}
    return found + [f"I1 an acknowledged decision is gone: {one}" for one in people.decided if one not in decided]


async def _verified(town: Town) -> list[str]:
    """`signoff verify`, as anybody may run it."""
    scope = Scope(timedelta(seconds=60), int(SETTINGS["SIGNOFF_MAX_TRIES"]))
    checks = await verify(town.store, scope)
    said = [f"{one.invariant} {one.name}: {bad.subject}: {bad.message}" for one in checks for bad in one.violations]
    async with town.store.begin() as tx:
        await read_snapshot(tx.conn)
        chain = await verify_chain(tx.conn, None)
    return said + [f"I11 the audit: {one.message}" for one in chain.findings]


async def _events(town: Town) -> list[str]:
    """I9: all that happened is in the stream in the end, whatever became of Redis."""

    async def missing() -> int:
        ids = [str(row["id"]) for row in await rows(town, "SELECT id FROM signoff.events")]
        sent = await asyncio.to_thread(_sent, town.valkey.url)
        return len([id_ for id_ in ids if id_ not in sent])

    async def none() -> bool:
        return await missing() == 0

    try:
        await eventually(none, within_seconds=90)
    except AssertionError:
        return [f"I9 {await missing()} events are not in the stream"]
    return []


def _sent(redis_url: str) -> set[str]:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        return set(UUID_TEXT.findall(str(client.xrange(EVENTS))))


def duplicates(found: Sequence[str]) -> int:
    return Counter(one.split(" ")[0] for one in found)["I4"]
