"""What may go once an effect is over."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0013_retention.sql")
