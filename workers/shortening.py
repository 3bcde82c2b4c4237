"""The beginning of a result that is too large for the agent."""

from __future__ import annotations

import json
from typing import Any


def beginning(content: str | list[Any], most_bytes: int) -> str | list[Any]:
    """What fits of a message's content. Text ends between two characters; a block that is no text, an image say, stays
    whole or is named; after text that was cut nothing follows."""
    return _text(content, most_bytes) if isinstance(content, str) else _blocks(content, most_bytes)


def with_note(content: str | list[Any], note: str) -> str | list[Any]:
    """The content, and the note behind it."""
    return f"{content}\n{note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]


def size(content: Any) -> int:
    """Its bytes: of text as it is, of anything else as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=repr)
    return len(text.encode("utf-8", errors="replace"))


def _text(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", errors="replace")[: max(0, most_bytes)].decode("utf-8", errors="ignore")


def _blocks(blocks: list[Any], most_bytes: int) -> list[Any]:
    kept: list[Any] = []
    left = most_bytes
    for block in blocks:
        needed = size(block)
        if needed <= left:
            kept.append(block)
        elif (text := _text_of(block)) is not None:
            return [*kept, {"type": "text", "text": _text(text, left)}]
        else:
            needed = size(named := {"type": "text", "text": f"[{_kind(block)} of {needed} bytes, left out]"})
            if needed > left:
                return kept
            kept.append(named)
        left -= needed
    return kept


def _text_of(block: Any) -> str | None:
    if isinstance(block, dict) and block.get("type") == "text":
        block = block.get("text")
    return block if isinstance(block, str) else None


def _kind(block: Any) -> str:
    return str(block.get("type", "block"))[:40] if isinstance(block, dict) else "block"
