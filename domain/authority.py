"""Who may do what. Rules only: who somebody is, the store knows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from signoff.domain.errors import NotAReviewer, RightMissing


class Right(StrEnum):
    submit = "submit"
    review = "review"
    operate = "operate"


class PrincipalKind(StrEnum):
    person = "person"
    service = "service"


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a service, with its groups (what policies call reviewers) and rights, as of now."""

    name: str
    kind: PrincipalKind
    groups: frozenset[str] = frozenset()
    rights: frozenset[Right] = frozenset()
    revoked: bool = False


def require_right(who: Principal, right: Right) -> None:
    """Raises RightMissing unless `who` has the right and is not revoked."""
    if who.revoked or right not in who.rights:
        raise RightMissing(f"{who.name} does not have the right '{right}'", principal=who.name, right=str(right))


def may_decide(who: Principal, reviewers: Collection[str]) -> bool:
    """True if `who` is a person with the review right, now, in one of the groups."""
    is_reviewer = who.kind is PrincipalKind.person and Right.review in who.rights and not who.revoked
    return is_reviewer and not who.groups.isdisjoint(reviewers)


def require_reviewer(who: Principal, reviewers: Collection[str]) -> None:
    """Raises NotAReviewer unless `who` may decide for one of the groups."""
    if not may_decide(who, reviewers):
        groups = ", ".join(sorted(reviewers))
        raise NotAReviewer(
            f"{who.name} may not decide this: it needs a person in {groups}", reviewers=sorted(reviewers)
        )


def may_read_job(who: Principal, submitted_by: str, reviewers: Collection[str]) -> bool:
    """True for who submitted the job, for its reviewers, and for operators."""
    if who.revoked:
        return False
    return who.name == submitted_by or Right.operate in who.rights or may_decide(who, reviewers)
