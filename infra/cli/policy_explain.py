"""`signoff policy explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from signoff.domain.policy import Judgement, Policy
from signoff.domain.policy_cases import PolicyCall, read_call
from signoff.domain.policy_checks import rule_name
from signoff.domain.tool_patterns import matches
from signoff.domain.verdicts import Verdict
from signoff.infra.cli.acting import load_settings
from signoff.infra.cli.output import JsonFlag, print_facts, print_json, print_line, print_table
from signoff.infra.cli.policy_reading import json_argument, read_policy

PassedOver = Sequence[tuple[str, str]]


def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The policy", exists=True, dir_okay=False)],
    call: Annotated[
        str,
        typer.Option(
            metavar="JSON", help='The call, as {"tool": "refund", "args": {}}; destination and unseen may be added'
        ),
    ],
    job: Annotated[str, typer.Option(metavar="JSON", help="What conditions see as job")] = "{}",
    environment: Annotated[str | None, typer.Option(metavar="NAME", help="Instead of SIGNOFF_ENVIRONMENT")] = None,
    json: JsonFlag = False,
) -> None:
    """Say which rule of a policy decides on a call, and why none before it does."""
    policy = read_policy(file)
    place = load_settings().environment if environment is None else environment
    asked = read_call(_json(call, "--call"), _json(job, "--job"), place)
    judgement = asked.judge(policy)
    facts, passed = _facts(judgement), _passed_over(policy, asked, judgement)
    if json:
        print_json({**facts, "passed_over": [{"rule": rule, "reason": reason} for rule, reason in passed]})
    else:
        _print(facts, passed)


def _json(text: str, option: str) -> Any:
    return json_argument(text.encode(errors="surrogateescape"), option)


def _facts(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": str(judgement.verdict),
        "rule": judgement.rule,
        "reason": judgement.reason,
        **(_asked(judgement) if judgement.verdict is Verdict.review else _NOBODY),
        "high_risk": judgement.high_risk,
        "description": judgement.description,
        "hidden": list(judgement.hidden),
        "policy_digest": judgement.policy_digest,
    }


_NOBODY: Mapping[str, Any] = {
    "reviewers": [],
    "approvals": 0,
    "decisions": [],
    "deadline_seconds": None,
    "ladder": [],
    "at_deadline": None,
    "escalate_to": [],
    "approval_valid_for_seconds": None,
    "tool_changes": [],
    "edits_need_another": False,
    "shown": {},
}


def _asked(judgement: Judgement) -> dict[str, Any]:
    return {
        "reviewers": list(judgement.reviewers),
        "approvals": judgement.approvals,
        "decisions": [str(word) for word in judgement.decisions],
        "deadline_seconds": judgement.deadline_seconds,
        "ladder": [rung.to_dict() for rung in judgement.ladder],
        "at_deadline": str(judgement.at_deadline) if judgement.deadline_seconds else None,
        "escalate_to": list(judgement.escalate_to),
        "approval_valid_for_seconds": judgement.approval_valid_for_seconds,
        "tool_changes": list(judgement.tool_changes),
        "edits_need_another": judgement.edits_need_another,
        "shown": dict(judgement.shown),
    }


def _passed_over(policy: Policy, call: PolicyCall, judgement: Judgement) -> PassedOver:
    """The rules before the one that decided; all of them, if none did.

    A condition without an answer would have decided, so each that was asked here is false.
    """
    names = [rule_name(rule.raw(), index) for index, rule in enumerate(policy.rules)]
    # A rule could be called as no rule is: its reason tells them apart.
    nobody = judgement.reason == call.judge(Policy()).reason
    before = len(names) if nobody else names.index(judgement.rule)
    return [
        (name, f"its condition is false: {rule.when}" if matches(rule.tool, call.tool) else f"it is for {rule.tool}")
        for name, rule in zip(names[:before], policy.rules, strict=False)
    ]


def _print(facts: dict[str, Any], passed: PassedOver) -> None:
    print_facts({name.replace("_", " "): _in_words(name, value) for name, value in facts.items()})
    if passed:
        print_line("\nThese come before and don't match:")
        print_table(("rule", "because"), passed)


def _in_words(name: str, value: Any) -> Any:
    if name == "ladder":
        return "; ".join(map(_rung, value)) or None
    if name == "shown":
        return "; ".join(f"{path} = {dumps(fact, ensure_ascii=False)}" for path, fact in value.items()) or None
    if isinstance(value, bool) or value == 0:
        return "yes" if value else None
    return ", ".join(value) or None if isinstance(value, list) else value


def _rung(rung: Mapping[str, Any]) -> str:
    after = f"after {rung['after_seconds']:g} s"
    if not rung["reviewers"]:
        return f"{after} a reminder"
    return f"{after} {', '.join(rung['reviewers'])} {'instead' if rung['replace'] else 'too'}"
