"""The way that an effect went, from its history: each step must be one that there is, and lead on from the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from signoff.domain.effects import TRANSITIONS, EffectStatus

S = EffectStatus
UNSENT = frozenset({S.planned, S.retry_wait})
AFTER_RESTORE = frozenset({(S.planned, S.retry_wait), (S.planned, S.in_doubt), (S.retry_wait, S.retry_wait)})
"""What only a restored backup does: it may have been sent in the lost time."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One row of an effect's history."""

    source: EffectStatus
    target: EffectStatus
    by_restore: bool = False


def flaws_of(status: EffectStatus, attempts: int, history: Sequence[Passage]) -> Iterator[str]:
    """What is wrong with the way to `status`. Dispatches are no rows of their own: an attempt is each of them."""
    here, sent = S.planned, 0
    for passage in history:
        sent += passage.source is S.dispatched
        if not _follows(here, passage.source):
            yield f"it was {here}, and the next step is from {passage.source}"
        if not _exists(passage):
            yield f"there is no way from {passage.source} to {passage.target}"
        here = passage.target
    sent += status is S.dispatched
    if not _follows(here, status):
        yield f"its history leads to {here}, and it is {status}"
    if sent != attempts:
        yield f"its history knows of {sent} dispatches, and it counts {attempts} attempts"


def _follows(here: EffectStatus, then: EffectStatus) -> bool:
    return then is here or (then is S.dispatched and here in UNSENT)


def _exists(passage: Passage) -> bool:
    step = (passage.source, passage.target)
    return passage.target in TRANSITIONS[passage.source] or (passage.by_restore and step in AFTER_RESTORE)
