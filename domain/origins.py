"""What an operator asks for about an effect that has succeeded: a call of its own, which undoes it or repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from signoff.domain.reviews import Item, Review


class OriginKind(StrEnum):
    again = "again"
    compensation = "compensation"


@dataclass(frozen=True, slots=True)
class Origin:
    """Of which effect a call is a compensation, or the same once more."""

    kind: OriginKind
    operation_id: str

    @property
    def message_id(self) -> str:
        """Stands where an agent's call has its message's id: by it the call's own operation id is derived."""
        return f"{'again' if self.kind is OriginKind.again else 'compensate'}:{self.operation_id}"


def origin_of(review: Review) -> Origin | None:
    """What an operator asked for by this review; None for a review of a run."""
    return _origin(review.items[0]) if review.is_alone else None


def _origin(item: Item) -> Origin:
    kind, _, operation_id = item.message_id.partition(":")
    return Origin(OriginKind.again if kind == "again" else OriginKind.compensation, operation_id)
