"""Putting a message that was set aside to its queue again."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from signoff.domain.dead_letters import Message
from signoff.domain.errors import BrokerUnavailable, DeadLetterNotRequeueable
from signoff.domain.jobs import parse_submit
from signoff.infra.addresses import resolve
from signoff.infra.hints import INTAKE_QUEUE, SUBMIT_JOB, make_broker
from signoff.infra.json_text import parse_json
from signoff.infra.redis.connection import broker_errors, connect
from signoff.infra.redis.intake import JOBS
from signoff.infra.settings import Settings


class PutBack:
    """To the stream, or the Celery task, that the message came by. Only jobs: a signed decision is too old by now."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(self, message: Message, key: str) -> None:
        """Raises Invalid for a body that is no job, DeadLetterNotRequeueable, SettingsInvalid, BrokerUnavailable."""
        if message.source not in (JOBS, SUBMIT_JOB):
            raise DeadLetterNotRequeueable(
                f"it came by {message.source}, and a signature is good for minutes only: have its sender send it again,"
                " or decide with `signoff reviews decide`; and discard it here"
            )
        parse_submit(parse_json(message.body))
        redis_url, seconds = self._redis_url(), self._settings.publish_timeout_seconds
        if message.source == JOBS:
            await _to_stream(redis_url, seconds, message.body, key)
        else:
            await asyncio.to_thread(_to_celery, redis_url, seconds, message.body, key)

    def _redis_url(self) -> str:
        configured = self._settings.redis_url
        return configured.get_secret_value() if configured else resolve(self._settings).redis_url


async def _to_stream(redis_url: str, seconds: float, body: bytes, key: str) -> None:
    client: Redis = connect(redis_url, seconds)
    try:
        with broker_errors():
            await client.xadd(JOBS, {"job": body, "idempotency_key": key})
    finally:
        await client.aclose()


def _to_celery(redis_url: str, seconds: float, body: bytes, key: str) -> None:
    broker = make_broker(redis_url, seconds)
    try:
        broker.send_task(SUBMIT_JOB, args=[body.decode(), key], queue=INTAKE_QUEUE, retry=False, ignore_result=True)
    except Exception as error:
        raise BrokerUnavailable(f"the task could not be sent: {type(error).__name__}: {error}") from error
    finally:
        broker.close()
