"""What the doctor asks Postgres about that waits for something which will not come by itself.

None of these should ever be found: each is a rule of the design, looked at from outside.
"""

from __future__ import annotations

from signoff.infra.cli.checks_flow import DATABASE, late
from signoff.infra.cli.checks_rows import Rows

STARTED = "('queued', 'running', 'awaiting_review', 'awaiting_operator')"
REPORT = "this is a fault of Signoff: keep `signoff jobs story JOB --json` for a report"

# `run_at` is when a job came to where it is.
WITHOUT_REVIEW = late(
    "signoff.jobs j",
    "j.run_at",
    f"""j.status IN {STARTED} AND j.status = 'awaiting_review'
    AND NOT EXISTS (SELECT FROM signoff.reviews r WHERE r.job_id = j.id AND r.status = 'pending')""",
    "j.id",
)
WITHOUT_REASON = late(
    "signoff.jobs j",
    "j.run_at",
    f"""j.status IN {STARTED} AND j.status = 'awaiting_operator' AND j.error_code = 'effect_held'
    AND NOT EXISTS (SELECT FROM signoff.effects e WHERE e.job_id = j.id
        AND e.status IN ('in_doubt', 'dead', 'failed'))""",
    "j.id",
)
STRANDED = late(
    "signoff.jobs w",
    "w.created_at",
    f"""w.status = 'waiting' AND NOT EXISTS (SELECT FROM signoff.jobs s WHERE s.thread_id = w.thread_id
    AND s.status IN {STARTED})""",
    "w.id",
)
WITHOUT_JOB = late(
    "signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id",
    "r.created_at",
    "r.status = 'pending' AND j.status IN ('succeeded', 'failed', 'cancelled')",
    "r.id",
)
# As `EffectTable.lapsed` has it: a job's fences are positive, those of calls that run by themselves are not.
WITHOUT_LEASE = late(
    "signoff.effects e",
    "e.last_dispatched_at",
    """e.status = 'dispatched' AND CASE WHEN e.fence < 0 THEN e.lease_until < clock_timestamp()
    ELSE NOT EXISTS (SELECT FROM signoff.jobs j WHERE j.id = e.job_id AND j.fence = e.fence AND j.status = 'running')
    END""",
    "e.operation_id",
)
ALONE = late(
    """signoff.effects e, LATERAL (SELECT coalesce(e.retry_at, max(v.at), e.created_at) AS since
        FROM signoff.effect_events v WHERE v.operation_id = e.operation_id) AS due""",
    "due.since",
    """e.alone AND NOT e.awaits_operator AND e.status IN ('planned', 'retry_wait')
    AND (e.offered_at IS NULL OR e.offered_at < clock_timestamp() - interval '1 minute')""",
    "e.operation_id",
)
UNPROBED = late("signoff.effects e", "e.probe_at", "e.probe_at IS NOT NULL", "e.operation_id")
LEFT_BEHIND = late(
    "signoff.effects e JOIN signoff.jobs j ON j.id = e.job_id",
    "e.retry_at",
    "e.status = 'retry_wait' AND NOT e.alone AND j.status IN ('succeeded', 'failed', 'cancelled')",
    "e.operation_id",
)

STUCK = (
    Rows("jobs without a review", WITHOUT_REVIEW, "wait for a review that is not pending", REPORT),
    Rows(
        "jobs held for nothing",
        WITHOUT_REASON,
        "wait for an effect that is settled",
        "queue each again with `signoff jobs retry JOB`",
    ),
    Rows("threads without a start", STRANDED, "wait although their thread is free", DATABASE),
    Rows("reviews without a job", WITHOUT_JOB, "wait for a person though their job has ended", REPORT),
    Rows("effects without a lease", WITHOUT_LEASE, "dispatched by a worker that is gone", DATABASE),
    Rows("effects alone", ALONE, "to run by themselves and never offered", DATABASE),
    Rows("effects to be asked about", UNPROBED, "whose provider nobody asks", "is a worker of their agent running?"),
    Rows("effects left behind", LEFT_BEHIND, "to be tried again though their job has ended", REPORT),
)
