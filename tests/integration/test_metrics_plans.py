"""No measure reads a table that grows without bound but by an index's condition, or by an index of few rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from signoff.infra.telemetry.measures import MEASURES, Measure

SMALL = {"agents", "tallies", "providers", "pauses", "workers", "subscriptions", "alarms", "poison_messages"}
# Of a small table; and read from their end: the newest seal, and the last position.
WITHOUT_CONDITION = {"agents_pkey", "audit_seals_pkey", "evidence_pkey"}


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in node or "Index Name" in node:
        yield node
    for inner in node.get("Plans", ()):
        yield from scans(inner)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: str(measure.name))
def test_each_goes_by_an_index(database_url: str, measure: Measure) -> None:
    with psycopg.connect(database_url) as conn:
        conn.execute("SET enable_seqscan = off")
        partial = {
            name
            for (name,) in conn.execute(
                "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indpred IS NOT NULL"
            )
        }
        row = conn.execute("EXPLAIN (FORMAT JSON) " + measure.sql).fetchone()
        assert row is not None
        for scan in scans(row[0][0]["Plan"]):
            name = scan.get("Index Name")
            bounded = (
                "Index Cond" in scan or name in partial | WITHOUT_CONDITION or scan["Node Type"] == "Bitmap Heap Scan"
            )
            assert bounded or scan.get("Relation Name") in SMALL, (name, scan)
