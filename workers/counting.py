"""Counting what goes wrong, without making it worse."""

from __future__ import annotations

import logging

from signoff.domain.errors import SignoffError
from signoff.infra.postgres import tallies
from signoff.infra.postgres.store import PostgresStore

log = logging.getLogger(__name__)


async def count_if_possible(store: PostgresStore, name: str, label: str = "") -> None:
    """What can't be counted now is left out: nothing depends on it."""
    try:
        async with store.connection() as conn:
            await tallies.count(conn, name, label)
    except SignoffError as error:
        log.warning("not counted", extra={"tally": name, "error": error.message})
