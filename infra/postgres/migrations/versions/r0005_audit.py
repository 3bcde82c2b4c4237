"""The audit: one row for each act, written by the database itself, and the seals that chain them."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0005_audit.sql")
