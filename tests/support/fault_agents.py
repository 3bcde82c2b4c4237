"""An agent with a tool of every effect class, whose model proposes exactly the calls that the job's input lists.

FAULT_PROVIDER_URL is where `tests.support.provider` answers. Its `note` writes into `public.notes` of our own database.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import httpx
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool

from signoff.domain import Policy, allow, review
from signoff.workers import Agent, NotApplied, ProbeAnswer, Refused, current_effect, effect
from tests.support.provider import LATE_SECONDS

NAME = "faulted"
LEADS = ["support-leads"]
PROVIDER_URL = "FAULT_PROVIDER_URL"
NOTES = "CREATE TABLE IF NOT EXISTS public.notes (operation text NOT NULL, ref text NOT NULL, text text NOT NULL)"
CALL_SECONDS = 3.0
# How long a worker under test stands still at most.
STILL_SECONDS = 3.0
# After this no request of ours is on its way any more, whatever was done to it; shorter where nothing stands still.
QUIET = "FAULT_QUIET_SECONDS"
QUIET_SECONDS = float(os.environ.get(QUIET, CALL_SECONDS + LATE_SECONDS + STILL_SECONDS + 1.0))
PATIENT: dict[str, Any] = {
    "max_attempts": 12,
    "first_delay": timedelta(milliseconds=50),
    "longest_delay": timedelta(seconds=1),
    "circuit_failures": 0,
}


async def _call(tool_name: str, args: Mapping[str, Any], key: str | None = None) -> str:
    mine = current_effect()
    headers = {"X-Operation": mine.operation_id, **({} if key is None else {"Idempotency-Key": key})}
    try:
        async with httpx.AsyncClient(base_url=os.environ[PROVIDER_URL], timeout=CALL_SECONDS, trust_env=False) as http:
            answer = await http.post(f"/calls/{tool_name}", json=dict(args), headers=headers)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NotApplied(f"the provider can't be reached: {error}") from error
    if answer.status_code == 402:
        raise Refused("the provider declined")
    if answer.status_code == 429:
        raise NotApplied("too many requests", retry_after=float(answer.headers["Retry-After"]))
    answer.raise_for_status()
    told = answer.json()
    mine.refer_to(told["id"])
    return f"Done as {told['id']}. {told.get('padding', '')}".strip()


async def _probe(args: Mapping[str, Any]) -> ProbeAnswer:
    async with httpx.AsyncClient(base_url=os.environ[PROVIDER_URL], timeout=CALL_SECONDS, trust_env=False) as http:
        answer = await http.get(f"/calls/{current_effect().operation_id}")
    answer.raise_for_status()
    told = answer.json()
    return ProbeAnswer(told["found"], reference=told["id"])


@effect("keyed", window=timedelta(hours=2), **PATIENT)
@tool
async def pay(ref: str, amount: float, ask: bool = True) -> str:
    """Pays, once for each key."""
    return await _call("pay", {"ref": ref, "amount": amount, "ask": ask}, current_effect().idempotency_key)


@effect("queryable", probe=_probe, quiet_period=timedelta(seconds=QUIET_SECONDS), **PATIENT)
@tool
async def book(ref: str, ask: bool = True) -> str:
    """Books something, and can be asked whether it did."""
    return await _call("book", {"ref": ref, "ask": ask})


@effect("opaque")
@tool
async def mail(ref: str, ask: bool = True) -> str:
    """Sends a mail: nobody can say what became of it."""
    return await _call("mail", {"ref": ref, "ask": ask})


@effect("transactional", **PATIENT)
@tool
async def note(ref: str, text: str, ask: bool = True) -> str:
    """Writes a row into our own database."""
    mine = current_effect()
    insert = "INSERT INTO public.notes (operation, ref, text) VALUES (%s, %s, %s)"
    await mine.connection.execute(insert, (mine.operation_id, ref, text))
    return f"Noted {ref}."


class PlannedModel(BaseChatModel):
    """Proposes the calls of the input, `[[tool, args], …]`, all at once; then says what came of them."""

    @property
    def _llm_type(self) -> str:
        return "planned"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        results = [str(message.text)[:200] for message in messages[last + 1 :] if message.type == "tool"]
        id_ = f"planned-{len(messages)}"
        answer = AIMessage("\n".join(results), id=id_) if results else _proposal(str(messages[last].text), id_)
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _proposal(text: str, id_: str) -> AIMessage:
    calls = [
        ToolCall(name=name, args=args, id=f"{id_}-{place}", type="tool_call")
        for place, (name, args) in enumerate(json.loads(text))
    ]
    return AIMessage("", tool_calls=calls, id=id_)


faulted = Agent(
    name=NAME,
    tools=[pay, book, mail, note],
    policy=Policy([allow("*", when="args.ask == false", reviewers=LEADS), review("*", reviewers=LEADS)]),
    model=PlannedModel(),
)
