"""What the status of an HTTP answer says about an effect, unless its provider says otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from signoff.domain.effects import Outcome

STATUSES: Mapping[tuple[int, int], Outcome] = {
    (200, 299): Outcome.succeeded,
    # Many a form that was carried out answers with one of these; 307 and 308 want the request elsewhere.
    (300, 306): Outcome.unknown,
    (307, 308): Outcome.refused,
    (400, 407): Outcome.refused,
    # A timeout at their end; and of 409, who knows: the same key may be under way.
    (408, 409): Outcome.unknown,
    (410, 424): Outcome.refused,
    (425, 425): Outcome.not_applied,
    (426, 428): Outcome.refused,
    (429, 429): Outcome.not_applied,
    (430, 451): Outcome.refused,
}
"""From, to (both included), outcome; every other status is unknown: 5xx, and numbers that no standard knows."""


@dataclass(frozen=True, slots=True)
class Says:
    """What the statuses of one provider say, where that differs from `STATUSES`."""

    not_applied: Collection[int] = ()
    refused: Collection[int] = ()
    unknown: Collection[int] = ()

    def outcome(self, status: int) -> Outcome:
        """Named twice, the more careful reading holds."""
        if status in self.unknown:
            return Outcome.unknown
        if status in self.not_applied:
            return Outcome.not_applied
        if status in self.refused:
            return Outcome.refused
        return next((found for (first, last), found in STATUSES.items() if first <= status <= last), Outcome.unknown)
