"""When everything is there: the API answers that it is ready, and a worker has registered its agents."""

from __future__ import annotations

from datetime import datetime
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Self

import psycopg

LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
ANSWER_SECONDS = 2.0


def api_is_ready(host: str, port: int) -> bool:
    connection = HTTPConnection(LOOPBACK_OF.get(host, host), port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


class Registrations:
    """Watches which agents workers register from now on, by the database's clock."""

    def __init__(self, database_url: str) -> None:
        self._conn = psycopg.connect(database_url, autocommit=True)
        self._since: datetime = self._conn.execute("SELECT clock_timestamp()").fetchall()[0][0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._conn.close()

    def agents(self) -> list[str]:
        rows = self._conn.execute(
            "SELECT name FROM signoff.agents WHERE registered_at >= %s ORDER BY name", (self._since,)
        )
        return [row[0] for row in rows.fetchall()]
