"""What holds effects back: active pauses, and whether there is anything at all that might."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import DictRow

# Part of the statement that every fenced transaction begins with: where it is false, nobody looks any further.
HOLDS_BACK = """(EXISTS (SELECT FROM signoff.pauses p WHERE p.ended_at IS NULL)
        OR EXISTS (SELECT FROM signoff.providers v WHERE v.failures > 0))"""

# The pauses that hold back the effects of an agent (`e.agent`) and tool (`e.tool`).
COVERS = "p.ended_at IS NULL AND (p.agent IS NULL OR p.agent = e.agent) AND (p.tool IS NULL OR p.tool = e.tool)"

FIND = f"""
SELECT p.id, p.reason FROM signoff.pauses p, (SELECT %(agent)s::text AS agent, %(tool)s::text AS tool) AS e
WHERE {COVERS} ORDER BY p.created_at LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class ActivePause:
    id: UUID
    reason: str


async def pause_over(conn: AsyncConnection[DictRow], agent: str, tool: str) -> ActivePause | None:
    """The oldest active pause of everything, of this agent, of this tool, or of both together."""
    row = await (await conn.execute(FIND, {"agent": agent, "tool": tool})).fetchone()
    return None if row is None else ActivePause(**row)
