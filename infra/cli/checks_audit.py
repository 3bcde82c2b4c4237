"""What the doctor asks of the audit."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.cli.checks import Check, judged
from signoff.infra.postgres.audit import SEALED_LATE_SECONDS, unsealed


async def check_audit(conn: AsyncConnection[DictRow]) -> Check:
    """Rows that no dispatcher has sealed, or none could: a transaction that stands open may still precede them."""
    waiting = await unsealed(conn)
    late = waiting.seconds > SEALED_LATE_SECONDS
    found = f"{waiting.rows} rows are not sealed, the oldest for {waiting.seconds:.0f} s" if late else "sealed"
    remedy = "is a dispatcher running, and does no other transaction stand open in this server (pg_stat_activity)?"
    return judged("audit", not late, found, remedy)
