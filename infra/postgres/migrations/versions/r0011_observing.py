"""Where a job's trace began."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0011_observing.sql")
