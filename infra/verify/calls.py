"""What has to be computed again: digests of calls, ways of effects, and voices of those who allowed them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any

from psycopg.rows import DictRow

from signoff.domain.canonical import call_digest
from signoff.domain.effect_paths import Passage, flaws_of
from signoff.domain.effects import EffectStatus
from signoff.domain.errors import UnreadableArguments
from signoff.domain.review_terms import ReviewTerms
from signoff.domain.verifying import Checked
from signoff.infra.verify.checks import Connection, each

CALLS = """
SELECT operation_id AS subject, tool, args, digest FROM signoff.effects WHERE args IS NOT NULL
UNION ALL SELECT id::text, tool, args, digest FROM signoff.items
    WHERE args IS NOT NULL AND purged_at IS NULL
UNION ALL SELECT item_id || ' revision ' || revision, tool, args, digest FROM signoff.revisions
    WHERE purged_at IS NULL
"""
WAYS = """
SELECT e.operation_id AS subject, e.status, e.attempts, h.history
FROM signoff.effects e LEFT JOIN LATERAL (
    SELECT json_agg(json_build_array(from_status, to_status, EXISTS (SELECT FROM signoff.restores r
        WHERE r.created_at <= h.at)) ORDER BY position) AS history
    FROM signoff.effect_events h WHERE h.operation_id = e.operation_id) h ON true
"""
# Of effects that were sent, all who allowed the item that their decision was about.
VOICES = """
SELECT e.operation_id AS subject, i.terms, v.terms AS revised, v.item_id IS NOT NULL AS is_revised,
    i.operation_id = e.operation_id OR v.operation_id = e.operation_id AS as_asked,
    (SELECT json_agg(json_build_array(o.reviewer, o.on_behalf_of) ORDER BY o.decided_at, o.id) FROM signoff.decisions o
        WHERE o.item_id = i.id AND o.counts AND o.operation_id = e.operation_id AND o.digest = e.digest
            AND o.type IN ('approve', 'edit')) AS voices
FROM signoff.effects e JOIN signoff.decisions d ON d.id = e.decision_id JOIN signoff.items i ON i.id = d.item_id
LEFT JOIN signoff.revisions v ON i.revision > 1 AND v.item_id = i.id AND v.revision = i.revision
WHERE e.attempts > 0
"""


async def check_digests(conn: Connection) -> Checked:
    """Each stored call still has the digest that it was approved by."""
    checked = Checked("I3", "calls have their digests")
    async for row in _counted(conn, CALLS, checked):
        if (problem := _wrong_digest(row)) is not None:
            checked.add(row["subject"], problem)
    return checked


async def check_ways(conn: Connection) -> Checked:
    """Each effect came to its state by steps that there are, all of which are in its history."""
    checked = Checked("I8", "each effect's history leads to where it is")
    async for row in _counted(conn, WAYS, checked):
        history = [Passage(EffectStatus(a), EffectStatus(b), restored) for a, b, restored in row["history"] or ()]
        for flaw in flaws_of(EffectStatus(row["status"]), row["attempts"], history):
            checked.add(row["subject"], flaw)
    return checked


async def check_voices(conn: Connection) -> Checked:
    """Each effect that was sent was allowed by as many different people as its review asked for."""
    checked = Checked("I10", "as many people as it needs, and nobody twice")
    async for row in _counted(conn, VOICES, checked):
        terms = ReviewTerms.from_dict(row["revised"] if row["is_revised"] else row["terms"])
        needed = terms.approvals if row["as_asked"] else 1
        spoken = _voices(row["voices"] or ())
        if spoken < needed:
            checked.add(row["subject"], f"it needed {needed} people, and was sent with {spoken}")
    return checked


async def _counted(conn: Connection, query: str, checked: Checked) -> AsyncIterator[DictRow]:
    async with aclosing(each(conn, query)) as rows:
        async for row in rows:
            checked.rows += 1
            yield row


def _wrong_digest(row: DictRow) -> str | None:
    try:
        found = call_digest(row["tool"], row["args"])
    except (UnreadableArguments, TypeError, ValueError):
        return "its arguments can't be read as they were approved"
    return None if found == row["digest"] else "its tool and arguments are not what its digest is of"


def _voices(decisions: Iterable[Any]) -> int:
    spoken: set[str] = set()
    count = 0
    for reviewer, on_behalf_of in decisions:
        people = {name for name in (reviewer, on_behalf_of) if name is not None}
        count += spoken.isdisjoint(people)
        spoken |= people
    return count
