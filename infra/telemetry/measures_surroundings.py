"""Measures of what is around jobs and effects: events on their way out, dead letters, workers, the audit."""

from __future__ import annotations

from signoff.infra.postgres.audit import UNSEALED
from signoff.infra.telemetry.measuring import Family, Measure

# While Redis is away they pile up: beyond this many it makes no difference how many there are.
MOST_COUNTED = 10_000

OUTBOX = f"""
SELECT (SELECT count(*) FROM (SELECT FROM signoff.events WHERE published_at IS NULL LIMIT {MOST_COUNTED}) AS counted)
    AS events,
    coalesce((SELECT extract(epoch FROM now() - at) FROM signoff.events WHERE published_at IS NULL
        ORDER BY position LIMIT 1), 0)::float8 AS seconds
"""
SENDINGS = f"""
SELECT coalesce(sum(due.sendings), 0)::float8 AS sendings,
    coalesce(extract(epoch FROM now() - min(due.since)), 0)::float8 AS seconds
FROM signoff.subscriptions n, LATERAL (
    SELECT count(*) AS sendings, min(next_at) AS since FROM (
        SELECT next_at FROM signoff.sendings s WHERE s.subscription_id = n.id AND s.status = 'pending'
            AND s.next_at <= now() ORDER BY next_at LIMIT {MOST_COUNTED}) AS counted) AS due
WHERE n.disabled_at IS NULL
"""
LETTERS = """
SELECT 'message' AS kind, count(*) AS letters FROM signoff.poison_messages WHERE settlement IS NULL
UNION ALL SELECT 'effect', count(*) FROM signoff.effects
    WHERE status IN ('in_doubt', 'dead', 'failed') AND status = 'dead'
UNION ALL SELECT 'run', count(*) FROM signoff.jobs
    WHERE status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator')
        AND status = 'awaiting_operator' AND error_code IS DISTINCT FROM 'effect_held'
UNION ALL SELECT 'webhook', count(*) FROM signoff.subscriptions n
    JOIN signoff.sendings s ON s.subscription_id = n.id AND s.status = 'dead'
"""
# Gone without a word are those that were not seen for a while and did not say that they stop.
WORKERS = """
SELECT count(*) FILTER (WHERE stopped_at IS NULL AND seen_at > now() - interval '1 minute') AS live,
    count(*) FILTER (WHERE stopped_at IS NULL AND seen_at <= now() - interval '1 minute'
        AND seen_at > now() - interval '1 hour') AS gone,
    coalesce(max(abs(clock_offset_seconds)) FILTER (WHERE stopped_at IS NULL
        AND seen_at > now() - interval '1 minute'), 0)::float8 AS clock_offset
FROM signoff.workers
"""
SERVED = """
SELECT a.name AS agent, count(w.name) AS workers FROM signoff.agents a
LEFT JOIN signoff.workers w ON a.name = ANY (w.agents) AND w.stopped_at IS NULL AND w.drain_requested_at IS NULL
    AND w.seen_at > now() - interval '1 minute'
GROUP BY a.name
"""

SURROUNDING_MEASURES = (
    Measure(
        "outbox",
        OUTBOX,
        (
            Family("signoff_outbox_events", f"Events that are not published yet; {MOST_COUNTED} at most", (), "events"),
            Family("signoff_outbox_lag_seconds", "How long the oldest of them has waited", (), "seconds"),
        ),
    ),
    Measure(
        "sendings",
        SENDINGS,
        (
            Family("signoff_sendings_due", "Sendings to subscriptions that are due now", (), "sendings"),
            Family("signoff_sendings_lag_seconds", "How long the oldest of them has been due", (), "seconds"),
        ),
    ),
    Measure("dead_letters", LETTERS, (Family("signoff_dead_letters", "Dead letters", ("kind",), "letters"),)),
    Measure(
        "workers",
        WORKERS,
        (
            Family("signoff_workers_live", "Workers that were seen within a minute", (), "live"),
            Family("signoff_workers_gone", "Workers that left without a word in the last hour", (), "gone"),
            Family("signoff_worker_clock_offset_seconds", "The worst clock among workers", (), "clock_offset"),
        ),
    ),
    Measure(
        "served",
        SERVED,
        (Family("signoff_agent_workers", "Live workers that serve the agent and do not drain", ("agent",), "workers"),),
    ),
    Measure(
        "audit",
        UNSEALED,
        (Family("signoff_audit_unsealed_seconds", "How long the oldest row waits for its seal", (), "seconds"),),
    ),
)
