"""What an adapter between another system's wire form and our decisions promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from signoff.domain.decisions import Answer
from signoff.domain.reviews import Review

MEDIA_PREFIX = "application/vnd.signoff."


def media_type(name: str) -> str:
    return f"{MEDIA_PREFIX}{name}+json"


class Dialect(Protocol):
    """One other system's words for a review and for the decisions on it."""

    @property
    def name(self) -> str: ...

    def read(self, body: Any, review: Review) -> list[Answer]:
        """The decisions that a body of this form holds, never an empty list.

        Raises: a leaf of `Invalid` that names the place and what was expected, for everything that is not this form.
        """
        ...

    def write(self, view: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        """What `review_view` says, as that system would be shown it."""
        ...
