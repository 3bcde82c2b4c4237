"""What the doctor asks Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from signoff.infra.cli.checks import Check, State, failed, judged, passed, warned

ANSWER_SECONDS = 5.0
MOST_MEMORY = 0.8
MOST_KEYS_LOOKED_AT = 10_000

# What Celery keeps of each queue that somebody has declared.
BINDINGS = "_kombu.binding."
OURS = f"{BINDINGS}signoff."


async def check_redis(redis_url: str) -> Sequence[Check]:
    """Raises nothing for what Redis may answer."""
    try:
        client = Redis.from_url(redis_url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS)
    except ValueError:
        return [failed("redis", "the address can't be understood", "write SIGNOFF_REDIS_URL as redis://host:port/0")]
    async with client:
        try:
            facts = await client.info()
        except (RedisError, OSError) as error:
            return [failed("redis", str(error), "start it, or correct SIGNOFF_REDIS_URL; meanwhile no job is lost")]
        return [
            _version(facts),
            _eviction(facts),
            await _persistence(client, facts),
            _memory(facts),
            await _neighbours(client),
        ]


def _version(facts: dict[str, Any]) -> Check:
    valkey = facts.get("valkey_version")
    return passed("redis", f"Valkey {valkey}" if valkey else f"Redis {facts.get('redis_version')}")


def _eviction(facts: dict[str, Any]) -> Check:
    policy = facts.get("maxmemory_policy")
    remedy = "set maxmemory-policy noeviction: another one drops queues and streams when memory runs short"
    return judged("eviction", policy == "noeviction", f"maxmemory-policy {policy}", remedy)


async def _persistence(client: Redis, facts: dict[str, Any]) -> Check:
    """Only what came in by a stream or a task, and was not taken yet, is in Redis alone."""
    if facts.get("aof_enabled"):
        return passed("persistence", "append-only file")
    try:
        saves = (await client.config_get("save")).get("save")
    except RedisError as error:
        return warned("persistence", f"no append-only file, and: {error}", "set appendonly yes")
    found = f"no append-only file; snapshots: {saves or 'none'}"
    return warned(
        "persistence", found, "set appendonly yes: a restart loses what came in by queue and was not taken yet"
    )


def _memory(facts: dict[str, Any]) -> Check:
    used, most = facts.get("used_memory", 0), facts.get("maxmemory", 0)
    found = f"{used / 2**20:.0f} MB of {most / 2**20:.0f} MB" if most else f"{used / 2**20:.0f} MB, without a limit"
    remedy = "raise maxmemory: once it is full, nothing can be published or submitted by queue"
    return judged("memory", not most or used < MOST_MEMORY * most, found, remedy, otherwise=State.warn)


async def _neighbours(client: Redis) -> Check:
    try:
        others = sorted({name async for name in _bindings(client) if not name.startswith(OURS)})
    except RedisError as error:
        return warned("neighbours", f"could not be looked at: {error}", "let this user SCAN")
    found = (
        ", ".join(name.removeprefix(BINDINGS) for name in others) or "no other Celery application uses this database"
    )
    remedy = "give Signoff a Redis database of its own: the shortest visibility timeout of all applications counts"
    return judged("neighbours", not others, found, remedy, otherwise=State.warn)


async def _bindings(client: Redis) -> AsyncIterator[str]:
    looked_at = 0
    async for key in client.scan_iter(match=f"{BINDINGS}*", count=1000):
        yield key.decode(errors="replace") if isinstance(key, bytes) else str(key)
        looked_at += 1
        if looked_at >= MOST_KEYS_LOOKED_AT:
            return
