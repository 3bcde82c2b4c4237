"""An effect's whole result, as it is shown: also where the agent was told its beginning alone."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.domain.authority import Principal
from signoff.domain.errors import EffectNotFound, EffectPurged
from signoff.infra.effect_results import result_view
from signoff.infra.postgres.views import Query, iso, may_read_jobs

WHOLE = """
SELECT e.tool, e.status, e.purged_at, a.operation_id IS NOT NULL AS aside,
    coalesce(a.result_type, e.result_type) AS result_type, coalesce(a.result, e.result) AS result
FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id
LEFT JOIN signoff.results_aside a ON a.operation_id = e.operation_id WHERE {}
"""


async def show_result(conn: AsyncConnection[DictRow], operation_id: str, who: Principal) -> dict[str, Any]:
    """{"operation_id", "tool", "status", "aside", "bytes", "result"}; `result` is None while there is none.

    Raises:
        EffectNotFound: also for one of a job that `who` may not read.
        EffectPurged: it was there.
    """
    query = Query()
    may_read_jobs(query, who)
    query.add_equal(e__operation_id=operation_id)
    row = await (await conn.execute(WHOLE.format(query.where), query.parameters)).fetchone()
    if row is None:
        raise EffectNotFound(f"there is no effect {operation_id} that you may read")
    if row["purged_at"] is not None:
        raise EffectPurged(f"the result of {operation_id} is no longer kept: it was purged at {iso(row['purged_at'])}")
    return {
        "operation_id": operation_id,
        **{name: row[name] for name in ("tool", "status", "aside")},
        "bytes": len(row["result"] or b""),
        "result": result_view(row["result_type"], row["result"]),
    }
