"""Effects: what the ledger claims is what is known. I5, I8, and of I12 what the ledger shows."""

from __future__ import annotations

from signoff.infra.verify.checks import SqlCheck

BY_A_PERSON = "EXISTS (SELECT FROM signoff.principals p WHERE p.name = h.actor)"
# An answer about the operation that came later than a try whose outcome nobody knows.
ANSWERED = f"""(EXISTS (SELECT FROM signoff.probes q WHERE q.operation_id = a.operation_id AND q.attempt >= a.number
        AND q.finding IN ('refused', 'not_found'))
    OR EXISTS (SELECT FROM signoff.evidence v WHERE v.operation_id = a.operation_id
        AND coalesce(v.attempt, a.number) >= a.number AND v.outcome IN ('refused', 'not_applied'))
    OR EXISTS (SELECT FROM signoff.effect_events h WHERE h.operation_id = a.operation_id AND h.from_status = 'in_doubt'
        AND h.at >= a.dispatched_at AND {BY_A_PERSON}))"""
ENDS = "('succeeded', 'failed', 'revoked', 'cancelled', 'skipped')"

CHECKS = (
    SqlCheck(
        "I5",
        "somebody said that it happened",
        "signoff.effects WHERE status = 'succeeded'",
        f"""SELECT e.operation_id AS subject,
            'it has succeeded, and neither a try, a probe, evidence nor an operator says so'
            AS message
        FROM signoff.effects e WHERE e.status = 'succeeded'
            AND NOT EXISTS (SELECT FROM signoff.attempts a
                WHERE a.operation_id = e.operation_id AND a.outcome = 'succeeded')
            AND NOT EXISTS (SELECT FROM signoff.probes q
                WHERE q.operation_id = e.operation_id AND q.finding = 'applied')
            AND NOT EXISTS (SELECT FROM signoff.evidence v
                WHERE v.operation_id = e.operation_id AND v.outcome = 'succeeded')
            AND NOT EXISTS (SELECT FROM signoff.effect_events h WHERE h.operation_id = e.operation_id
                AND h.to_status = 'succeeded' AND {BY_A_PERSON})""",
    ),
    SqlCheck(
        "I5",
        "what may have happened is not denied",
        "signoff.effects WHERE status IN ('failed', 'dead', 'cancelled', 'revoked', 'planned')",
        f"""SELECT e.operation_id AS subject, 'it is ' || e.status || ', nobody knows what came of try ' || a.number
            || ', and nothing was found out since' AS message
        FROM signoff.effects e JOIN signoff.attempts a ON a.operation_id = e.operation_id
            AND a.generation = e.generation
        WHERE e.status IN ('failed', 'dead', 'cancelled', 'revoked', 'planned')
            AND coalesce(a.outcome, 'unknown') = 'unknown' AND e.class NOT IN ('read', 'transactional')
                AND NOT {ANSWERED}""",
    ),
    SqlCheck(
        "I5",
        "a state and its newest try agree",
        "signoff.effects WHERE attempts > 0",
        """SELECT e.operation_id AS subject, 'it is ' || e.status || ', and its newest try '
            || coalesce('was ' || a.outcome, CASE WHEN a.number IS NULL THEN 'is not there' ELSE 'is still open' END)
            AS message
        FROM signoff.effects e LEFT JOIN signoff.attempts a ON a.operation_id = e.operation_id AND a.number = e.attempts
        WHERE e.attempts > 0 AND (a.number IS NULL OR e.status = 'dispatched' AND a.outcome IS NOT NULL
            OR e.status = 'failed' AND a.outcome IN ('succeeded', 'not_applied')
            OR e.status IN ('dead', 'cancelled', 'revoked', 'in_doubt', 'retry_wait') AND a.outcome = 'succeeded')""",
    ),
    SqlCheck(
        "I5",
        "it is not recorded twice",
        "signoff.attempts WHERE outcome = 'succeeded'",
        """SELECT e.operation_id AS subject, count(*) || ' tries have succeeded, and no alarm tells of it' AS message
        FROM signoff.effects e JOIN signoff.attempts a ON a.operation_id = e.operation_id AND a.outcome = 'succeeded'
        WHERE e.class NOT IN ('read', 'idempotent')
            AND NOT EXISTS (SELECT FROM signoff.alarms w WHERE w.operation_id = e.operation_id)
        GROUP BY e.operation_id HAVING count(*) > 1""",
    ),
    SqlCheck(
        "I5",
        "what has ended has a time of its end, and nothing else has",
        "signoff.effects",
        f"""SELECT operation_id AS subject, 'it is ' || status
            || ', and its end is ' || coalesce(ended_at::text, 'open')
            AS message
        FROM signoff.effects WHERE (status IN {ENDS}) <> (ended_at IS NOT NULL)""",
    ),
    SqlCheck(
        "I8",
        "persons alone change what has ended, or put something in its place",
        "signoff.effect_events WHERE from_status IN ('failed', 'dead') OR to_status = 'skipped'",
        f"""SELECT h.operation_id AS subject, h.actor || ' took it from ' || h.from_status || ' to ' || h.to_status
            || ', and is nobody that we know' AS message
        FROM signoff.effect_events h
        WHERE (h.from_status IN ('failed', 'dead') OR h.to_status = 'skipped') AND NOT {BY_A_PERSON}""",
    ),
    SqlCheck(
        "I12",
        "a job is claimed as often as it may be",
        "signoff.jobs WHERE status IN ('queued', 'running')",
        """SELECT id AS subject, 'it was claimed ' || tries || ' times without a park in between' AS message
        FROM signoff.jobs WHERE status = 'running' AND tries > %(max_tries)s""",
    ),
    SqlCheck(
        "I12",
        "tries are counted",
        "signoff.effects WHERE attempts > 0",
        """SELECT e.operation_id AS subject, 'it counts ' || e.attempts || ' tries, and ' || count(a.number)
            || ' are kept'
            AS message
        FROM signoff.effects e LEFT JOIN signoff.attempts a ON a.operation_id = e.operation_id
        GROUP BY e.operation_id HAVING count(a.number) <> e.attempts OR coalesce(max(a.number), 0) <> e.attempts""",
    ),
)
