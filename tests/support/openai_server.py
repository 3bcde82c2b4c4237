"""A server on loopback that speaks OpenAI's wire format: Chat Completions and Responses, not streamed.

What it answers is written down by conversation, which it knows by the user's last words, so that jobs side by side
don't take each other's answers. Like the real one, it refuses a history in which a call has no result, or two.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Message = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call as the model writes it: `arguments` is whatever text, and the id may be missing."""

    name: str
    arguments: str
    id: str | None


@dataclass(frozen=True)
class Says:
    """What the model answers: text, calls, or both."""

    text: str = ""
    calls: Sequence[Call] = ()


@dataclass(frozen=True)
class Raw:
    """An answer that is none of the model's."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"


def fails(status: int) -> Raw:
    return Raw(status, json.dumps({"error": {"message": "not now", "type": "server_error"}}).encode())


NO_ANSWER = fails(418)


@dataclass
class Conversation:
    """Answers in turn, the last one for ever; and the requests that asked for them."""

    answers: list[Says | Raw]
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def histories(self) -> list[list[Message]]:
        """The messages, or input items, of each request."""
        return [request.get("messages") or request["input"] for request in self.requests]


class OpenAIServer:
    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def expect(self, words: str, *answers: Says | Raw) -> Conversation:
        """What is answered to the user who says `words`."""
        with self._lock:
            return self._conversations.setdefault(words, Conversation(list(answers)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    def _answer(self, path: str, request: dict[str, Any]) -> Raw:
        responses = path == "/v1/responses"
        if problem := (problem_of_items(request["input"]) if responses else problem_of(request["messages"])):
            return Raw(400, json.dumps({"error": {"message": problem, "type": "invalid_request_error"}}).encode())
        words, turn = last_words(request.get("messages") or request["input"])
        with self._lock:
            conversation = self._conversations.get(words)
            if conversation is None:
                return NO_ANSWER
            place = min(len(conversation.requests), len(conversation.answers) - 1)
            conversation.requests.append(request)
            answer = conversation.answers[place]
        if isinstance(answer, Raw):
            return answer
        render = _response if responses else _completion
        return Raw(200, json.dumps(render(answer, request["model"], f"{turn}-{place}")).encode())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = server._answer(self.path, request)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.content_type)
                self.send_header("Content-Length", str(len(answer.body)))
                # The client waits as long as it is told before it tries again by itself.
                self.send_header("retry-after-ms", "5")
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        return Handler


def last_words(history: Sequence[Message]) -> tuple[str, int]:
    """What the user said last, and at which place."""
    place = max(place for place, message in enumerate(history) if message.get("role") == "user")
    content = history[place]["content"]
    return (content if isinstance(content, str) else "".join(part["text"] for part in content)), place


def problem_of(messages: Sequence[Message]) -> str | None:
    """Why OpenAI would refuse this history of Chat Completions."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"a result of {message['tool_call_id']!r}, which no call waits for"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"calls without a result: {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(waiting)) != len(waiting) or not all(waiting):
            return f"calls that share an id, or have none: {waiting}"
        if message["role"] == "assistant" and not (message.get("content") or waiting):
            return "a message of the assistant with neither content nor calls"
    return f"calls without a result: {waiting}" if waiting else None


def problem_of_items(items: Sequence[Message]) -> str | None:
    """The same for the input items of Responses."""
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    if len(set(called)) != len(called) or not all(called):
        return f"calls that share an id, or have none: {called}"
    return None if sorted(called) == sorted(answered) else f"calls {called}, results {answered}"


def _completion(says: Says, model: str, name: str) -> dict[str, Any]:
    calls = [
        {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        | ({} if call.id is None else {"id": call.id})
        for call in says.calls
    ]
    message = {"role": "assistant", "content": says.text or None} | ({"tool_calls": calls} if calls else {})
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    about = {"id": f"chatcmpl-{name}", "object": "chat.completion", "created": 1, "model": model}
    return {**about, "choices": [choice], "usage": usage}


def _response(says: Says, model: str, name: str) -> dict[str, Any]:
    text = {"type": "output_text", "text": says.text, "annotations": []}
    told = {"type": "message", "id": f"msg_{name}", "status": "completed", "role": "assistant", "content": [text]}
    called: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"fc_{name}_{place}", "status": "completed"}
        | {"call_id": call.id or "", "name": call.name, "arguments": call.arguments}
        for place, call in enumerate(says.calls)
    ]
    about = {"id": f"resp_{name}", "object": "response", "created_at": 1, "status": "completed", "model": model}
    limits: dict[str, Any] = {
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
    }
    tools = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "top_p": 1.0}
    return {**about, **limits, **tools, "output": [*([told] if says.text else []), *called]}
