"""What operators do, each act once: with a reason, and a request id by which it is known when it comes again."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID, uuid4

from signoff.domain.authority import Principal, Right, require_right
from signoff.domain.canonical import canonical_json, scrub
from signoff.domain.errors import IdempotencyMismatch, InvalidRequest
from signoff.domain.jobs import MAX_NAME_CHARACTERS

MAX_REASON_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class OperatorAct:
    """What `who` asks for: the act, what it is done to (`subject`), why, and what else belongs to the request (`body`,
    a JSON object). Without a request id it is an act of its own each time."""

    who: Principal
    act: str
    subject: str
    reason: str
    request_id: str | None
    body: Mapping[str, Any]
    job_id: UUID | None

    def digest(self) -> str:
        """Of the request: the same id with another is refused."""
        request = {"act": self.act, "subject": self.subject, "reason": self.reason, "body": dict(self.body)}
        return hashlib.sha256(canonical_json(request)).hexdigest()


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an act; `repeated` if it had been done before, and was not done again."""

    outcome: Mapping[str, Any]
    repeated: bool


@dataclass(frozen=True, slots=True)
class StoredAct:
    """An act that was done: the digest of its request, and its outcome."""

    digest: str
    outcome: Mapping[str, Any]


class OperatorActs(Protocol):
    async def known(self, actor: str, request_id: str) -> StoredAct | None:
        """The act with this id, if it was done. Until the transaction ends nobody else gets an answer for this id."""

    async def add(self, act: OperatorAct, digest: str, outcome: Mapping[str, Any]) -> None: ...


class ActsOnce(Protocol):
    @property
    def operator_acts(self) -> OperatorActs: ...


async def once(tx: ActsOnce, act: OperatorAct, do: Callable[[], Awaitable[Mapping[str, Any]]]) -> Done:
    """Does it and stores its outcome, a JSON object, in the caller's transaction; if the act was done before, its
    outcome is answered and nothing is done. Call it first in the transaction: it waits for another with the same id.

    Raises: RightMissing, InvalidRequest (no reason, or an id that can't be stored), IdempotencyMismatch, and what `do`
    raises.
    """
    require_right(act.who, Right.operate)
    _check(act)
    named = act if act.request_id is not None else replace(act, request_id=str(uuid4()))
    assert named.request_id is not None
    digest = act.digest()
    known = await tx.operator_acts.known(act.who.name, named.request_id)
    if known is not None and known.digest != digest:
        raise IdempotencyMismatch("this request id was used with another request", request_id=named.request_id)
    if known is not None:
        return Done(known.outcome, repeated=True)
    outcome = await do()
    await tx.operator_acts.add(named, digest, outcome)
    return Done(outcome, repeated=False)


def _check(act: OperatorAct) -> None:
    if not _is_text(act.reason, MAX_REASON_CHARACTERS):
        raise InvalidRequest(f"a reason is needed, of at most {MAX_REASON_CHARACTERS} characters", field="reason")
    if act.request_id is not None and not _is_text(act.request_id, MAX_NAME_CHARACTERS):
        raise InvalidRequest(f"a request id is text of 1 to {MAX_NAME_CHARACTERS} characters", field="request_id")


def _is_text(value: str, most: int) -> bool:
    return bool(value.strip()) and len(value) <= most and scrub(value) == value
