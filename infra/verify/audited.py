"""That each act left its row in the audit, and that no row of the audit speaks of what is not there. I11."""

from __future__ import annotations

from signoff.infra.verify.checks import SqlCheck

# What is older than the audit itself left no row in it.
SINCE = "(SELECT coalesce(min(at), 'infinity') FROM signoff.audit)"


def _rows_of(table: str, subject: str, key: str, at: str, act: str, audited: str, where: str = "true") -> SqlCheck:
    """Each row of the table has its row of the audit, and the reverse. Both sides are reduced to a text."""
    return SqlCheck(
        "I11",
        f"{table} and the audit agree",
        f"signoff.{table} WHERE {where}",
        f"""SELECT coalesce(t.subject, a.key) AS subject, CASE WHEN a.key IS NULL THEN 'no row of the audit tells of '
            ELSE 'the audit tells of what is not there: ' END || coalesce(t.key, a.key) AS message
        FROM (SELECT {subject}::text AS subject, {key} AS key, {at} AS at FROM signoff.{table} WHERE {where}) t
        FULL JOIN (SELECT {audited} AS key FROM signoff.audit WHERE {act}) a ON a.key = t.key
        WHERE a.key IS NULL AND t.at > {SINCE} OR t.key IS NULL""",
    )


CHECKS = (
    _rows_of("decisions", "id", "id::text", "decided_at", "act = 'item.decided'", "body ->> 'decision'"),
    _rows_of(
        "attempts",
        "operation_id",
        "operation_id || ' try ' || number",
        "dispatched_at",
        "act = 'attempt.dispatched'",
        "(body ->> 'operation') || ' try ' || (body ->> 'attempt')",
    ),
    _rows_of(
        "operator_acts",
        "subject",
        "actor || ' ' || request_id",
        "at",
        # An act's own columns: its row of the audit may be one of many with this beginning.
        "act LIKE 'operator.%%' AND body ->> 'request' IS NOT NULL",
        "actor || ' ' || (body ->> 'request')",
    ),
    SqlCheck(
        "I11",
        "each step of an effect is in the audit",
        "signoff.effect_events",
        f"""WITH steps AS (
            SELECT operation_id, from_status || ' to ' || to_status AS step, count(*) AS times
                FROM signoff.effect_events
            WHERE at > {SINCE} AND NOT (from_status = 'dispatched' AND to_status = 'succeeded') GROUP BY 1, 2),
        told AS (
            SELECT body ->> 'operation' AS operation_id, (body ->> 'from') || ' to ' || (body ->> 'to') AS step,
                count(*) AS times
            FROM signoff.audit WHERE act = 'effect.moved' GROUP BY 1, 2)
        SELECT coalesce(s.operation_id, t.operation_id) AS subject, 'it went from ' || coalesce(s.step, t.step) || ' '
            || coalesce(s.times, 0) || ' times, and the audit says ' || coalesce(t.times, 0) AS message
        FROM steps s FULL JOIN told t USING (operation_id, step) WHERE s.times IS DISTINCT FROM t.times""",
    ),
    SqlCheck(
        "I11",
        "what was sent is what the audit saw",
        "signoff.audit WHERE act = 'attempt.dispatched'",
        """SELECT e.operation_id AS subject, 'the call that was sent had another digest' AS message
        FROM signoff.audit a JOIN signoff.effects e ON e.operation_id = a.body ->> 'operation'
        WHERE a.act = 'attempt.dispatched' AND substr(a.digests, 1, 32) <> signoff.digest_bytes(e.digest)""",
    ),
)
