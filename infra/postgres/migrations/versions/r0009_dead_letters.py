"""What became of messages that could not be read."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0009_dead_letters.sql")
