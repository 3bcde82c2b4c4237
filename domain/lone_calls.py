"""The call that undoes an effect, or makes it once more, and what its review says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from signoff.domain.canonical import call_digest, operation_id
from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.errors import CallDenied, CompensationUndeclared, EffectNotRepeatable, EffectPurged, InvalidRequest
from signoff.domain.origins import Origin, OriginKind
from signoff.domain.policy import Judgement
from signoff.domain.registered import Registered
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.reviews import Item, ItemStatus
from signoff.domain.schemas import first_problem
from signoff.domain.verdicts import AtDeadline, DecisionType, Verdict

S = EffectStatus
GONE = frozenset({S.failed, S.revoked, S.cancelled})
"""Where a call ends of which nothing has come."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the store knows of an effect beside its row.

    `asked` is how often an operator has asked for this before, `pending` whether one of those reviews is still open,
    `earlier` where the effects stand that came of them, oldest first. `result` is what the tool said, as JSON if it is.
    """

    lineage_root: str
    hidden: tuple[str, ...]
    result: Any
    asked: int
    pending: bool
    earlier: tuple[EffectStatus, ...]


@dataclass(frozen=True, slots=True)
class LoneCall:
    """A call, with the paths into its arguments that are hidden whatever its rule says."""

    tool: str
    args: Mapping[str, Any]
    hidden: tuple[str, ...]


def require_repeatable(effect: Effect, origin: Origin, known: Known) -> None:
    """Raises EffectNotRepeatable."""
    if effect.status is not S.succeeded:
        raise EffectNotRepeatable(
            f"the effect is {effect.status}: only what has succeeded can be", status=effect.status
        )
    if known.pending:
        raise EffectNotRepeatable("a review of the same request is open: decide or cancel that")
    last = known.earlier[-1] if known.earlier else None
    compensated = origin.kind is OriginKind.compensation and any(status not in GONE for status in known.earlier)
    under_way = last is not None and last not in (GONE | {S.succeeded, S.skipped})
    if compensated or under_way:
        word = "its compensation" if origin.kind is OriginKind.compensation else "the last repeat"
        raise EffectNotRepeatable(f"{word} is {last} already", status=str(last))


def repeat(effect: Effect, known: Known) -> LoneCall:
    """The same call once more. Raises EffectPurged."""
    if effect.purged_at is not None:
        raise EffectPurged("its arguments are no longer kept, so nobody can say what to execute again")
    return LoneCall(effect.tool, effect.args, known.hidden)


def compensation(effect: Effect, known: Known, tools: Mapping[str, Any], args: Mapping[str, Any] | None) -> LoneCall:
    """The call that the effect's tool declares to undo it; with `args`, if they are given, in place of those declared.

    Raises: CompensationUndeclared, EffectPurged.
    """
    declared: Mapping[str, Any] | None = tools.get(effect.tool, {}).get("compensation")
    if declared is None:
        raise CompensationUndeclared(f"{effect.tool} does not say what undoes it")
    paths: Mapping[str, str] = declared["args"]
    hidden = tuple(name for name, path in paths.items() if _is_hidden(path, known.hidden))
    if args is not None:
        return LoneCall(declared["tool"], args, hidden)
    if effect.purged_at is not None:
        raise EffectPurged("its arguments and result are no longer kept: give those of the compensation")
    facts = {"args": effect.args, "result": known.result, "reference": effect.provider_reference}
    return LoneCall(declared["tool"], {name: _value(facts, path) for name, path in paths.items()}, hidden)


def lone_item(
    call: LoneCall, origin: Origin, known: Known, registered: Registered, who: str, reason: str
) -> tuple[Item, Judgement]:
    """The item of its review, as the policy judges the call now; with that judgement.

    Raises: CallDenied, InvalidRequest (arguments that don't fit the tool), AgentNotFound, UnreadableArguments.
    """
    if not registered.knows(call.tool):
        raise CallDenied(f"the agent has no tool {call.tool!r} any more")
    if problem := first_problem(call.args, registered.schema(call.tool)):
        raise InvalidRequest(f"the arguments don't fit {call.tool}: {problem}", field="args")
    judgement = registered.judge(call.tool, call.args, hidden=call.hidden)
    if judgement.verdict is Verdict.deny:
        raise CallDenied(f"the policy denies it: {judgement.reason}", rule=judgement.rule)
    if not judgement.reviewers:
        raise CallDenied(f"the policy names nobody who could be asked about {call.tool}", rule=judgement.rule)
    return _item(call, origin, known, registered, judgement, f"{who} asks for it: {reason}", who), judgement


def _item(
    call: LoneCall, origin: Origin, known: Known, registered: Registered, judgement: Judgement, reason: str, who: str
) -> Item:
    operation = operation_id(known.lineage_root, origin.message_id, known.asked, 0)
    about = "Undoes" if origin.kind is OriginKind.compensation else "Executes again"
    return Item(
        id=uuid4(),
        ordinal=0,
        status=ItemStatus.open,
        operation_id=operation,
        message_id=origin.message_id,
        call_ordinal=known.asked,
        edits=0,
        tool_call_id=operation,
        tool=call.tool,
        args=call.args,
        unreadable_args=None,
        digest=call_digest(call.tool, call.args),
        description=f"{about} {origin.operation_id}. {judgement.description or ''}".strip(),
        rule=judgement.rule,
        reason=f"{reason}; {judgement.reason}",
        allowed_decisions=_decisions(judgement),
        reviewers=judgement.reviewers,
        args_schema=registered.schema(call.tool),
        deadline_at=None,
        approval_valid_for_seconds=judgement.approval_valid_for_seconds,
        terms=_terms(judgement, who),
        shown=dict(judgement.shown) or None,
        asked_operation_id=operation,
    )


def _terms(judgement: Judgement, who: str) -> ReviewTerms:
    """As the rule says; but time alone does not approve what no agent asked for, and it stays with this tool."""
    terms = replace(ReviewTerms.of(judgement), tool_changes=(), requested_by=who)
    if terms.at_deadline is AtDeadline.approve:
        terms = replace(terms, at_deadline=AtDeadline.reject)
    return terms.with_last_rung(judgement.deadline_seconds)


def _decisions(judgement: Judgement) -> tuple[DecisionType, ...]:
    """No agent waits for a reviewer's answer in its place."""
    asked = tuple(word for word in judgement.decisions if word is not DecisionType.respond)
    return asked or (DecisionType.reject,)


def _value(facts: Mapping[str, Any], path: str) -> Any:
    found: Any = facts
    for name in path.split("."):
        if not isinstance(found, Mapping) or found.get(name) is None:
            raise CompensationUndeclared(f"{path} is not known: give the arguments of the compensation", path=path)
        found = found[name]
    return found


def _is_hidden(path: str, hidden: tuple[str, ...]) -> bool:
    """True if what comes from there lies in, or around, what is hidden of the effect's arguments."""
    first, _, rest = path.partition(".")
    if first != "args":
        return False
    return any(f"{rest}.".startswith(f"{one}.") or f"{one}.".startswith(f"{rest}.") or not rest for one in hidden)
