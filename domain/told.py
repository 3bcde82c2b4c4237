"""What an operator has the agent told in a tool's place, in the form of a tool's own result."""

from __future__ import annotations

import json

from signoff.domain.errors import InvalidRequest

Result = tuple[str, bytes]


def pack_text(text: str) -> Result:
    """A result that the worker reads as it reads a tool's own."""
    return "json", json.dumps({"content": text, "artifact": None, "status": "success"}).encode()


def text_of(result: Result) -> str:
    """The inverse. Raises InvalidRequest for a result that is no such text."""
    kind, payload = result
    found = json.loads(payload) if kind == "json" else None
    content = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, str):
        raise InvalidRequest("what the agent is told in the tool's place must be text")
    return content
