"""How far the database was when Redis last saw it: `signoff:database`, a hash. Whoever loses Redis loses the memory."""

from __future__ import annotations

from redis.asyncio import Redis

from signoff.domain.going_back import Whereabouts
from signoff.infra.redis.connection import broker_errors

KEY = "signoff:database"


async def recall(client: Redis) -> Whereabouts | None:
    """Raises BrokerUnavailable."""
    with broker_errors():
        found = {_text(name): _text(value) for name, value in (await client.hgetall(KEY)).items()}
    try:
        return Whereabouts(found["installation"], int(found["restores"]), int(found["seal"]), found["hash"])
    except (KeyError, ValueError):
        return None


async def remember(client: Redis, now: Whereabouts) -> None:
    """Raises BrokerUnavailable."""
    with broker_errors():
        await client.hset(
            KEY,
            mapping={"installation": now.installation, "restores": now.restores, "seal": now.seal, "hash": now.hash},
        )


def _text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw
