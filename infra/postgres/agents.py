"""Agents as their newest worker registered them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow
from psycopg.types.json import Json

from signoff.domain.policy import Policy


class AgentTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def policy(self, name: str) -> Policy | None:
        cursor = await self._conn.execute("SELECT policy FROM signoff.agents WHERE name = %s", (name,))
        row = await cursor.fetchone()
        return None if row is None else Policy.from_dict(row["policy"])

    async def policy_digest(self, name: str) -> str | None:
        """The digest of that policy."""
        cursor = await self._conn.execute("SELECT policy_digest FROM signoff.agents WHERE name = %s", (name,))
        row = await cursor.fetchone()
        return None if row is None else str(row["policy_digest"])

    async def exists(self, name: str) -> bool:
        cursor = await self._conn.execute("SELECT 1 AS one FROM signoff.agents WHERE name = %s", (name,))
        return await cursor.fetchone() is not None

    async def tools(self, name: str) -> Mapping[str, Any] | None:
        """The agent's tools by name, each with its `schema` and `class`; None if no worker ever served it."""
        cursor = await self._conn.execute("SELECT tools FROM signoff.agents WHERE name = %s", (name,))
        row = await cursor.fetchone()
        return None if row is None else row["tools"]

    async def register(self, name: str, tools: Mapping[str, Any], policy: Policy) -> None:
        await self._conn.execute(
            "INSERT INTO signoff.agents (name, tools, policy, policy_digest) VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET tools = EXCLUDED.tools, policy = EXCLUDED.policy,"
            " policy_digest = EXCLUDED.policy_digest, registered_at = clock_timestamp()",
            (name, Json(tools), Json(policy.to_dict()), policy.digest),
        )
