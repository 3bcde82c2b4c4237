"""What the doctor asks Postgres about that waits for a person, or that a person holds back."""

from __future__ import annotations

from signoff.infra.cli.checks import State
from signoff.infra.cli.checks_rows import Rows

AGE = "extract(epoch FROM clock_timestamp() - min({0}))::float8 AS seconds"
ALARMS = f"""SELECT count(*) AS count, {AGE.format("at")}, (array_agg(operation_id ORDER BY at))[1] AS example
FROM signoff.alarms WHERE acknowledged_at IS NULL"""
DOUBT = f"""SELECT count(*) AS count, {AGE.format("doubt_since")},
    (array_agg(operation_id ORDER BY doubt_since))[1] AS example
FROM signoff.effects WHERE status IN ('in_doubt', 'dead', 'failed') AND status = 'in_doubt'
    AND doubt_since < clock_timestamp() - interval '15 minutes'"""
DEAD = f"""SELECT count(*) AS count, {AGE.format("ended_at")}, (array_agg(operation_id ORDER BY ended_at))[1] AS example
FROM signoff.effects WHERE status IN ('in_doubt', 'dead', 'failed') AND status = 'dead'"""
HELD = f"""SELECT count(*) AS count, {AGE.format("run_at")}, (array_agg(id::text ORDER BY run_at))[1] AS example
FROM signoff.jobs WHERE status IN ('queued', 'running', 'awaiting_review', 'awaiting_operator')
    AND status = 'awaiting_operator' AND error_code IS DISTINCT FROM 'effect_held'"""
SECOND = f"""SELECT count(*) AS count, {AGE.format("proposed_at")},
    (array_agg(operation_id ORDER BY proposed_at))[1] AS example
FROM signoff.settlements WHERE ending IS NULL AND proposed_at < clock_timestamp() - interval '1 hour'"""
PAUSES = f"""SELECT count(*) AS count, {AGE.format("created_at")},
    (array_agg(coalesce('agent ' || agent, 'tool ' || tool, 'everything') || ' by ' || created_by || ', ' || reason
        ORDER BY created_at))[1] AS example
FROM signoff.pauses WHERE ended_at IS NULL AND created_at < clock_timestamp() - interval '4 hours'"""
CIRCUITS = f"""SELECT count(*) AS count, {AGE.format("opened_at")},
    (array_agg(name || ', ' || coalesce(last_error, 'no answer') ORDER BY opened_at))[1] AS example
FROM signoff.providers WHERE opened_at IS NOT NULL"""

PEOPLE = (
    Rows(
        "alarms",
        ALARMS,
        "nobody has acknowledged",
        "`signoff effects show OPERATION` has the evidence; put it right, then `signoff alarms acknowledge ALARM`",
    ),
    Rows(
        "doubt",
        DOUBT,
        "effects in doubt for more than 15 minutes",
        "see `signoff effects list --status in_doubt`; ask the provider, then `signoff effects resolve OPERATION`",
        State.warn,
    ),
    Rows("dead effects", DEAD, "effects out of tries", "see `signoff dead-letters list --kind effect`", State.warn),
    Rows("held jobs", HELD, "jobs wait for an operator", "see `signoff dead-letters list --kind run`", State.warn),
    Rows(
        "second person",
        SECOND,
        "findings have waited an hour for another person",
        "`signoff effects show OPERATION`, then `signoff effects confirm OPERATION` by somebody else",
        State.warn,
    ),
    Rows(
        "pauses",
        PAUSES,
        "pauses have held effects back for 4 hours",
        "see `signoff pauses list`, and end what is no longer needed: `signoff pauses end PAUSE`",
        State.warn,
    ),
    Rows(
        "circuits",
        CIRCUITS,
        "providers fail, so nothing is sent to them",
        "they are tried again by themselves; ask those who run them",
        State.warn,
    ),
)
