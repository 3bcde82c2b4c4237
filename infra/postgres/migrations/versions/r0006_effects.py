"""Effects of every class, probes, results kept aside, alarms."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0006_effects.sql")
