"""The doors that take signed envelopes, each as its sender uses it, over one database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

from signoff.infra.redis.intake import DECISIONS
from signoff.workers import intake
from tests.support.api import Api
from tests.support.streams import World, drained

Fields = Mapping[str, Any]
Send = Callable[[World, Fields], Awaitable[str | None]]
SIGNATURE = ("webhook-id", "webhook-timestamp", "webhook-signature")


async def by_webhook(world: World, fields: Fields) -> str | None:
    """The code that it was refused with; None if it counts."""
    headers = {"content-type": "application/json", **{name: fields[name] for name in SIGNATURE}}
    async with Api(world.services, {}).client(None) as client:
        path = f"/v1/webhooks/{fields['endpoint']}/decisions"
        answer = await client.post(path, content=fields["body"], headers=headers)
    return None if answer.status_code == 200 else str(answer.json()["code"])


async def by_stream(world: World, fields: Fields) -> str | None:
    before = len(await world.refusals())
    await world.redis.xadd(DECISIONS, dict(fields))
    await drained(world.decisions_taker())
    return await _refused_since(world, before)


async def by_celery(world: World, fields: Fields) -> str | None:
    before = len(await world.refusals())
    headers = {name: fields[name] for name in SIGNATURE}
    body = fields["body"].decode()
    await intake.decide_review(world.services, f"task-{uuid4()}", fields["endpoint"], headers, body)
    return await _refused_since(world, before)


async def _refused_since(world: World, before: int) -> str | None:
    codes = [str(refusal["code"]) for refusal in (await world.refusals())[before:]]
    assert len(codes) <= 1
    return codes[0] if codes else None


DOORS: Mapping[str, Send] = {"webhook": by_webhook, "stream": by_stream, "celery": by_celery}
