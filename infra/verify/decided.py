"""Decisions and reviews: used once, by those who may. I1, I2, I10, and of I3 what a decision covers."""

from __future__ import annotations

from signoff.infra.verify.checks import SqlCheck

# A review of a job that had ended already is about an effect that runs by itself.
OF_RUNS = (
    "signoff.reviews r JOIN signoff.jobs j ON j.id = r.job_id AND (j.ended_at IS NULL OR r.created_at < j.ended_at)"
)
DECIDING = (
    "signoff.items i JOIN signoff.decisions d ON d.id = i.decision_id JOIN signoff.reviews r ON r.id = i.review_id"
)
ALLOWED = f"{DECIDING} WHERE d.type IN ('approve', 'edit') AND r.status IN ('decided', 'expired')"
DECISIONS = """signoff.decisions d JOIN signoff.items i ON i.id = d.item_id JOIN signoff.reviews r ON r.id = i.review_id
    JOIN signoff.jobs j ON j.id = r.job_id"""
SENT = "signoff.effects e WHERE e.attempts > 0"

CHECKS = (
    SqlCheck(
        "I1",
        "answers are used, or their job has ended otherwise",
        f"{OF_RUNS} WHERE r.status IN ('decided', 'expired')",
        f"""SELECT r.id AS subject, 'it is ' || r.status || ', its job has succeeded, and it was never used' AS message
        FROM {OF_RUNS} WHERE r.status IN ('decided', 'expired') AND r.resumed_at IS NULL AND j.status = 'succeeded'
            AND NOT EXISTS (SELECT FROM signoff.operator_acts a
                WHERE a.job_id = j.id AND a.act = 'job.repair' AND a.at > r.decided_at)""",
    ),
    SqlCheck(
        "I1",
        "what was allowed is an effect",
        ALLOWED,
        f"""SELECT d.id AS subject, 'it allowed ' || d.operation_id || ', and there is no such effect' AS message
        FROM {ALLOWED} AND NOT EXISTS (SELECT FROM signoff.effects e WHERE e.operation_id = d.operation_id)""",
    ),
    SqlCheck(
        "I1",
        "no review outlives its job",
        OF_RUNS,
        f"""SELECT r.id AS subject, 'it is pending, and its job has ' || j.status AS message
        FROM {OF_RUNS} WHERE r.status = 'pending' AND j.status IN ('succeeded', 'failed', 'cancelled')""",
    ),
    SqlCheck(
        "I1",
        "items and their reviews agree",
        "signoff.items",
        """SELECT i.id AS subject, 'it is ' || i.status
            || CASE WHEN i.decision_id IS NULL THEN ' without' ELSE ' by' END
            || ' a decision, and its review is ' || r.status AS message
        FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
        WHERE (i.status = 'open') AND r.status <> 'pending' OR (i.status = 'decided') <> (i.decision_id IS NOT NULL)
            OR i.decision_id IS NOT NULL AND NOT EXISTS (SELECT FROM signoff.decisions d
                WHERE d.id = i.decision_id AND d.item_id = i.id)""",
    ),
    SqlCheck(
        "I2",
        "only what was answered is used",
        "signoff.reviews WHERE resumed_at IS NOT NULL",
        """SELECT id AS subject, 'a run went on with its answers, and it is ' || status AS message
        FROM signoff.reviews WHERE resumed_at IS NOT NULL AND (status = 'pending' OR resumed_at < decided_at)""",
    ),
    SqlCheck(
        "I2",
        "a decision ends the revision that it was made on",
        DECIDING,
        f"""SELECT d.id AS subject, 'it is about revision ' || d.revision || ', and ended revision '
            || i.revision AS message
        FROM {DECIDING} WHERE d.revision <> i.revision""",
    ),
    SqlCheck(
        "I2",
        "a decision stands for one effect",
        "signoff.effects WHERE decision_id IS NOT NULL",
        """SELECT decision_id AS subject, count(*) || ' effects stand on it: '
            || string_agg(operation_id, ', ') AS message
        FROM signoff.effects WHERE decision_id IS NOT NULL GROUP BY decision_id HAVING count(*) > 1""",
    ),
    SqlCheck(
        "I3",
        "a decision covers what was sent",
        f"{SENT} AND e.decision_id IS NOT NULL",
        f"""SELECT e.operation_id AS subject, 'the decision that it stands on is '
            || CASE WHEN d.type NOT IN ('approve', 'edit') THEN d.type WHEN NOT d.counts THEN 'one that does not count'
                ELSE 'about another call' END AS message
        FROM (SELECT * FROM {SENT}) e JOIN signoff.decisions d ON d.id = e.decision_id
        WHERE NOT (d.operation_id = e.operation_id AND d.digest = e.digest AND d.counts
            AND d.type IN ('approve', 'edit'))
        """,
    ),
    SqlCheck(
        "I3",
        "what ran by a rule was asked of nobody before",
        f"{SENT} AND e.decision_id IS NULL",
        f"""SELECT e.operation_id AS subject, 'it was sent by the rule ' || e.rule || ', and people were asked of it'
            AS message
        FROM (SELECT *, (SELECT max(a.dispatched_at) FROM signoff.attempts a
                WHERE a.operation_id = e.operation_id) AS sent FROM {SENT} AND e.decision_id IS NULL) e
        WHERE EXISTS (SELECT FROM signoff.revisions v WHERE v.operation_id = e.operation_id AND v.created_at < e.sent)
            OR EXISTS (SELECT FROM signoff.items i JOIN signoff.reviews r ON r.id = i.review_id
                WHERE i.operation_id = e.operation_id AND r.created_at < e.sent)
            AND NOT EXISTS (SELECT FROM signoff.items i
                WHERE i.operation_id = e.operation_id AND i.status = 'expired')""",
    ),
    SqlCheck(
        "I10",
        "persons decide, and never about what they asked for",
        DECISIONS,
        f"""SELECT d.id AS subject, CASE WHEN p.kind IS DISTINCT FROM 'person' THEN p.name || ' is no person'
            ELSE p.name || ' wanted it' END AS message
        FROM {DECISIONS} JOIN signoff.principals p ON p.name IN (d.reviewer, d.on_behalf_of)
        WHERE p.kind <> 'person' OR p.name IN (j.submitted_by, i.terms ->> 'requested_by')""",
    ),
)
