"""Operators' acts and findings that wait for a second person."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0008_operating.sql")
