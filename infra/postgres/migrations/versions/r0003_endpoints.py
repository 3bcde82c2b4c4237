"""Endpoints that speak for some, with secrets that overlap."""

from signoff.infra.postgres.migrations.run_sql import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0003_endpoints.sql")
