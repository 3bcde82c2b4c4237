"""Dead letters: what nothing goes on with by itself. Four kinds, kept apart; each is requeued or discarded.

- `message`: an inbound message that could not be read
- `effect`: an effect whose tries and time are used up, and that certainly did not happen
- `run`: a job whose run cannot go on
- `webhook`: an event that its subscription did not take
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, Self
from uuid import UUID

from signoff.domain.canonical import scrub
from signoff.domain.errors import DeadLetterNotFound, DeadLetterSettled, SubscriptionDisabled
from signoff.domain.operator_acts import Done, OperatorAct, OperatorActs, once


class LetterKind(StrEnum):
    message = "message"
    effect = "effect"
    run = "run"
    webhook = "webhook"


@dataclass(frozen=True, slots=True)
class LetterId:
    """`message:12`, `effect:op_…`, `run:<the job>`, `webhook:<the sending>`."""

    kind: LetterKind
    key: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises DeadLetterNotFound for what no dead letter is called."""
        kind, _, key = text.partition(":")
        found = cls(LetterKind(kind), key) if kind in LetterKind.__members__ else None
        if found is None or not found._is_possible():
            known = ", ".join(f"{word}:…" for word in LetterKind)
            raise DeadLetterNotFound(f"there is no dead letter {scrub(text)[:200]!r}; they are called {known}")
        return found

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"

    @property
    def position(self) -> int:
        """Of a message."""
        return int(self.key)

    @property
    def uuid(self) -> UUID:
        """Of a run the job, of a webhook the sending."""
        return UUID(self.key)

    def _is_possible(self) -> bool:
        if self.kind is LetterKind.message:
            return self.key.isascii() and self.key.isdigit() and len(self.key) <= 18
        if self.kind is LetterKind.effect:
            return bool(self.key) and scrub(self.key) == self.key
        try:
            return str(UUID(self.key)) == self.key
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Message:
    """An inbound message that was set aside: where it came from, its bytes, and how it was settled, if it was."""

    position: int
    source: str
    entry_id: str
    body: bytes
    settlement: str | None = None


@dataclass(frozen=True, slots=True)
class DeadSending:
    """`is_dead` is False once it was asked for again, or discarded."""

    id: UUID
    subscription: str
    is_dead: bool
    is_disabled: bool


class DeadLetters(Protocol):
    async def lock_message(self, position: int) -> Message | None: ...

    async def settle_message(self, position: int, settlement: str, by: str) -> None: ...

    async def lock_sending(self, sending_id: UUID) -> DeadSending | None: ...

    async def requeue_sending(self, sending_id: UUID) -> None: ...

    async def discard_sending(self, sending_id: UUID) -> None: ...


class LettersTransaction(Protocol):
    @property
    def operator_acts(self) -> OperatorActs: ...
    @property
    def dead_letters(self) -> DeadLetters: ...


class LettersStore(Protocol):
    def begin(self) -> AbstractAsyncContextManager[LettersTransaction]: ...


PutBack = Callable[[Message, str], Awaitable[None]]
"""Puts a message to where it came from, under this idempotency key: twice with the same key counts once.

Raises Invalid for a body that would not be read again, DeadLetterNotRequeueable, BrokerUnavailable."""

Do = Callable[[LettersTransaction], Awaitable[Mapping[str, Any]]]


async def requeue_message(
    store: LettersStore, put_back: PutBack, act: OperatorAct, position: int, body: bytes | None = None
) -> Done:
    """Puts it to its queue once more, as it was or with another body.

    Raises: what `once` raises, DeadLetterNotFound, DeadLetterSettled, and what `put_back` raises.
    """

    async def do(tx: LettersTransaction) -> Mapping[str, Any]:
        message = await _open_message(tx, position)
        # Before the commit: it may come twice to the queue, but never to none, and the key makes one of two.
        await put_back(message if body is None else replace(message, body=body), f"requeued:{position}")
        await tx.dead_letters.settle_message(position, "requeued", act.who.name)
        return {"settlement": "requeued", "source": message.source}

    return await _once(store, act, do)


async def discard_message(store: LettersStore, act: OperatorAct, position: int) -> Done:
    """It is given up; its bytes stay. Raises: what `once` raises, DeadLetterNotFound, DeadLetterSettled."""

    async def do(tx: LettersTransaction) -> Mapping[str, Any]:
        message = await _open_message(tx, position)
        await tx.dead_letters.settle_message(position, "discarded", act.who.name)
        return {"settlement": "discarded", "source": message.source}

    return await _once(store, act, do)


async def requeue_sending(store: LettersStore, act: OperatorAct, sending_id: UUID) -> Done:
    """The same event is sent again, with its whole schedule before it.

    Raises: what `once` raises, DeadLetterNotFound, DeadLetterSettled, SubscriptionDisabled.
    """

    async def do(tx: LettersTransaction) -> Mapping[str, Any]:
        sending = await _dead_sending(tx, sending_id)
        if sending.is_disabled:
            raise SubscriptionDisabled(f"{sending.subscription} is disabled: enable it first")
        await tx.dead_letters.requeue_sending(sending_id)
        return {"settlement": "requeued", "subscription": sending.subscription}

    return await _once(store, act, do)


async def discard_sending(store: LettersStore, act: OperatorAct, sending_id: UUID) -> Done:
    """It is given up. Raises: what `once` raises, DeadLetterNotFound, DeadLetterSettled."""

    async def do(tx: LettersTransaction) -> Mapping[str, Any]:
        sending = await _dead_sending(tx, sending_id)
        await tx.dead_letters.discard_sending(sending_id)
        return {"settlement": "discarded", "subscription": sending.subscription}

    return await _once(store, act, do)


async def _once(store: LettersStore, act: OperatorAct, do: Do) -> Done:
    async with store.begin() as tx:
        return await once(tx, act, lambda: do(tx))


async def _open_message(tx: LettersTransaction, position: int) -> Message:
    message = await tx.dead_letters.lock_message(position)
    if message is None:
        raise DeadLetterNotFound(f"there is no dead letter message:{position}")
    if message.settlement is not None:
        raise DeadLetterSettled(f"message:{position} was {message.settlement} already", settlement=message.settlement)
    return message


async def _dead_sending(tx: LettersTransaction, sending_id: UUID) -> DeadSending:
    sending = await tx.dead_letters.lock_sending(sending_id)
    if sending is None:
        raise DeadLetterNotFound(f"there is no dead letter webhook:{sending_id}")
    if not sending.is_dead:
        raise DeadLetterSettled(f"webhook:{sending_id} is not dead any more")
    return sending
