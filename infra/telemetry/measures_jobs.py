"""Measures of jobs and reviews: what is under way, and what waits for how long."""

from __future__ import annotations

from signoff.infra.postgres.tallies import FENCE_REJECTIONS, LEASES_LAPSED
from signoff.infra.telemetry.measuring import BUCKETS, Family, Kind, Measure

# Two statements for two partial indexes. `run_at` is when a job came to where it is, or is due.
UNFINISHED = """
SELECT agent, status, count(*) AS jobs,
    greatest(extract(epoch FROM now() - min(run_at)), 0)::float8 AS seconds
FROM signoff.jobs WHERE status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator') GROUP BY agent, status
UNION ALL
SELECT agent, status, count(*), greatest(extract(epoch FROM now() - min(created_at)), 0)::float8
FROM signoff.jobs WHERE status = 'waiting' GROUP BY agent, status
"""
LATELY = """
SELECT agent, status, count(*) AS jobs FROM signoff.jobs
WHERE created_at > now() - interval '15 minutes' GROUP BY agent, status
"""
QUEUES = """
SELECT a.name AS agent, due.jobs, due.seconds FROM signoff.agents a, LATERAL (
    SELECT count(*) AS jobs,
        coalesce(extract(epoch FROM now() - min(j.run_at)), 0)::float8 AS seconds
    FROM signoff.jobs j
    WHERE j.agent = a.name AND j.status = 'queued' AND j.run_at <= now()) AS due
"""
LEASES = """
SELECT count(*) AS jobs FROM signoff.jobs WHERE status = 'running' AND lease_until < now()
"""
REVIEWS = """
SELECT count(*) AS reviews, coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS seconds
FROM signoff.reviews WHERE status = 'pending'
"""
EVENTS = """
SELECT type, count(*) AS events FROM signoff.events
WHERE at > now() - interval '5 minutes' GROUP BY type
"""
# From the reviews that were decided lately to what they allowed: by ids alone.
_UP_TO = ", ".join(f"count(*) FILTER (WHERE seconds <= {bound}) AS le_{place}" for place, bound in enumerate(BUCKETS))
LATENCY = f"""
SELECT count(*) AS count, coalesce(sum(seconds), 0)::float8 AS sum, {_UP_TO} FROM (
    SELECT extract(epoch FROM f.first_dispatched_at - d.decided_at) AS seconds
    FROM (SELECT subject FROM signoff.events
        WHERE type = 'signoff.review.decided.v1' AND at > now() - interval '10 minutes'
        ORDER BY at DESC LIMIT 1000) AS e
    JOIN signoff.items i ON i.review_id = substr(e.subject, length('reviews/') + 1)::uuid
    JOIN signoff.decisions d ON d.id = i.decision_id
    JOIN signoff.effects f ON f.operation_id = d.operation_id AND f.first_dispatched_at >= d.decided_at) AS sent
"""
COUNTED = f"""
SELECT coalesce(sum(value) FILTER (WHERE name = '{LEASES_LAPSED}'), 0)::float8 AS lapsed,
    coalesce(sum(value) FILTER (WHERE name = '{FENCE_REJECTIONS}'), 0)::float8 AS rejected FROM signoff.tallies
"""

_BY_STATUS = ("agent", "status")
JOB_MEASURES = (
    Measure(
        "jobs",
        UNFINISHED,
        (
            Family("signoff_jobs", "Jobs that have not ended", _BY_STATUS, "jobs"),
            Family("signoff_job_oldest_seconds", "How long the oldest of them has been there", _BY_STATUS, "seconds"),
        ),
    ),
    Measure(
        "jobs_lately",
        LATELY,
        (Family("signoff_jobs_lately", "Jobs of the last 15 minutes by their status now", _BY_STATUS, "jobs"),),
    ),
    Measure(
        "queues",
        QUEUES,
        (
            Family("signoff_jobs_due", "Queued jobs that could run now", ("agent",), "jobs"),
            Family("signoff_queue_age_seconds", "How long the oldest of them has been due", ("agent",), "seconds"),
        ),
    ),
    Measure(
        "leases", LEASES, (Family("signoff_leases_stale", "Leases that lapsed and are not taken back yet", (), "jobs"),)
    ),
    Measure(
        "reviews",
        REVIEWS,
        (
            Family("signoff_reviews_pending", "Reviews that wait for a person", (), "reviews"),
            Family("signoff_review_oldest_seconds", "How long the oldest of them has waited", (), "seconds"),
        ),
    ),
    Measure(
        "events",
        EVENTS,
        (Family("signoff_events_lately", "Events of the last 5 minutes", ("type",), "events"),),
    ),
    Measure(
        "latency",
        LATENCY,
        (
            Family(
                "signoff_decision_to_effect_seconds",
                "From a decision to the first dispatch of what it allowed; reviews of the last 10 minutes",
                kind=Kind.histogram,
            ),
        ),
    ),
    Measure(
        "counted",
        COUNTED,
        (
            Family("signoff_leases_lapsed_total", "Leases that a worker lost", (), "lapsed", Kind.counter),
            Family(
                "signoff_fence_rejections_total",
                "Runs that were refused because another worker had the job",
                (),
                "rejected",
                Kind.counter,
            ),
        ),
    ),
)
