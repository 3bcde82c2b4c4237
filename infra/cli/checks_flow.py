"""What the doctor asks Postgres about that a dispatcher should have done long ago."""

from __future__ import annotations

from signoff.infra.cli.checks_rows import Rows

LATE = "{column} < clock_timestamp() - make_interval(secs => %(patience)s)"
OLDEST = "extract(epoch FROM clock_timestamp() - min({column}))::float8 AS seconds"
DATABASE = "is a dispatcher running, and does it reach the database?"
REDIS = "is a dispatcher running, and does it reach Redis?"


def late(table: str, column: str, where: str, example: str = "NULL") -> str:
    """Rows of `table` where `column` has passed for longer than it should."""
    oldest = OLDEST.format(column=column)
    example = "NULL" if example == "NULL" else f"(array_agg({example}::text ORDER BY {column}))[1]"
    return f"SELECT count(*) AS count, {oldest}, {example} AS example FROM {table} WHERE {where} AND " + LATE.format(
        column=column
    )


FLOW = (
    Rows("leases", late("signoff.jobs", "lease_until", "status = 'running'"), "lapsed and not taken back", DATABASE),
    Rows(
        "jobs",
        late("signoff.jobs", "run_at", "status = 'queued' AND (offered_at IS NULL OR offered_at < run_at)"),
        "due and never offered",
        DATABASE,
    ),
    Rows(
        "deadlines",
        late("signoff.items", "deadline_at", "status = 'open' AND deadline_at IS NOT NULL"),
        "past their deadline and still open",
        DATABASE,
    ),
    Rows(
        "reminders",
        late("signoff.items", "next_rung_at", "status = 'open' AND next_rung_at IS NOT NULL"),
        "to be reminded of, or escalated",
        DATABASE,
    ),
    Rows("events", late("signoff.events", "at", "published_at IS NULL"), "not published", REDIS),
)
