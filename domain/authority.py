"""Who may do what. Rules only: who somebody is, the store knows.

To see a review and to decide it are rights of their own. Whoever decides needs the right, must be one of the call's
reviewers, and may be limited further by grants; a delegate decides in the place of somebody who could have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from signoff.domain.conditions import CannotEvaluate, ConditionInvalid, Facts, compile_condition
from signoff.domain.errors import BeyondAuthority, NotAReviewer, RightMissing, SubmitterMayNotDecide
from signoff.domain.tool_patterns import matches


class Right(StrEnum):
    submit = "submit"
    see = "see"  # reviews, without deciding them
    review = "review"  # see reviews and decide them
    reveal = "reveal"  # see the arguments that a rule hides
    standing = "standing"  # allow or refuse a tool for a job, a thread or some time
    operate = "operate"


class PrincipalKind(StrEnum):
    person = "person"
    service = "service"


PERSONAL = frozenset({Right.review, Right.standing})
"""Rights that only a person can have: a token that an agent could hold decides nothing."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A call as conditions see it, with its true arguments; `args` is None if they can't be read.

    `requested_by` is the operator who asked for a call that no agent made.
    """

    tool: str
    args: Mapping[str, Any] | None
    job: Mapping[str, Any]
    environment: str
    destination: Any = None
    unseen: Mapping[str, Any] | None = None
    requested_by: str | None = None

    @property
    def submitted_by(self) -> str | None:
        return self.job.get("submitted_by")

    def is_of(self, name: str) -> bool:
        """True for who wants the call, and so does not decide about it: four eyes."""
        return name in (self.submitted_by, self.requested_by)

    def satisfies(self, condition: str | None) -> bool:
        """False also if the condition can't be evaluated: unsure means no."""
        return self.answer(condition) is True

    def answer(self, condition: str | None) -> bool | None:
        """What the condition says of this call; None if it can't be evaluated."""
        if condition is None:
            return True
        if self.args is None:
            return None
        try:
            compiled = compile_condition(condition)
            return compiled.holds(Facts(self._variables(self.args), compiled.names))
        except (ConditionInvalid, CannotEvaluate):
            return None

    def _variables(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "args": dict(args),
            "job": dict(self.job),
            "environment": self.environment,
            "destination": self.destination,
            "unseen": dict(self.unseen or {}),
        }


@dataclass(frozen=True, slots=True)
class Grant:
    """Calls that somebody may decide: of these tools (patterns), under a condition (CEL), until a time."""

    id: UUID
    tools: tuple[str, ...]
    condition: str | None = None
    expires_at: datetime | None = None

    def covers(self, call: CallFacts, now: datetime) -> bool:
        current = self.expires_at is None or now < self.expires_at
        return current and any(matches(tool, call.tool) for tool in self.tools) and call.satisfies(self.condition)


@dataclass(frozen=True, slots=True)
class Delegation:
    """A grant to decide in somebody's place, with that person as they are now. Their own delegations don't count."""

    grant: Grant
    delegator: Principal


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a service, with its groups (what policies call reviewers), rights and authority, as of now.

    Who is `limited` decides only what one of the grants covers.
    """

    name: str
    kind: PrincipalKind
    groups: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset()
    revoked: bool = False
    limited: bool = False
    grants: tuple[Grant, ...] = ()
    delegations: tuple[Delegation, ...] = ()


@dataclass(frozen=True, slots=True)
class Authority:
    """By whose right something is decided: one's own, or that of somebody who delegated it."""

    reviewer: str
    on_behalf_of: str | None = None

    @property
    def people(self) -> frozenset[str]:
        """Everybody whose one voice this is: none of them counts again."""
        return frozenset({self.reviewer, self.on_behalf_of} - {None})  # type: ignore[arg-type]


def require_right(who: Principal, right: Right) -> None:
    """Raises RightMissing unless `who` has the right and is not revoked."""
    if who.revoked or right not in who.rights:
        raise RightMissing(f"{who.name} does not have the right '{right}'", principal=who.name, right=str(right))


def is_reviewer(who: Principal) -> bool:
    """True for a person with the review right, now."""
    return who.kind is PrincipalKind.person and Right.review in who.rights and not who.revoked


def is_among(who: Principal, reviewers: Collection[str]) -> bool:
    """True if the reviewers (groups, and people written `@name`) name `who` or one of the groups."""
    # A group that is written like a person is none: it would be taken for that person.
    return f"@{who.name}" in reviewers or any(group in reviewers and not group.startswith("@") for group in who.groups)


def may_decide(who: Principal, reviewers: Collection[str]) -> bool:
    """True if `who` is a reviewer and among these; limits are not looked at."""
    return is_reviewer(who) and is_among(who, reviewers)


def seen_as(who: Principal) -> list[str]:
    """The reviewers (groups, and people written `@name`) whose reviews somebody may see now."""
    if who.revoked or who.rights.isdisjoint({Right.see, Right.review}):
        return []
    held = who.delegations if is_reviewer(who) else ()
    delegators = [delegation.delegator for delegation in held if is_reviewer(delegation.delegator)]
    groups = {group for one in (who, *delegators) for group in one.groups if not group.startswith("@")}
    return sorted(groups | {f"@{one.name}" for one in (who, *delegators)})


def may_reveal(who: Principal) -> bool:
    """True if `who` sees the arguments that rules hide."""
    return Right.reveal in who.rights and not who.revoked


def authority_over(
    who: Principal,
    reviewers: Collection[str],
    call: CallFacts,
    *,
    now: datetime,
    spoken: frozenset[str] = frozenset(),
) -> Authority:
    """By what right `who` may decide this call now; `spoken` have had their voice in it, and delegate none.

    Raises:
        NotAReviewer: not one of the reviewers, nor a delegate of one.
        SubmitterMayNotDecide: who submitted the job, or asked for the call, never decides about it.
        BeyondAuthority: a reviewer, whose grants don't cover this call.
    """
    own = may_decide(who, reviewers)
    if call.is_of(who.name) and (own or who.delegations):
        did = "submitted the job" if who.name == call.submitted_by else "asked for it"
        raise SubmitterMayNotDecide(f"{who.name} {did}, so somebody else has to decide")
    if own and _own_covers(who, call, now):
        return Authority(who.name)
    for delegator in _delegators(who, reviewers, call, now):
        if delegator.name not in spoken:
            return Authority(who.name, delegator.name)
    if own:
        raise BeyondAuthority(f"{who.name} may not decide this call of {call.tool}: no grant covers it", tool=call.tool)
    raise _not_a_reviewer(who, reviewers)


def still_holds(
    authority: Authority, who: Principal | None, reviewers: Collection[str], call: CallFacts, now: datetime
) -> bool:
    """True if the authority by which something was decided would be enough now. `who` is the reviewer as of now."""
    if who is None or who.name != authority.reviewer or call.is_of(who.name):
        return False
    if authority.on_behalf_of is None:
        return may_decide(who, reviewers) and _own_covers(who, call, now)
    return any(one.name == authority.on_behalf_of for one in _delegators(who, reviewers, call, now))


def require_reviewer(who: Principal, reviewers: Collection[str]) -> None:
    """Raises NotAReviewer unless `who`, or somebody who delegated to `who`, may decide for one of the reviewers."""
    delegators = [delegation.delegator for delegation in who.delegations if is_reviewer(who)]
    if not any(may_decide(one, reviewers) for one in (who, *delegators)):
        raise _not_a_reviewer(who, reviewers)


def may_read_job(who: Principal, submitted_by: str, reviewers: Collection[str]) -> bool:
    """True for who submitted the job, for who may see its reviews, and for operators."""
    if who.revoked:
        return False
    return who.name == submitted_by or Right.operate in who.rights or not set(seen_as(who)).isdisjoint(reviewers)


def _own_covers(who: Principal, call: CallFacts, now: datetime) -> bool:
    return not who.limited or any(grant.covers(call, now) for grant in who.grants)


def _delegators(who: Principal, reviewers: Collection[str], call: CallFacts, now: datetime) -> Iterator[Principal]:
    """Those in whose place `who` may decide this call now: the delegation covers it, and they could decide it."""
    if not is_reviewer(who):
        return
    for delegation in who.delegations:
        delegator = delegation.delegator
        able = may_decide(delegator, reviewers) and _own_covers(delegator, call, now)
        if able and not call.is_of(delegator.name) and delegation.grant.covers(call, now):
            yield delegator


def _not_a_reviewer(who: Principal, reviewers: Collection[str]) -> NotAReviewer:
    names = ", ".join(sorted(reviewers))
    return NotAReviewer(f"{who.name} may not decide this: it needs a person in {names}", reviewers=sorted(reviewers))
