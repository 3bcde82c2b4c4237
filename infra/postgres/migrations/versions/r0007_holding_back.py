"""Pauses, limits and circuits of providers, running workers."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0007_holding_back.sql")
