"""The connection pool of a process. Connections are borrowed for one transaction, never through a model call."""

from __future__ import annotations

import select
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]

CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "row_factory": dict_row,
    # LangGraph's statements name no schema; ours all do.
    "options": "-c search_path=langgraph -c timezone=UTC -c statement_timeout=30000"
    " -c idle_in_transaction_session_timeout=60000",
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "signoff",
}


def make_pool(database_url: str, size: int) -> Pool:
    """A pool that is not open yet: open it on the loop, and after any fork, that will use it."""
    pool: Pool = AsyncConnectionPool(
        database_url,
        kwargs=CONNECTION,
        min_size=1,
        max_size=size,
        open=False,
        timeout=5.0,
        max_waiting=1000,
        max_idle=300.0,
        check=lambda conn: _refuse_closed(pool, conn),
    )
    return pool


async def _refuse_closed(pool: Pool, conn: AsyncConnection[DictRow]) -> None:
    """Finds a connection that the server has closed, without a round trip: its socket is readable."""
    poll = select.poll()  # select.select takes no descriptor above 1023
    poll.register(conn.fileno(), select.POLLIN)
    if poll.poll(0):
        # The others are most likely gone too. Without this the pool would keep them all: libpq has not noticed yet.
        await pool.drain()
        raise psycopg.OperationalError("the server closed the connection")
