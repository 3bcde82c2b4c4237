"""That nothing is stuck, that fences and lineages hold, and that what happened was told. I6, I7, I9."""

from __future__ import annotations

from signoff.infra.verify.checks import SqlCheck

LATE = "clock_timestamp() - %(settled)s::interval"
ENDED = "('succeeded', 'failed', 'cancelled')"
DUE = f"greatest(coalesce(e.retry_at, e.created_at), coalesce(e.last_dispatched_at, e.created_at)) < {LATE}"
# Events that were sent are deleted after their retention; the oldest that is left says of when nothing is known.
KNOWN_SINCE = "(SELECT coalesce(min(at), 'infinity') FROM signoff.events)"
TOLD_OF_EFFECT = """(VALUES ('succeeded', 'signoff.effect.succeeded.v1'), ('failed', 'signoff.effect.failed.v1'),
    ('in_doubt', 'signoff.effect.doubted.v1'), ('dead', 'signoff.effect.died.v1'),
    ('revoked', 'signoff.effect.revoked.v1'))"""
TOLD_OF_JOB = """(VALUES ('succeeded', 'signoff.job.succeeded.v1'), ('failed', 'signoff.job.failed.v1'),
    ('cancelled', 'signoff.job.cancelled.v1'), ('awaiting_operator', 'signoff.job.held.v1'))"""

CHECKS = (
    SqlCheck(
        "I6",
        "who waits for a review has one",
        "signoff.jobs WHERE status = 'awaiting_review'",
        """SELECT j.id AS subject, 'it awaits a review, and none of its reviews is pending' AS message
            FROM signoff.jobs j
        WHERE j.status = 'awaiting_review'
            AND NOT EXISTS (SELECT FROM signoff.reviews r WHERE r.job_id = j.id AND r.status = 'pending')""",
    ),
    SqlCheck(
        "I6",
        "who waits for an operator has a reason",
        "signoff.jobs WHERE status = 'awaiting_operator'",
        """SELECT j.id AS subject, CASE WHEN j.error_code IS NULL THEN
            'it awaits an operator for no reason that is given'
            ELSE 'it awaits an operator for effects, and all of them are settled' END AS message
        FROM signoff.jobs j WHERE j.status = 'awaiting_operator' AND (j.error_code IS NULL
            OR j.error_code = 'effect_held'
            AND NOT EXISTS (SELECT FROM signoff.effects e
                WHERE (e.job_id = j.id OR strpos(j.error_message, e.operation_id) > 0)
                AND (e.status IN ('in_doubt', 'dead') OR e.status = 'failed' AND e.holds)))""",
    ),
    SqlCheck(
        "I6",
        "due jobs are taken",
        "signoff.jobs WHERE status = 'queued'",
        f"""SELECT id AS subject, 'it is due since ' || run_at || ', and nobody has taken it' AS message
        FROM signoff.jobs WHERE status = 'queued' AND run_at < {LATE}""",
    ),
    SqlCheck(
        "I6",
        "lost workers are noticed",
        "signoff.jobs WHERE status = 'running'",
        f"""SELECT id AS subject, 'the lease of ' || coalesce(lease_owner, 'nobody') || ' has lapsed at ' || lease_until
            AS message
        FROM signoff.jobs WHERE status = 'running' AND lease_until < {LATE}""",
    ),
    SqlCheck(
        "I6",
        "who waits for its thread has somebody before it",
        "signoff.jobs WHERE status = 'waiting'",
        f"""SELECT w.id AS subject, 'it waits for another job of its thread, and none is under way' AS message
        FROM signoff.jobs w WHERE w.status = 'waiting' AND w.created_at < {LATE}
            AND NOT EXISTS (SELECT FROM signoff.jobs s WHERE s.thread_id = w.thread_id
                AND s.status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator'))""",
    ),
    SqlCheck(
        "I6",
        "what was sent has somebody who hears the answer",
        "signoff.effects WHERE status = 'dispatched'",
        f"""SELECT e.operation_id AS subject, 'it was sent, and nobody holds the lease any more' AS message
        FROM signoff.effects e WHERE e.status = 'dispatched' AND e.last_dispatched_at < {LATE}
            AND CASE WHEN e.fence < 0 THEN e.lease_until < {LATE}
                ELSE NOT EXISTS (SELECT FROM signoff.jobs j
                    WHERE j.id = e.job_id AND j.fence = e.fence AND j.status = 'running') END""",
    ),
    SqlCheck(
        "I6",
        "what is to be sent will be",
        "signoff.effects WHERE status IN ('planned', 'retry_wait')",
        f"""SELECT e.operation_id AS subject, 'it is ' || e.status || ' and due, and its job has ' || j.status
            AS message
        FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id
        WHERE e.status IN ('planned', 'retry_wait') AND j.status IN {ENDED} AND {DUE}""",
    ),
    SqlCheck(
        "I6",
        "deadlines are kept",
        "signoff.items WHERE status = 'open' AND deadline_at IS NOT NULL",
        f"""SELECT id AS subject, 'it is open, and its deadline was ' || deadline_at AS message
        FROM signoff.items WHERE status = 'open' AND deadline_at < {LATE}""",
    ),
    SqlCheck(
        "I7",
        "fences only grow",
        "signoff.attempts",
        """SELECT operation_id AS subject, 'try ' || number || ' had fence ' || fence
            || ', and the one before ' || before
            AS message
        FROM (SELECT operation_id, number, fence, lag(fence) OVER (PARTITION BY operation_id, sign(fence) ORDER BY
            number)
                AS before FROM signoff.attempts) a
        WHERE abs(fence) < abs(before)""",
    ),
    SqlCheck(
        "I7",
        "no try is ahead of its job",
        "signoff.effects WHERE fence > 0",
        """SELECT e.operation_id AS subject, 'its fence is ' || e.fence || ', and its job''s is ' || j.fence AS message
        FROM signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id WHERE e.fence > j.fence""",
    ),
    SqlCheck(
        "I7",
        "a thread's head is there",
        "signoff.threads WHERE head_checkpoint_id IS NOT NULL",
        """SELECT t.id AS subject, 'its head ' || t.head_checkpoint_id || ' is no checkpoint' AS message
        FROM signoff.threads t WHERE t.head_checkpoint_id IS NOT NULL AND NOT EXISTS (SELECT
            FROM langgraph.checkpoints c
            WHERE c.thread_id = t.id AND c.checkpoint_ns = '' AND c.checkpoint_id = t.head_checkpoint_id)""",
    ),
    SqlCheck(
        "I7",
        "a thread has one history",
        "langgraph.checkpoints WHERE checkpoint_ns = ''",
        """SELECT c.thread_id AS subject, 'its history has another end beside its head: ' || c.checkpoint_id AS message
        FROM langgraph.checkpoints c JOIN signoff.threads t ON t.id = c.thread_id
        WHERE c.checkpoint_ns = '' AND c.checkpoint_id IS DISTINCT FROM t.head_checkpoint_id
            AND NOT EXISTS (SELECT FROM langgraph.checkpoints n WHERE n.thread_id = c.thread_id
                AND n.checkpoint_ns = '' AND n.parent_checkpoint_id = c.checkpoint_id)
            AND NOT EXISTS (SELECT FROM signoff.operator_acts a JOIN signoff.jobs j ON j.id = a.job_id
                WHERE j.thread_id = t.id AND a.act LIKE '%%repair%%')""",
    ),
    SqlCheck(
        "I9",
        "a state of an effect that others wait for is told",
        f"signoff.effects e JOIN {TOLD_OF_EFFECT} AS told (status, type) ON told.status = e.status",
        f"""SELECT e.operation_id AS subject, 'it is ' || e.status || ', and there is no event of it' AS message
        FROM signoff.effects e JOIN {TOLD_OF_EFFECT} AS told (status, type) ON told.status = e.status
        WHERE (SELECT max(h.at) FROM signoff.effect_events h WHERE h.operation_id = e.operation_id) > {KNOWN_SINCE}
            AND e.error_code IS DISTINCT FROM 'restored'
            AND NOT EXISTS (SELECT FROM signoff.events v WHERE v.job_id = e.job_id
                AND v.subject = 'effects/' || e.operation_id AND v.type IN (told.type, 'signoff.effect.settled.v1'))""",
    ),
    SqlCheck(
        "I9",
        "the end of a job, or what holds it, is told",
        f"signoff.jobs j JOIN {TOLD_OF_JOB} AS told (status, type) ON told.status = j.status",
        f"""SELECT j.id AS subject, 'it is ' || j.status || ', and there is no event of it' AS message
        FROM signoff.jobs j JOIN {TOLD_OF_JOB} AS told (status, type) ON told.status = j.status
        WHERE j.ended_at > {KNOWN_SINCE}
            AND NOT EXISTS (SELECT FROM signoff.events v WHERE v.job_id = j.id AND v.type = told.type)""",
    ),
    SqlCheck(
        "I9",
        "a review that waits was told",
        "signoff.reviews WHERE status = 'pending'",
        f"""SELECT r.id AS subject, 'it is pending, and there is no event of it' AS message FROM signoff.reviews r
        WHERE r.status = 'pending' AND r.created_at > {KNOWN_SINCE} AND NOT EXISTS (SELECT FROM signoff.events v
            WHERE v.job_id = r.job_id AND v.subject = 'reviews/' || r.id AND v.type = 'signoff.review.requested.v1')""",
    ),
    SqlCheck(
        "I9",
        "a job's events have no gap",
        "signoff.events WHERE job_id IS NOT NULL",
        """SELECT v.job_id AS subject, count(*) || ' events from ' || min(sequence) || ' to ' || max(sequence)
            || ', and the job counts ' || max(j.event_sequence) AS message
        FROM signoff.events v JOIN signoff.jobs j ON j.id = v.job_id GROUP BY v.job_id
        HAVING count(*) <> max(sequence) - min(sequence) + 1 OR count(DISTINCT sequence) <> count(*)
            OR max(sequence) <> max(j.event_sequence)""",
    ),
    SqlCheck(
        "I9",
        "events are sent",
        "signoff.events",
        f"""SELECT id AS subject, 'it is of ' || at || ', and was not sent to Redis' AS message
        FROM signoff.events WHERE published_at IS NULL AND at < {LATE}""",
    ),
)
