"""Bearer tokens: 256 random bits, shown once; the store keeps a hash alone."""

from __future__ import annotations

import hashlib
import secrets

from signoff.domain.authority import Principal
from signoff.domain.errors import TokenInvalid
from signoff.infra.postgres.principals import PrincipalTable
from signoff.infra.postgres.store import PostgresStore

PREFIX = "sgn_"


def new_token() -> tuple[str, bytes]:
    """(the token, what the store keeps of it)."""
    plain = PREFIX + secrets.token_urlsafe(32)
    return plain, hash_token(plain)


def hash_token(plain: str) -> bytes:
    """One round is enough for 256 random bits. What is compared is the hash, so time tells nothing about the token."""
    return hashlib.sha256(plain.encode(errors="surrogatepass")).digest()


async def authenticate(store: PostgresStore, token: str | None) -> Principal:
    """Who the token belongs to, as they are now.

    Raises:
        TokenInvalid: no token, an unknown or revoked one, or one whose owner is revoked.
    """
    if not token:
        raise TokenInvalid("a bearer token is needed")
    async with store.connection() as conn:
        who = await PrincipalTable(conn).by_token(hash_token(token))
    if who is None or who.revoked:
        raise TokenInvalid("the bearer token is not valid")
    return who
