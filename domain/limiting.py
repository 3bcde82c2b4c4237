"""Limits: which calls a person may decide by themselves, of those that they are asked about."""

from __future__ import annotations

from uuid import UUID, uuid4

from signoff.domain.authority import Grant, Principal, PrincipalKind
from signoff.domain.errors import GrantNotFound, InvalidRequest, PrincipalNotFound, PrincipalRevoked
from signoff.domain.grants import Given, Scope
from signoff.domain.periods import Period
from signoff.domain.ports import Store, Transaction


async def limit(store: Store, name: str, scope: Scope, period: Period, *, by: str) -> Given:
    """Adds a grant. From the first one on the person decides only what one of them covers, also when all have ended.

    Raises:
        PrincipalNotFound, PrincipalRevoked, InvalidRequest (a service; an end that is past).
    """
    async with store.begin() as tx:
        await require_person(tx, name)
        now = await tx.now()
        given = Given(Grant(uuid4(), scope.tools, scope.condition, period.ends_at(now)), name, None, by, now)
        await tx.grants.add(given)
        await tx.grants.set_limited(name, True, by)
    return given


async def unlimit(store: Store, name: str, *, by: str) -> None:
    """Takes the limit away, with the grants that it was made of. Delegations stay.

    Raises:
        PrincipalNotFound, PrincipalRevoked, InvalidRequest (a service).
    """
    async with store.begin() as tx:
        await require_person(tx, name)
        await tx.grants.set_limited(name, False, by)
        await tx.grants.revoke_own(name, by)


async def revoke_grant(store: Store, grant_id: UUID, *, by: str) -> Given:
    """Takes a grant or a delegation back at once; a person who was limited stays limited. Raises GrantNotFound."""
    async with store.begin() as tx:
        given = await tx.grants.get(grant_id)
        if given is None:
            raise GrantNotFound(f"there is no grant {grant_id}")
        await tx.grants.revoke(grant_id, by)
    return given


async def require_person(tx: Transaction, name: str) -> Principal:
    """Raises PrincipalNotFound, PrincipalRevoked, InvalidRequest (a service)."""
    found = await tx.principals.get(name)
    if found is None:
        raise PrincipalNotFound(f"there is no person {name!r}")
    if found.kind is PrincipalKind.service:
        raise InvalidRequest(f"{name} is a service: only persons decide")
    if found.revoked:
        raise PrincipalRevoked(f"{name} is revoked, for good")
    return found
