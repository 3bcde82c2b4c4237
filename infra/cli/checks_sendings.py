"""What the doctor asks Postgres about what did not arrive."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from signoff.infra.cli.checks import Check, judged
from signoff.infra.postgres.subscriptions import OURSELVES

# Whoever disabled one by hand knows of it.
LOST = """
SELECT n.name, n.disabled_at IS NOT NULL AS gone,
    (SELECT count(*) FROM signoff.sendings s WHERE s.subscription_id = n.id AND s.status = 'dead') AS dead
FROM signoff.subscriptions n
WHERE n.disabled_by = %s OR n.disabled_at IS NULL AND EXISTS (
    SELECT FROM signoff.sendings s WHERE s.subscription_id = n.id AND s.status = 'dead')
ORDER BY n.name
"""


async def check_sendings(conn: AsyncConnection[DictRow]) -> Check:
    """Sendings that were given up, and subscriptions whose receiver said that it is gone."""
    rows = await (await conn.execute(LOST, (OURSELVES,))).fetchall()
    found = [f"{row['name']}: {'gone, ' if row['gone'] else ''}{row['dead']} dead" for row in rows]
    remedy = (
        "see `signoff subscriptions sendings NAME --status dead`; once its receiver is well, enable what is gone and"
        " `signoff subscriptions redeliver NAME --status dead`; or disable it by hand, or give each up:"
        " `signoff dead-letters list --kind webhook`, `signoff dead-letters discard LETTER`"
    )
    return judged("sendings", not rows, "; ".join(found) or "none was given up", remedy)
