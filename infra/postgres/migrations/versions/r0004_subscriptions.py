"""Subscriptions: where events are sent, and the log of what was sent."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0004_subscriptions.sql")
