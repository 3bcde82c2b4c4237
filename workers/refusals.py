"""What the agent is told about a call that did not run, or did not run as proposed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

INSTRUCTIONS = """\
Some of your tool calls are checked by a person before they run. A call may be changed, answered or refused.
When a result says that a call did not run, it did not happen: never say or imply that it did.
Tell the user plainly what was not done, and then do only what the result allows: stop, ask the user, or propose a
revised call once. Never send a refused call again unchanged.
When a result says that a reviewer changed the call, what ran is the changed call: report that one."""

NEXT_STEP = {
    "stop": "Do not try again. Tell the user what was not done.",
    "ask": "Ask the user how to go on before proposing anything else.",
    "revise": "You may propose a revised call that takes this into account.",
}


def rejected(tool: str, message: str | None, then: str) -> str:
    reason = f" Reason: {message}" if message else " No reason was given."
    return f"A reviewer rejected this call. {tool} did not run.{reason} {NEXT_STEP[then]}"


def expired(tool: str) -> str:
    return f"Nobody decided about this call before its deadline. {tool} did not run. {NEXT_STEP['stop']}"


def undecided(tool: str) -> str:
    return f"There is no decision for this call, which counts as a rejection. {tool} did not run. {NEXT_STEP['stop']}"


def denied(tool: str, reason: str) -> str:
    return f"The policy does not allow this call. {tool} did not run. {reason}. {NEXT_STEP['stop']}"


def refused_before(tool: str) -> str:
    return f"Exactly this call was rejected before, so nobody was asked again. {tool} did not run. {NEXT_STEP['stop']}"


def told_to_stop(tool: str) -> str:
    return f"A reviewer has told you to stop. {tool} did not run. {NEXT_STEP['stop']}"


def unknown_tool(tool: str, known: list[str]) -> str:
    return f"There is no tool {tool!r}; nothing ran. The tools are: {', '.join(known)}."


def misfit(tool: str, problem: str) -> str:
    return f"The arguments don't fit {tool}, so it did not run: {problem}. You may correct them."


def revoked(tool: str, reason: str) -> str:
    return f"The approval of this call no longer holds: {reason.rstrip('.')}. {tool} did not run. {NEXT_STEP['stop']}"


def failed(tool: str, reason: str | None) -> str:
    return f"{tool} was refused and did nothing: {reason or 'no reason was given'}."


def doubted(tool: str) -> str:
    return (
        f"Nobody knows whether {tool} did what was asked: its answer was lost. A person will find out."
        " Say so, and do not send it again."
    )


def given_up(tool: str, reason: str | None) -> str:
    return f"{tool} could not be carried out, and nothing happened: {reason or 'its tries were used up'}."


def cancelled(tool: str) -> str:
    return f"The job ended before this call was sent. {tool} did not run."


def interrupted(tool: str) -> str:
    return f"The conversation went on before this call was settled. {tool} did not run because of it."


def unknown(tool: str) -> str:
    return (
        f"The conversation went on before it was known what became of this call. {tool} may have run, or not: a person"
        " has to find out. Say so, and do not send it again."
    )


def edited(tool: str, args: Mapping[str, Any]) -> str:
    return f"[A reviewer changed this call. What ran: {tool}({json.dumps(args, ensure_ascii=False)})]\n"
