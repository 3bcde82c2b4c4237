"""Connections to Redis that never wait for long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from signoff.domain.errors import BrokerUnavailable


def connect(redis_url: str, timeout_seconds: float) -> Redis:
    """A client that connects when it is first used. It does not try again by itself: its callers do."""
    return Redis.from_url(
        redis_url,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


@contextmanager
def broker_errors() -> Iterator[None]:
    """Turns whatever Redis or the way to it does into BrokerUnavailable."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise BrokerUnavailable(f"Redis failed: {type(error).__name__}: {error}") from error
