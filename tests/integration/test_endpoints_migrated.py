"""What was there before endpoints had several secrets is kept: they sign as before, and speak for everybody."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import psycopg
import pytest

from signoff.infra.postgres import migrations
from tests.support.databases import fresh_database


@pytest.fixture
def empty_database(postgres_server: object) -> Iterator[str]:
    with fresh_database(postgres_server.url) as url:  # type: ignore[attr-defined]
        yield url


def test_secrets_move_to_their_own_table(empty_database: str) -> None:
    def sql(name: str) -> bytes:
        return files(migrations).joinpath(name).read_bytes()

    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA signoff")
        conn.execute(sql("0001_main.sql"))
        conn.execute("INSERT INTO signoff.endpoints VALUES ('crm', 'whsec_a', '2026-01-01Z', NULL)")
        conn.execute("INSERT INTO signoff.endpoints VALUES ('old', 'whsec_b', '2026-01-02Z', '2026-01-03Z')")
        conn.execute("INSERT INTO signoff.deliveries (endpoint, id, body_digest) VALUES ('crm', 'msg_1', 'd')")
        conn.execute(sql("0003_endpoints.sql"))
        secrets = conn.execute(
            "SELECT endpoint, secret, created_at = '2026-01-01Z', ends_at FROM signoff.endpoint_secrets ORDER BY secret"
        ).fetchall()
        endpoints = conn.execute("SELECT name, speaks_for, dialect FROM signoff.endpoints ORDER BY name").fetchall()
    assert secrets == [("crm", "whsec_a", True, None), ("old", "whsec_b", False, None)]
    assert endpoints == [("crm", ["*"], None), ("old", ["*"], None)]
