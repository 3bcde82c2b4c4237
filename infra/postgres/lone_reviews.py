"""What is known of an effect that is to be undone, or executed again."""

from __future__ import annotations

import json
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.effects import Effect, EffectStatus
from signoff.domain.lone_calls import Known
from signoff.domain.origins import Origin
from signoff.domain.reviews import ALONE
from signoff.infra.effect_results import result_view

KNOWN = """
SELECT t.lineage_root, e.hidden, coalesce(a.result_type, e.result_type) AS result_type,
    coalesce(a.result, e.result) AS result, asked.count AS asked, asked.pending,
    ARRAY(SELECT x.status FROM signoff.effects x WHERE x.origin_operation = e.operation_id AND x.origin = %(kind)s
        ORDER BY x.created_at, x.operation_id) AS earlier
FROM signoff.effects e JOIN signoff.threads t ON t.id = e.thread_id
LEFT JOIN signoff.results_aside a ON a.operation_id = e.operation_id
CROSS JOIN (SELECT count(*) AS count, coalesce(bool_or(r.status = 'pending'), false) AS pending
    FROM signoff.reviews r JOIN signoff.items i ON i.review_id = r.id
    WHERE r.job_id = %(job_id)s AND starts_with(r.interrupt_id, %(alone)s) AND i.message_id = %(message_id)s) AS asked
WHERE e.operation_id = %(operation_id)s
"""


class LoneReviewTable:
    def __init__(self, conn: AsyncConnection[DictRow]) -> None:
        self._conn = conn

    async def known(self, effect: Effect, origin: Origin) -> Known:
        parameters = {
            "kind": origin.kind,
            "job_id": effect.job_id,
            "alone": ALONE,
            "message_id": origin.message_id,
            "operation_id": effect.operation_id,
        }
        row = await (await self._conn.execute(KNOWN, parameters)).fetchone()
        assert row is not None
        return Known(
            lineage_root=row["lineage_root"],
            hidden=tuple(row["hidden"] or ()),
            result=_result(row["result_type"], row["result"]),
            asked=row["asked"],
            pending=row["pending"],
            earlier=tuple(EffectStatus(status) for status in row["earlier"]),
        )


def _result(kind: str | None, raw: bytes | None) -> Any:
    """What the tool said, as JSON if it is that."""
    content = (result_view(kind, raw) or {}).get("content")
    if not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content
