"""Requeueing and discarding a dead letter of any kind: one way for the command line and HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from signoff.domain import dead_letters
from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.cancelling import cancel_job
from signoff.domain.canonical import scrub
from signoff.domain.dead_letters import LetterId, LetterKind
from signoff.domain.errors import DeadLetterNotFound, InvalidRequest
from signoff.domain.operating import replay_effect, skip_effect
from signoff.domain.operator_acts import Done, OperatorAct
from signoff.domain.retrying import retry_job
from signoff.domain.settlements import Settlement
from signoff.infra.effect_results import pack_text
from signoff.infra.postgres.views_dead_letters import is_dead_letter
from signoff.infra.redis.requeueing import PutBack
from signoff.infra.services import Services

DONE = "SELECT 1 AS one FROM signoff.operator_acts WHERE actor = %s AND request_id = %s"
GIVEN_UP = "This was not done: an operator gave it up."


@dataclass(frozen=True, slots=True)
class Request:
    """What an operator asks for, why, and by which id it is known when it comes again."""

    letter: LetterId
    reason: str
    request_id: str | None = None

    def act(self, verb: str, who: Principal, body: Mapping[str, Any]) -> OperatorAct:
        return OperatorAct(who, f"dead_letter.{verb}", str(self.letter), self.reason, self.request_id, body, None)

    def settlement(self, who: Principal) -> Settlement:
        return Settlement(who, self.reason, request_id=self.request_id)

    def answer(self, done: Done) -> dict[str, Any]:
        return {"id": str(self.letter), **done.outcome, "repeated": done.repeated}


async def requeue(services: Services, who: Principal, request: Request, body: bytes | None = None) -> dict[str, Any]:
    """Lets it be tried again: a message as it was or with another `body`.

    Raises: RightMissing, InvalidRequest, and what the act raises that its kind stands for.
    """
    require_right(who, Right.operate)
    repeated = await _check(services, who, request)
    if body is not None and request.letter.kind is not LetterKind.message:
        raise InvalidRequest(f"only a message takes another body, not {request.letter}", field="body")
    ways = {
        LetterKind.message: lambda: _requeue_message(services, who, request, body),
        LetterKind.effect: lambda: replay_effect(
            services.store, services.hints, request.letter.key, request.settlement(who)
        ),
        LetterKind.run: lambda: _retry(services, who, request, repeated),
        LetterKind.webhook: lambda: dead_letters.requeue_sending(
            services.store, request.act("requeue", who, {}), request.letter.uuid
        ),
    }
    return request.answer(await ways[request.letter.kind]())


async def discard(services: Services, who: Principal, request: Request, substitute: str = GIVEN_UP) -> dict[str, Any]:
    """Gives it up: an effect with a `substitute` that the agent is told, a run with its job.

    Raises: RightMissing, InvalidRequest, and what the act raises that its kind stands for.
    """
    require_right(who, Right.operate)
    repeated = await _check(services, who, request)
    ways = {
        LetterKind.message: lambda: dead_letters.discard_message(
            services.store, request.act("discard", who, {}), request.letter.position
        ),
        LetterKind.effect: lambda: _skip(services, who, request, substitute),
        LetterKind.run: lambda: _cancel(services, who, request, repeated),
        LetterKind.webhook: lambda: dead_letters.discard_sending(
            services.store, request.act("discard", who, {}), request.letter.uuid
        ),
    }
    return request.answer(await ways[request.letter.kind]())


async def _requeue_message(services: Services, who: Principal, request: Request, body: bytes | None) -> Done:
    text = None if body is None else scrub(body.decode("utf-8", "replace"))
    act = request.act("requeue", who, {"body": text})
    return await dead_letters.requeue_message(
        services.store, PutBack(services.settings), act, request.letter.position, body
    )


async def _skip(services: Services, who: Principal, request: Request, substitute: str) -> Done:
    return await skip_effect(
        services.store,
        services.hints,
        request.letter.key,
        request.settlement(who),
        pack_text(substitute),
        environment=services.settings.environment,
    )


async def _retry(services: Services, who: Principal, request: Request, repeated: bool) -> Done:
    named = (request.letter.uuid, who, request.reason, request.request_id)
    job = await retry_job(services.store, services.hints, *named)
    return Done({"status": str(job.status)}, repeated)


async def _cancel(services: Services, who: Principal, request: Request, repeated: bool) -> Done:
    named = (request.letter.uuid, who, request.reason, request.request_id)
    job = await cancel_job(services.store, services.hints, *named, held_only=True)
    return Done({"status": str(job.status)}, repeated)


async def _check(services: Services, who: Principal, request: Request) -> bool:
    """True if a request of this id was carried out before. Raises DeadLetterNotFound for what is no dead letter.

    The acts themselves take more: a failed effect can be replayed, a running job cancelled, but not from here.
    """
    async with services.store.connection() as conn:
        cursor = await conn.execute(DONE, (who.name, request.request_id))
        repeated = await cursor.fetchone() is not None
        if not repeated and not await is_dead_letter(conn, request.letter):
            raise DeadLetterNotFound(f"there is no dead letter {request.letter}: it may have been settled")
    return repeated
