"""Noticing that a database is not the one it was: a backup was put in its place, and nobody has said so.

The newest seal of the audit is kept in Redis beside the database. A chain only grows: where a seal that was seen is
gone, or is another one now, the database has gone back to what it was before that seal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Which database it is, how many restores were told of it, and its newest seal (0 and '' before the first)."""

    installation: str
    restores: int
    seal: int
    hash: str


def has_gone_back(seen: Whereabouts | None, now: Whereabouts, hash_there: str | None) -> bool:
    """True if what was `seen` is no longer there, and no restore was told since.

    `hash_there` is what the database has as the seal that was seen. Another database is none that has gone back.
    """
    if seen is None or seen.installation != now.installation or seen.restores < now.restores:
        return False
    return seen.restores > now.restores or (seen.seal > 0 and hash_there != seen.hash)
