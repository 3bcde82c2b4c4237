"""Providers: their circuits and limits. A provider's row is locked last of all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.holding import Bucket, Circuit
from signoff.infra.postgres import waking

COLUMNS = "tokens, counted_at, failures, opened_at, open_until, clock_timestamp() AS now"
# One that has never failed, and has no limits, is of no interest: nobody waits for its row.
LOCK = f"""
SELECT {COLUMNS} FROM signoff.providers WHERE name = %(name)s AND (failures > 0 OR %(any)s) FOR UPDATE
"""
ADD = "INSERT INTO signoff.providers (name) VALUES (%s) ON CONFLICT DO NOTHING"
# After the lock, in a statement of its own: it sees what the last holder of the lock has committed.
IN_FLIGHT = """
SELECT count(*) AS count, clock_timestamp() AS now FROM signoff.effects WHERE status = 'dispatched' AND provider = %s
"""
WAITING = "SELECT count(*) AS count FROM signoff.effects WHERE waits_for = 'limit' AND provider = %s"
SAVE = """
UPDATE signoff.providers SET tokens = coalesce(%(tokens)s, tokens), counted_at = coalesce(%(counted_at)s, counted_at),
    failures = %(failures)s, opened_at = %(opened_at)s, open_until = %(open_until)s,
    last_error = coalesce(%(last_error)s, last_error)
WHERE name = %(name)s
"""
RESET = """
UPDATE signoff.providers v SET failures = 0, opened_at = NULL, open_until = NULL
FROM (SELECT name, opened_at FROM signoff.providers WHERE name = %s AND failures > 0 FOR UPDATE) AS was
WHERE v.name = was.name RETURNING was.opened_at
"""


@dataclass(frozen=True, slots=True)
class LockedProvider:
    """A provider under lock, and the database's time."""

    name: str
    circuit: Circuit
    bucket: Bucket | None
    now: datetime


class ProviderTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def lock(self, name: str) -> LockedProvider:
        """The provider under lock; it is there from now on."""
        found = await self._lock(name, any_=True)
        if found is None:
            await self._conn.execute(ADD, (name,))
            found = await self._lock(name, any_=True)
        assert found is not None
        return found

    async def lock_failing(self, name: str) -> LockedProvider | None:
        """The provider under lock if it has bad ends; None, and nothing locked, if not."""
        return await self._lock(name, any_=False)

    async def in_flight(self, name: str) -> tuple[int, datetime]:
        """How many of its effects are under way, and the time of the count."""
        row = await (await self._conn.execute(IN_FLIGHT, (name,))).fetchone()
        assert row is not None
        return row["count"], row["now"]

    async def waiting(self, name: str) -> int:
        """How many of its effects wait for a limit."""
        row = await (await self._conn.execute(WAITING, (name,))).fetchone()
        assert row is not None
        return int(row["count"])

    async def wait_for(self, name: str, operation_id: str) -> None:
        """The effect, which is locked, counts among those that wait for the provider."""
        await self._conn.execute(
            "UPDATE signoff.effects SET provider = %s WHERE operation_id = %s", (name, operation_id)
        )

    async def save(self, name: str, circuit: Circuit, bucket: Bucket | None = None, error: str | None = None) -> None:
        await self._conn.execute(
            SAVE,
            {
                "name": name,
                "tokens": bucket and bucket.tokens,
                "counted_at": bucket and bucket.counted_at,
                "failures": circuit.failures,
                "opened_at": circuit.opened_at,
                "open_until": circuit.open_until,
                "last_error": error,
            },
        )

    async def exists(self, name: str) -> bool:
        cursor = await self._conn.execute("SELECT FROM signoff.providers WHERE name = %s", (name,))
        return await cursor.fetchone() is not None

    async def wake_circuit(self) -> int:
        """Makes due what no circuit holds back any more. Returns how many effects."""
        return await waking.wake_circuit(self._conn)

    async def reset(self, name: str) -> bool:
        """Forgets its bad ends; True if that has closed its circuit."""
        row = await (await self._conn.execute(RESET, (name,))).fetchone()
        return row is not None and row["opened_at"] is not None

    async def _lock(self, name: str, *, any_: bool) -> LockedProvider | None:
        row = await (await self._conn.execute(LOCK, {"name": name, "any": any_})).fetchone()
        if row is None:
            return None
        circuit = Circuit(row["failures"], row["opened_at"], row["open_until"])
        counted = row["counted_at"] is not None and row["tokens"] is not None
        return LockedProvider(name, circuit, Bucket(row["tokens"], row["counted_at"]) if counted else None, row["now"])
