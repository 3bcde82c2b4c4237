"""Measures of effects: what is open, what is in doubt, what holds them back."""

from __future__ import annotations

from signoff.infra.telemetry.measuring import Family, Kind, Measure

# One partial index for each part. What failed for good is no longer open.
OPEN = """
SELECT coalesce(class, 'none') AS class, status, count(*) AS effects FROM (
    SELECT class, status FROM signoff.effects WHERE status = 'dispatched'
    UNION ALL SELECT class, status FROM signoff.effects WHERE status = 'retry_wait'
    UNION ALL SELECT class, status FROM signoff.effects
        WHERE status IN ('in_doubt', 'dead', 'failed') AND status <> 'failed') AS open
GROUP BY 1, 2
"""
DOUBT = """
SELECT count(*) AS effects, coalesce(extract(epoch FROM now() - min(doubt_since)), 0)::float8 AS seconds
FROM signoff.effects WHERE status IN ('in_doubt', 'dead', 'failed') AND doubt_since IS NOT NULL
"""
ALARMS = """
SELECT kind, count(a.kind) AS alarms FROM (VALUES ('duplicate'), ('contradiction')) AS known (kind)
LEFT JOIN (SELECT kind FROM signoff.alarms WHERE acknowledged_at IS NULL) AS a USING (kind) GROUP BY kind
"""
# Append-only: the last position is a count that never falls.
LATE = "SELECT coalesce(max(position), 0)::float8 AS answers FROM signoff.evidence"
CIRCUITS = """
SELECT count(*) FILTER (WHERE opened_at IS NOT NULL) AS open,
    coalesce(extract(epoch FROM now() - min(opened_at)), 0)::float8 AS seconds FROM signoff.providers
"""
PAUSES = """
SELECT count(*) AS pauses, coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS seconds
FROM signoff.pauses WHERE ended_at IS NULL
"""

EFFECT_MEASURES = (
    Measure(
        "effects",
        OPEN,
        (
            Family(
                "signoff_effects",
                "Effects that were dispatched, are to be tried again, are in doubt or dead",
                ("class", "status"),
                "effects",
            ),
        ),
    ),
    Measure(
        "doubt",
        DOUBT,
        (
            Family("signoff_effects_in_doubt", "Effects of which nobody knows whether they happened", (), "effects"),
            Family("signoff_doubt_oldest_seconds", "How long the oldest has been in doubt", (), "seconds"),
        ),
    ),
    Measure(
        "alarms",
        ALARMS,
        (Family("signoff_alarms_open", "Alarms that nobody has acknowledged", ("kind",), "alarms"),),
    ),
    Measure(
        "late_answers",
        LATE,
        (
            Family(
                "signoff_late_answers_total",
                "Answers of tools that came after the lease was lost",
                (),
                "answers",
                Kind.counter,
            ),
        ),
    ),
    Measure(
        "circuits",
        CIRCUITS,
        (
            Family("signoff_circuits_open", "Providers to whom nothing is sent because they fail", (), "open"),
            Family("signoff_circuit_oldest_seconds", "How long the first of them has been failing", (), "seconds"),
        ),
    ),
    Measure(
        "pauses",
        PAUSES,
        (
            Family("signoff_pauses_active", "Pauses that hold effects back", (), "pauses"),
            Family("signoff_pause_oldest_seconds", "How long the oldest of them has held", (), "seconds"),
        ),
    ),
)
