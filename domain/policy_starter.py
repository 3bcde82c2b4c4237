"""A first policy for an agent, written from its tools: strict, with a reason at each rule, to be loosened by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from signoff.domain.effects import EffectClass
from signoff.domain.errors import InvalidRequest
from signoff.domain.policy_file import parse_policy
from signoff.domain.tool_patterns import is_exact
from signoff.domain.wording import did_you_mean, unknown_word

TOOL_KEYS = ("class", "schema")
# What a reviewer reads, and the words in a tool's name that tell it.
RISKS: Mapping[str, tuple[str, ...]] = {
    "It may move money.": ("pay", "refund", "charge", "transfer", "withdraw", "purchase", "buy"),
    "It may delete.": ("delete", "remove", "drop", "destroy", "erase", "purge", "truncate", "wipe"),
    "It may send or publish.": ("send", "mail", "sms", "publish", "post", "tweet", "notify", "broadcast"),
    "It may change access rights.": ("grant", "revoke", "role", "permission", "password", "secret", "invite", "share"),
}
# The risks of which one person's word may be too little, and whose arguments may be too much to show.
GRAVE = ("It may move money.", "It may delete.")
_SUGGESTED = """\
# approvals = 2               # two different people
# hide = ["card.number"]      # arguments that a reviewer needn't see\
"""
_HEAD = """\
# A first policy, written from the agent's tools. It is strict: loosen it by hand, where you know better.
# The first rule that matches a call decides. A call that no rule matches is denied: a new tool needs a rule.

# Who is asked when a condition that you add can't be evaluated.
fallback_reviewers = [{reviewers}]
"""
_RISKY = "Always review: money, deletion, sending, access. The name of each of these tools says so."
_OTHER = "Review: what these tools do is not known to be harmless. Their class says that they do more than read."
_FREE = "Free: of class read, which says that nothing changes, and their names say nothing else."


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    effect_class: EffectClass
    word: str | None
    risk: str | None


def starter_policy(tools: Mapping[str, Any], reviewers: str) -> str:
    """A policy in the file form with one rule for each tool; `tools` are as an agent registers them.

    Allowed is what has the class `read` and a name without a word of `RISKS`; all else is reviewed by the group
    `reviewers`. A tool that gives no class has the strictest one.

    Raises:
        InvalidRequest: the tools are not in their form; `details["problems"]` lists all that is wrong.
        PolicyInvalid: a tool's name, or the group's, can't stand in a policy.
    """
    problems = list(_problems(tools))
    if problems:
        raise InvalidRequest("\n  ".join(["the tools can't be used:", *problems]), problems=problems)
    text = "\n".join(_lines([_tool(name, raw) for name, raw in sorted(tools.items())], reviewers))
    parse_policy(text).check_tools(tools)
    return text


def risk_of(name: str) -> tuple[str, str] | None:
    """The first word of RISKS that is anywhere in a tool's name, and its risk: `getpayments` is about money.

    That finds too many rather than too few: `get_payload` has a review to lose, a missed word a guard.
    """
    lower = name.lower()
    found = ((word, risk) for risk, words in RISKS.items() for word in words if word in lower)
    return next(found, None)


def _problems(tools: object) -> Iterator[str]:
    if not isinstance(tools, Mapping):
        yield "must be an object: the tools by name"
        return
    for name, raw in tools.items():
        place = f"tool {name!r}"
        if not is_exact(name):
            yield f"{place}: a rule would read * and ? in its name as wildcards"
        if not isinstance(raw, Mapping):
            yield f'{place}: must be an object, as in {{"class": "read"}}'
            continue
        yield from (f"{place}: {problem}" for problem in _tool_problems(raw))


def _tool_problems(raw: Mapping[str, Any]) -> Iterator[str]:
    for key in raw:
        if key not in TOOL_KEYS:
            yield f"the key {key!r} is unknown{did_you_mean(key, TOOL_KEYS)}"
    if "class" in raw and raw["class"] not in list(EffectClass):
        yield f"class: {unknown_word(raw['class'], EffectClass)}"


def _tool(name: str, raw: Mapping[str, Any]) -> _Tool:
    word, risk = risk_of(name) or (None, None)
    return _Tool(name, EffectClass(raw.get("class", EffectClass.opaque)), word, risk)


def _lines(tools: Sequence[_Tool], reviewers: str) -> Iterator[str]:
    risky = [tool for tool in tools if tool.risk]
    free = [tool for tool in tools if not tool.risk and tool.effect_class is EffectClass.read]
    other = [tool for tool in tools if tool not in risky and tool not in free]
    yield _HEAD.format(reviewers=_quoted(reviewers))
    for title, found in ((_RISKY, risky), (_OTHER, other), (_FREE, free)):
        if found:
            yield f"# --- {title}\n"
            yield from (_rule(tool, None if found is free else reviewers) for tool in found)


def _rule(tool: _Tool, reviewers: str | None) -> str:
    lines = [f"# {_why(tool)}", "[[rules]]", f"tool = {_quoted(tool.name)}"]
    if reviewers is None:
        return "\n".join([*lines, 'verdict = "allow"', ""])
    lines += ['verdict = "review"', f"reviewers = [{_quoted(reviewers)}]"]
    if tool.risk:
        lines.append(f"description = {_quoted(tool.risk)}")
    if tool.risk in GRAVE:
        lines.append(_SUGGESTED)
    return "\n".join([*lines, ""])


def _why(tool: _Tool) -> str:
    of_class = f"of class {tool.effect_class}"
    if tool.word is None:
        return f"{of_class[0].upper()}{of_class[1:]}."
    though = ", although it is" if tool.effect_class is EffectClass.read else "; it is"
    return f"Its name says {tool.word!r}{though} {of_class}."


def _quoted(text: str) -> str:
    """The text as a string of TOML that is one line and only shows."""
    return "".join(char if char.isprintable() else _escape(char) for char in json.dumps(text, ensure_ascii=False))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
