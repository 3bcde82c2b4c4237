"""Restored backups, and which code can work on this schema."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0012_restoring.sql")
