"""Delegation: a person lets another decide in their place, for some calls and some time, one step deep."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from signoff.domain.authority import Grant, Principal, PrincipalKind, Right, require_right
from signoff.domain.errors import DelegationRefused, GrantNotFound, InvalidRequest, PrincipalNotFound
from signoff.domain.grants import Given, Scope
from signoff.domain.periods import Period
from signoff.domain.ports import Store, Transaction

LONGEST_DELEGATION = timedelta(days=366)


async def delegate(store: Store, delegator: str, to: str, scope: Scope, period: Period, *, by: str) -> Given:
    """Lets `to` decide these calls in the place of `delegator`, who has to be able to decide them by themselves.

    Raises:
        InvalidRequest (no end, or one that is past or too far away), PrincipalNotFound, DelegationRefused.
    """
    if not period.has_end:
        raise InvalidRequest("a delegation needs an end", field="expires_at")
    if delegator == to:
        raise DelegationRefused(f"{to} can't delegate to themselves")
    async with store.begin() as tx:
        for name in (delegator, to):
            _require_decider(name, await _person(tx, name))
        now = await tx.now()
        grant = Grant(uuid4(), scope.tools, scope.condition, period.ends_at(now, LONGEST_DELEGATION))
        given = Given(grant, to, delegator, by, now)
        await tx.grants.add(given)
    return given


async def end_delegation(store: Store, grant_id: UUID, who: Principal) -> None:
    """Ends a delegation at once, by its delegator or an operator; ended once, it stays so.

    Raises:
        GrantNotFound (also for who has no part in it), RightMissing (the delegate, who is no operator).
    """
    async with store.begin() as tx:
        given = await tx.grants.get(grant_id)
        if given is None or given.delegator is None or not _may_know(who, given):
            raise GrantNotFound(f"there is no delegation {grant_id} that you may see")
        if who.name != given.delegator:
            require_right(who, Right.operate)
        await tx.grants.revoke(grant_id, who.name)


async def _person(tx: Transaction, name: str) -> Principal:
    found = await tx.principals.get(name)
    if found is None:
        raise PrincipalNotFound(f"there is no person {name!r}")
    return found


def _require_decider(name: str, who: Principal) -> None:
    if who.kind is PrincipalKind.service:
        raise DelegationRefused(f"{name} is a service: only persons decide")
    if who.revoked:
        raise DelegationRefused(f"{name} is revoked")
    if Right.review not in who.rights:
        raise DelegationRefused(f"{name} does not have the right 'review'")


def _may_know(who: Principal, given: Given) -> bool:
    return who.name in (given.delegator, given.person) or Right.operate in who.rights
