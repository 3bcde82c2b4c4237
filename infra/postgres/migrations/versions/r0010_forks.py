"""Threads forked from others."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0010_forks.sql")
