"""LangChain's `HumanInTheLoopMiddleware` in Python: the batch, and the bare decision of its mode `per_call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signoff.domain.decisions import Answer, parse_answers
from signoff.domain.reviews import Review


class LangChain:
    """Our own form: `item_id`, `tool_call_id` and `then` may stand beside LangChain's keys."""

    name = "langchain"

    def read(self, body: Any, review: Review) -> list[Answer]:
        """A bare decision without an address is for the review's only item, as one decision by position is."""
        if isinstance(body, dict) and "type" in body and "decisions" not in body:
            return parse_answers({"decisions": [body]})
        return parse_answers(body)

    def write(self, view: Mapping[str, Any]) -> dict[str, Any]:
        return {"action_requests": view["action_requests"], "review_configs": view["review_configs"]}
