"""What the doctor asks Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from signoff.infra.cli.checks import Check, failed, judged

ANSWER_SECONDS = 5.0


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
    return [_version(facts), _eviction(facts)]


def _version(facts: dict[str, Any]) -> Check:
    valkey = facts.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {facts.get('redis_version')}"
    return judged("redis", True, name, "")


def _eviction(facts: dict[str, Any]) -> Check:
    policy = facts.get("maxmemory_policy")
    remedy = "set maxmemory-policy noeviction: another one drops queues and streams when memory runs short"
    return judged("eviction", policy == "noeviction", f"maxmemory-policy {policy}", remedy)
